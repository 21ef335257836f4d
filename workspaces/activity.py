"""What counts as activity, and why a workspace is awake.

It is activity when a command is asked for, runs, or ends; when somebody types into a terminal, or it prints; when the
API is asked to do something with the workspace; and when an agent's hook reports from it. It is none to look: an open
page, an open terminal that is silent, a service, or a call that only asks how things stand.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import Q

from dashboard import clock
from workspaces import places, terminals
from workspaces.models import Command, Effect, State, Terminal, Workspace

OFTEN = timedelta(seconds=5)  # one write in so long is enough


def touch(workspace):
    """There is activity now: everything that counts, but for what runs and prints, comes through here."""
    now = clock.now()
    if workspace.last_active_at and now - workspace.last_active_at < OFTEN:
        return
    stale = Q(last_active_at=None) | Q(last_active_at__lt=now - OFTEN)
    try:
        Workspace.objects.filter(stale, pk=workspace.pk).update(last_active_at=now)
    except OperationalError:
        if connection.in_atomic_block:
            raise
        return  # the disk is full, say: whoever only reads still can
    workspace.last_active_at = now


@dataclass(frozen=True)
class Awake:
    """Why a workspace is up: a clause that goes on after "because", and when it sleeps if nothing else happens."""

    because: str
    until: datetime | None = None  # None: not while this lasts

    @property
    def is_over(self) -> bool:
        return self.until is not None and self.until <= clock.now()


def idle_after(workspace) -> timedelta:
    return timedelta(seconds=workspace.environment.idle_seconds or settings.HANDRAIL_IDLE_SECONDS)


def stops_after(workspace) -> timedelta:
    return timedelta(seconds=workspace.environment.stop_seconds or settings.HANDRAIL_STOP_SECONDS)


def why_awake(workspace) -> Awake | None:
    """The strongest reason there is; None for one that is not up. Comes with its environment."""
    if workspace.state != State.READY:
        return None
    if workspace.source.get("path"):
        return Awake("it is a folder of yours, which never sleeps")
    under_way = Effect.objects.open().filter(workspace=workspace)
    if lasting := _lasting(under_way):
        return Awake(lasting)
    last, because = _last(workspace, under_way)
    until = last + idle_after(workspace)
    if workspace.awake_until and workspace.awake_until > until:
        return Awake("somebody asked for it", workspace.awake_until)
    return Awake(because, until)


def _lasting(under_way) -> str:
    """What is activity for as long as it goes on."""
    command = Command.objects.filter(effect__in=under_way, service="").order_by("created_at").first()
    if command:
        return f"`{command.shown.splitlines()[0][:80]}` runs"
    kept_up = Q(terminal__isnull=False) | Q(command__isnull=False)
    return "something is under way" if under_way.exclude(kept_up).exists() else ""


def _last(workspace, under_way) -> tuple[datetime, str]:
    """The last moment of activity, and what it was."""
    last, because = workspace.last_active_at or workspace.created_at, "it was used"
    for terminal in Terminal.objects.filter(effect__in=under_way):
        if (printed := _printed_at(places.program_of(workspace.pk, terminal.effect_id))) and printed > last:
            last, because = printed, f"the terminal `{terminals.name_of(terminal)[:80]}` printed"
    return last, because


def _printed_at(folder) -> datetime | None:
    """When the program of this folder printed last."""
    try:
        return datetime.fromtimestamp((folder / "index").stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
