"""Template filters with labels for workspaces, snapshots and commands: {% load workspace_words %}."""

from urllib.parse import quote_from_bytes

from django import template
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy

from dashboard.text.visible_text import visible
from workspaces.models import Phase, ReasonCode, State
from workspaces.operations.shown_state import frozen_words, shown_state

register = template.Library()


register.filter("workspace_state", shown_state)


register.filter("frozen_words", frozen_words)


@register.filter
def unfilled(submodules: list) -> int:
    """Return how many submodules of a source could not be cloned."""
    return sum(bool(submodule["reason"]) for submodule in submodules)


# Why a snapshot was taken, by its kind.
SNAPSHOT_KINDS = {
    "setup": gettext_lazy("after setup"),
    "action": gettext_lazy("before an action"),
    "asked": gettext_lazy("when an agent asked"),
    "end": gettext_lazy("automatic, on pause or stop"),
    "safety": gettext_lazy("automatic"),
    "boundary": gettext_lazy("before more access"),
    "manual": gettext_lazy("manual"),
    "found": gettext_lazy("found on resume"),
    "revision": gettext_lazy("source update"),
    "fork": gettext_lazy("forked"),
}


@register.filter
def snapshot_words(snapshot) -> str:
    return SNAPSHOT_KINDS.get(snapshot.kind, snapshot.kind)


@register.filter
def command_words(command) -> str:
    """Return a label for the command's state or end. Load it with its operation and workspace."""
    words, failures = _command_words(command), getattr(command, "failures", 0)
    if failures < 2:
        return words
    return gettext("%(words)s · failed %(n)s times") % {"words": words, "n": failures}


def _command_words(command) -> str:
    phase = command.operation.phase
    if phase == Phase.UNCERTAIN:
        return gettext("Outcome unknown")
    if phase != Phase.SETTLED:
        goes_on = (
            gettext("Paused")
            if phase == Phase.STARTED and command.workspace.state == State.PAUSED
            else gettext("Running")
        )
        if phase == Phase.STARTED and frozen_words(command.workspace):
            goes_on = gettext("Frozen: disk full")
        words = {Phase.DUE: gettext("Queued")}.get(phase, goes_on)
        return gettext("%(state)s (stopping)") % {"state": words} if command.cancelled_at else words
    if command.cancelled_at and command.exit_status != 0:
        return gettext("Stopped by a person")
    if command.operation.outcome.get("reason") == "oom":
        return gettext("Out of memory")
    if command.signal:
        return gettext("Ended by signal %(signal)s") % {"signal": command.signal}
    if command.exit_status is None:
        if command.operation.outcome.get("reason_code") in (ReasonCode.LOST, ReasonCode.KILLED):
            return gettext("Ended with its workspace")
        return gettext("Ended while paused") if "exit_status" in command.operation.outcome else gettext("Did not run")
    return (
        gettext("Done")
        if command.exit_status == 0
        else gettext("Failed with status %(exit_status)s") % {"exit_status": command.exit_status}
    )


@register.filter
def command_reason(command) -> str:
    """Return why a command ended in another way than by its own exit, or did not run; "" for other commands."""
    outcome = command.operation.outcome or {}
    if outcome.get("reason") == "exited":
        return outcome.get("words", "") if outcome.get("oom_kills") else ""
    return outcome.get("words") or outcome.get("reason") or ""


@register.simple_tag
def terminal_url(slug: str, key: str, terminal) -> str:
    """Return the URL of a terminal, or of its recording once it has ended."""
    return reverse("terminal-recording" if terminal.ended_at else "terminal", args=(slug, key, terminal.pk))


@register.filter
def restore_tone(outcome: dict) -> str:
    """Return the tone of a restore's outcome: red where files differ from the snapshot."""
    if (outcome.get("proof") or {}).get("differ"):
        return "red"
    return "amber" if outcome.get("missing_snapshot") or outcome.get("not_compared") else "calm"


@register.filter
def command_tone(command) -> str:
    phase = command.operation.phase
    if phase == Phase.UNCERTAIN:
        return "amber"
    if phase != Phase.SETTLED:
        return "red" if phase == Phase.STARTED and frozen_words(command.workspace) else "accent"
    return "calm" if command.exit_status == 0 else "red"


@register.filter
def percent(text: str) -> str:
    """Percent-encode a path for a URL; names that are not UTF-8 keep their bytes."""
    return quote_from_bytes(text.encode("utf-8", "surrogateescape"))


@register.filter
def folder_name(path: bytes) -> str:
    """Return a folder's path as HTML with a slash at its end; "/" alone is the workspace's own folder."""
    return visible(path.decode("utf-8", "surrogateescape") + "/", one_line=True)
