"""Problems of workspaces on the Desk: engines that do not answer, and workspaces that ended by themselves."""

from collections import defaultdict
from dataclasses import dataclass, field

from django.db.models import OuterRef, Subquery

from workspaces.host import place
from workspaces.models import Command, Operation, Phase, ReasonCode, Run, State, StateCode, Workspace
from workspaces.operations import endings
from workspaces.operations.shown_state import what_to_do
from workspaces.programs import terminals

MAX_ROWS = 10


@dataclass
class Away:
    """An engine that does not answer, with the workspaces that are up on it."""

    engine: str
    host: str
    workspaces: list = field(default_factory=list)

    @property
    def reason(self) -> str:
        """The driver's reason, without the words about one workspace."""
        return what_to_do(self.workspaces[0])

    @property
    def keys(self) -> str:
        return ", ".join(workspace.key for workspace in self.workspaces[:MAX_ROWS])


def away(workspaces) -> dict:
    """Return {engines: [Away], held_up: [Workspace]}: engines that do not answer, and workspaces held up one by one.

    A workspace whose whole host does not answer is one of the latter: nobody knows whether its engine does.
    """
    rows = workspaces.filter(state=State.READY, reason_code__in=StateCode.out_of_reach())
    found, held_up = defaultdict(list), []
    for workspace in rows.select_related("team", "environment", "runner").order_by("key"):
        backend = workspace.environment.capabilities.backend
        if backend and workspace.reason_code != StateCode.HELD_UP and not place.is_away(workspace):
            found[backend, workspace.runner and workspace.runner.host].append(workspace)
        else:
            held_up.append(workspace)
    return {"engines": [Away(*which, each) for which, each in found.items()], "held_up": held_up[:MAX_ROWS]}


@dataclass
class Ended:
    """A workspace that ended by itself, with its commands; shown until somebody resumes it or dismisses the row."""

    run: Run
    may_use: bool
    commands: list[str]  # the first lines of some that ended with it, not of services

    @property
    def workspace(self) -> Workspace:
        return self.run.workspace

    @property
    def reason(self) -> str:
        return endings.sentence(self.run.end_code, self.run.end_reason)


def ended(caller, workspaces) -> list[Ended]:
    newest = Run.objects.filter(workspace=OuterRef("workspace")).order_by("-started_at").values("pk")[:1]
    runs = Run.objects.filter(
        workspace__in=workspaces.filter(state=State.STOPPED), end_code__in=endings.BY_ITSELF, dismissed_at=None
    )
    runs = runs.filter(pk=Subquery(newest)).select_related("workspace__team").order_by("-ended_at")[:MAX_ROWS]
    commands = _lost_commands(runs)
    return [Ended(run, caller.can("use_workspace", run.workspace.team_id), commands[run.pk][:3]) for run in runs]


def _lost_commands(runs) -> dict[object, list[str]]:
    """Return {id of a run: the first lines of the commands that ended with it}."""
    rows = Command.objects.filter(service="", operation__outcome__reason_code=ReasonCode.LOST)
    found = defaultdict(list)
    for run_id, text in rows.filter(run__in=[run.pk for run in runs]).values_list("run", "shown"):
        if lines := text.strip().splitlines():
            found[run_id].append(lines[0][:80])
    return found


def unknown(caller, workspaces, since) -> list[tuple[Operation, str, bool]]:
    """Return (operation, what it ran, whether the caller may put it away) of operations with an unknown outcome.

    An approved call has its card.
    """
    rows = Operation.objects.filter(workspace__in=workspaces, phase=Phase.UNCERTAIN, action=None, dismissed_at=None)
    rows = rows.filter(settled_at__gte=since).select_related("workspace__team", "command", "terminal")
    return [
        (operation, _text_of(operation), caller.can("use_workspace", operation.workspace.team_id))
        for operation in rows.order_by("-settled_at")[:MAX_ROWS]
    ]


def _text_of(operation: Operation) -> str:
    if command := getattr(operation, "command", None):
        return command.shown
    terminal = getattr(operation, "terminal", None)
    return terminals.name_of(terminal) if terminal else ""
