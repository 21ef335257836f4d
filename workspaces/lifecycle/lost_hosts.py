"""End the workspaces and the operations of a host that is lost for good."""

from django.db.models import F

from dashboard.database import clock
from dashboard.models import Actor, Team
from workspaces.lifecycle.states import record
from workspaces.models import EndCode, Operation, Phase, ReasonCode, Run, Runner, State, Workspace


def give_up(runner: Runner, *, by: Actor) -> list[Workspace]:
    """Fail the workspaces of a host whose folder is lost, and end what was asked of it; return them.

    Their log, actions and snapshots' rows stay. They can be deleted once the team's store is on another host.
    """
    lost = list(Workspace.objects.filter(runner=runner, purged_at=None).order_by("key"))
    for team_id in sorted({workspace.team_id for workspace in lost}):
        with Team.objects.turn(team_id):
            for workspace in lost:
                if workspace.team_id == team_id:
                    _end(workspace, f"Its host {runner.host} is lost, and its files with it.", by)
    return lost


def _end(workspace: Workspace, reason: str, by: Actor):
    asked = Operation.objects.open().filter(workspace=workspace)
    ended = {"epoch": F("epoch") + 1, "settled_at": clock.now(), "lease_until": None}
    outcome = {"ok": False, "reason": f"{reason} It did not run.", "reason_code": ReasonCode.LOST.value}
    asked.filter(phase=Phase.DUE).update(phase=Phase.SETTLED, outcome=outcome, **ended)
    outcome = outcome | {"reason": f"{reason} Whether this ran is unknown."}
    asked.update(phase=Phase.UNCERTAIN, outcome=outcome, **ended)
    Run.objects.filter(workspace=workspace, ended_at=None).end(EndCode.LOST, reason)
    Workspace.objects.filter(pk=workspace.pk).update(state=State.FAILED, reason=reason, runner=None)
    record(workspace, by, "workspace.failed", {"reason": reason})
