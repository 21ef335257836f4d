"""What another host needs to lead a living Run: kept in the database, encrypted by the ring."""

import json
from typing import NamedTuple

from dashboard.keys import keyring
from workspaces.models import Run, RunLead


class Lead(NamedTuple):
    """`needed`: as the driver has it. `authority`: the one that the Run's programs trust (PEM with its key), or ""."""

    needed: str
    authority: str


def keep(run: Run, needed: str, authority: str = ""):
    """Keep it for whoever leads the Run when its host is lost."""
    with keyring.steady() as ring:
        row, value = RunLead(run=run), json.dumps(Lead(needed, authority)).encode()
        RunLead.objects.update_or_create(run=run, defaults={"value": ring.encrypt(value, associated_data(row))})


def read(run: Run) -> Lead:
    """Return what was kept. Raise RunLead.DoesNotExist, keyring.Unreadable."""
    row = RunLead.objects.get(run=run)
    return Lead(*json.loads(keyring.load().decrypt(row.value, associated_data(row))))


def associated_data(row: RunLead) -> str:
    return f"lead {row.run_id}"


def encrypted_column():
    """Return the rows and the function to the associated data, for a rotation of the ring."""
    return RunLead.objects.all(), associated_data
