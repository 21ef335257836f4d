"""Who and what caused a snapshot or a resume: the actor, and the operation, action or command behind it."""

from dashboard.models import Actor
from workspaces import extensions
from workspaces.models import Command, Operation

MAX_COMMAND = 500  # characters


def cause_of(by: Actor, operation: Operation | None) -> dict:
    """Return {actor, operation, action, command}; `action` is {id, number} of the approved action, else None."""
    command = Command.objects.filter(operation=operation).first() if operation else None
    return {
        "actor": by.as_json,
        "operation": {"kind": operation.kind, "id": str(operation.pk)} if operation else None,
        "action": extensions.ports.name_of_action(by.approval) if by.approval else None,
        "command": command.shown[:MAX_COMMAND] if command else None,
    }
