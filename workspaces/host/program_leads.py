"""What another host needs to go on with a running program: kept in the database, encrypted by the ring.

It is kept from before the start of a command or a terminal to its end, in Runs that another host can lead.
"""

import json
from dataclasses import dataclass

from dashboard.keys import keyring
from workspaces.models import Operation, ProgramLead, RunLead
from workspaces.shim.record import ShimSpec

OF_THE_SPEC = ("argv", "pty", "cols", "rows", "timeout_s", "ring")


@dataclass(frozen=True)
class Led:
    """`fields`: those of the program's ShimSpec that its new shim needs. `hidden`: (name, value) of each secret."""

    fields: dict
    hidden: tuple[tuple[str, str], ...]


def keep(operation: Operation, run_id, spec: ShimSpec, hidden) -> bool:
    """Keep it for the next host of the Run, if this one is lost; return False if no other host can lead this Run."""
    if not RunLead.objects.filter(run=run_id).exists():
        return False
    value = {"fields": {name: getattr(spec, name) for name in OF_THE_SPEC}, "hidden": [*hidden]}
    row = ProgramLead(operation=operation, run_id=run_id)
    with keyring.steady() as ring:
        fresh = {"run_id": run_id, "value": ring.encrypt(json.dumps(value).encode(), associated_data(row))}
        ProgramLead.objects.update_or_create(operation=operation, defaults=fresh)
    return True


def read(row: ProgramLead) -> Led:
    """Return what was kept. Raise keyring.Unreadable."""
    value = json.loads(keyring.load().decrypt(row.value, associated_data(row)))
    return Led(value["fields"], tuple((name, text) for name, text in value["hidden"]))


def forget(operation: Operation):
    ProgramLead.objects.filter(operation=operation).delete()


def associated_data(row: ProgramLead) -> str:
    return f"lead of the program {row.operation_id}"


def encrypted_column():
    """Return the rows and the function to the associated data, for a rotation of the ring."""
    return ProgramLead.objects.all(), associated_data
