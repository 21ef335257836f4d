"""Track activity in workspaces, and say why a workspace is awake.

Activity is: a command that is submitted, runs or ends; input to a terminal, or its output; an API call that changes the
workspace; and a report from an agent's hook. Reading is not: an open page, a silent terminal, a service, or an API call
that only reads.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError, connection
from django.db.models import Q
from django.utils.translation import gettext

from dashboard.database import clock
from dashboard.problems import Problem
from workspaces.models import Command, Operation, State, Terminal, Workspace
from workspaces.programs import recordings, terminals

TOUCH_INTERVAL = timedelta(seconds=5)  # at most one write to the database in this time


def touch(workspace):
    """Record activity now.

    Running commands and terminal output are not recorded; `why_awake` reads them from operations and recordings.
    """
    now = clock.now()
    if workspace.last_active_at and now - workspace.last_active_at < TOUCH_INTERVAL:
        return
    stale = Q(last_active_at=None) | Q(last_active_at__lt=now - TOUCH_INTERVAL)
    try:
        Workspace.objects.filter(stale, pk=workspace.pk).update(last_active_at=now)
    except OperationalError:
        if connection.in_atomic_block:
            raise
        return  # for example a full disk: reading must still work
    workspace.last_active_at = now


@dataclass(frozen=True)
class Awake:
    """The reason a workspace is up, to follow "Awake:", and when it is paused without further activity.

    Code in `because` stands between backticks.
    """

    because: str
    until: datetime | None = None  # None: not paused while the reason holds

    @property
    def is_over(self) -> bool:
        return self.until is not None and self.until <= clock.now()


def idle_after(workspace) -> timedelta:
    """Return the time without activity after which the workspace is paused."""
    return timedelta(seconds=workspace.environment.idle_seconds or settings.HANDRAIL_IDLE_SECONDS)


def stops_after(workspace) -> timedelta:
    """Return the time after which a paused workspace is stopped."""
    return timedelta(seconds=workspace.environment.stop_seconds or settings.HANDRAIL_STOP_SECONDS)


def why_awake(workspace) -> Awake | None:
    """Return the strongest reason to be up, or None if the workspace is not. Load it with its environment."""
    if workspace.state != State.READY:
        return None
    if workspace.own_folder:
        return Awake(gettext("your own folder is never paused"))
    under_way = Operation.objects.open().filter(workspace=workspace)
    if lasting := _lasting(under_way):
        return Awake(lasting)
    last, because = _last(workspace, under_way)
    until = last + idle_after(workspace)
    if workspace.awake_until and workspace.awake_until > until:
        return Awake(gettext("kept running on request"), workspace.awake_until)
    return Awake(because, until)


def _lasting(under_way) -> str:
    """Return the operation in progress that counts as activity, in words, or ""."""
    command = Command.objects.filter(operation__in=under_way, service="").order_by("created_at").first()
    if command:
        return gettext("`%(command)s` is running") % {"command": command.shown.splitlines()[0][:80].replace("`", "'")}
    kept_up = Q(terminal__isnull=False) | Q(command__isnull=False)
    return gettext("an operation is in progress") if under_way.exclude(kept_up).exists() else ""


def _last(workspace, under_way) -> tuple[datetime, str]:
    """Return when the last activity was, and what it was."""
    last, because = workspace.last_active_at or workspace.created_at, gettext("it was used")
    for terminal in Terminal.objects.filter(operation__in=under_way):
        terminal.workspace = workspace
        if (printed := _printed_at(terminal)) and printed > last:
            last = printed
            because = gettext("output in terminal %(name)s") % {"name": terminals.name_of(terminal)[:80]}
    return last, because


def _printed_at(terminal) -> datetime | None:
    """Return when it last printed; None before, and while its host cannot be reached."""
    try:
        return recordings.of(terminal).printed_at()
    except Problem:
        return None
