"""Words for workspaces and their commands: {% load workspace_words %}."""

from urllib.parse import quote_from_bytes

from django import template

from workspaces.models import Phase, State

register = template.Library()


@register.filter
def workspace_state(workspace) -> str:
    """The name of its state as pages say it (see handrail's state_words): what is derived, then what is stored."""
    if workspace.trashed_at:
        return "deleted"
    return "working" if workspace.state == State.READY and workspace.running else workspace.state


@register.filter
def command_words(command) -> str:
    """How a command stands or ended. Comes with its effect and workspace."""
    phase = command.effect.phase
    if phase == Phase.UNCERTAIN:
        return "Unclear: nobody knows whether it ran"
    if phase != Phase.SETTLED:
        asked = " (asked to end)" if command.cancelled_at else ""
        goes_on = "Asleep" if phase == Phase.STARTED and command.workspace.state == State.PAUSED else "Running"
        return {Phase.DUE: "Waiting for the runner"}.get(phase, goes_on) + asked
    if command.cancelled_at and command.exit_status != 0:
        return "Ended by a person"
    if command.signal:
        return f"Ended by signal {command.signal}"
    if command.exit_status is None:
        return "Ended in its sleep" if "exit_status" in command.effect.outcome else "Did not run"
    return "Done" if command.exit_status == 0 else f"Failed with status {command.exit_status}"


@register.filter
def command_tone(command) -> str:
    phase = command.effect.phase
    if phase == Phase.UNCERTAIN:
        return "amber"
    if phase != Phase.SETTLED:
        return "accent"
    return "calm" if command.exit_status == 0 else "red"


@register.filter
def percent(text: str) -> str:
    """For an address: names that are not UTF-8 keep their bytes."""
    return quote_from_bytes(text.encode("utf-8", "surrogateescape"))
