"""What another host needs to lead a living Run, as its driver has it: kept in the database, encrypted by the ring."""

from dashboard.keys import keyring
from workspaces.models import Run, RunLead


def keep(run: Run, needed: str):
    """Keep it for whoever leads the Run when its host is lost."""
    with keyring.steady() as ring:
        row = RunLead(run=run)
        RunLead.objects.update_or_create(
            run=run, defaults={"value": ring.encrypt(needed.encode(), associated_data(row))}
        )


def read(run: Run) -> str:
    """Return what was kept. Raise RunLead.DoesNotExist, keyring.Unreadable."""
    row = RunLead.objects.get(run=run)
    return keyring.load().decrypt(row.value, associated_data(row)).decode()


def associated_data(row: RunLead) -> str:
    return f"lead {row.run_id}"


def encrypted_column():
    """Return the rows and the function to the associated data, for a rotation of the ring."""
    return RunLead.objects.all(), associated_data
