"""Take over from a host that does not answer: what waits there ends, and what has snapshots comes back elsewhere."""

from django.db.models import F

from dashboard.database import clock
from dashboard.models import Actor, Team
from workspaces import operations
from workspaces.host import place
from workspaces.lifecycle import led_on
from workspaces.lifecycle.states import record
from workspaces.models import EndCode, Operation, Phase, ReasonCode, Run, Runner, State, Workspace
from workspaces.provisioning import placement

AT_REST = (State.PAUSED, State.STOPPED, State.ARCHIVED)


def take_over(runner: Runner, *, by: Actor) -> list[Workspace]:
    """Lead the workspaces of a lost host from elsewhere; return them as they are then.

    What runs on another machine goes on under another host. Of the rest, those with snapshots that other hosts reach
    are brought back on another host, and what was up is resumed. The others have failed. Each has a new epoch of its
    lead, so that the host, should it come back, acts for none of them.
    """
    return _for_each(runner, lambda workspace: _take_over(workspace, runner, by))


def give_up(runner: Runner, *, by: Actor) -> list[Workspace]:
    """Fail the workspaces of a host whose folder is lost, and end what was asked of it; return them.

    Their log, actions and snapshots' rows stay. They can be deleted once the team's store is on another host.
    """
    return _for_each(runner, lambda workspace: _fail(workspace, runner, by))


def _for_each(runner: Runner, do) -> list[Workspace]:
    rows = Workspace.objects.filter(runner=runner, purged_at=None)
    lost = list(rows.select_related("environment", "head", "runner").order_by("key"))
    for team_id in sorted({workspace.team_id for workspace in lost}):
        with Team.objects.turn(team_id):
            for workspace in lost:
                if workspace.team_id == team_id:
                    do(workspace)
    for operation in Operation.objects.open().filter(runner=runner, kind="leave"):
        _settle(Operation.objects.filter(pk=operation.pk), f"{runner.host} was declared lost.")
    return list(rows.model.objects.filter(pk__in=[workspace.pk for workspace in lost]).order_by("key"))


def _take_over(workspace: Workspace, runner: Runner, by: Actor):
    if workspace.own_folder or workspace.head is None or not place.shares_store():
        _fail(workspace, runner, by)
        return
    if _hand_on(workspace, runner, by):
        return
    was, lacks = workspace.state, workspace.state not in AT_REST or bool(workspace.missing_snapshot)
    _end_what_waits(workspace, runner)
    reason = f"Its host {runner.host} is lost."
    since = clock.in_utc(workspace.head.created_at)
    reason += f" Changes since {since} are on {runner.host}." if lacks else " Its newest snapshot has all."
    come_back(workspace, runner.host, was, reason, lacks=lacks, by=by)


def come_back(workspace: Workspace, host: str, was: str, reason: str, *, lacks: bool, by: Actor):
    """Have it come back from its newest snapshot on another host; `lacks`: the lost `host` may have changes since.

    Call it in the team's turn.
    """
    owed = {"host": host, "since": workspace.head.created_at.isoformat(), "snapshot": workspace.head.number}
    fields = {"state": State.ARCHIVED, "reason": reason, "reason_code": "", "missing_snapshot": ""}
    fields["owed"] = owed if lacks else workspace.owed
    Workspace.objects.filter(pk=workspace.pk).update(**fields)
    workspace.state, workspace.reason = State.ARCHIVED, reason
    placement.put(workspace, None)
    record(workspace, by, "workspace.host_lost", {"host": host, "snapshot": workspace.head.number, "reason": reason})
    if was != State.ARCHIVED and not workspace.trashed_at:
        _bring_back(workspace, was, by)


def lives_on(workspace: Workspace) -> tuple[Run, Runner] | None:
    """Return its Run if that does not end with its host, and another host that can lead it now; else None."""
    if workspace.state != State.READY or workspace.trashed_at:
        return None
    run = Run.objects.filter(workspace=workspace, ended_at=None, lead__isnull=False).first()
    if run is None:
        return None
    to = placement.choose(workspace, but=workspace.runner.host).runner
    return None if to is None else (run, to)


def _hand_on(workspace: Workspace, runner: Runner, by: Actor) -> bool:
    """Have another host take over what lives on without its host; False if nothing does, or no host can."""
    if (found := lives_on(workspace)) is None:
        return False
    run, to = found
    _end_what_waits(workspace, runner, goes_on=to)
    placement.put(workspace, to)
    reason = f"Its host {runner.host} is lost, and {to.host} takes over what runs."
    data = {"host": runner.host, "snapshot": workspace.head.number, "reason": reason}
    record(workspace, by, "workspace.host_lost", data)
    have_taken_over(workspace, run, to, led_by=runner.host, reason=reason, by=by)
    return True


def have_taken_over(workspace: Workspace, run: Run, to: Runner, *, led_by: str, reason: str, by: Actor) -> Operation:
    """Have a host take over a Run that lives on, under the workspace's epoch. `led_by`: the host that led it before."""
    # Nobody asks after a Run that is not ready: until it is taken over, its new host knows nothing of it.
    Run.objects.filter(pk=run.pk).update(runner=to, lead_epoch=workspace.lead_epoch, ready_at=None)
    Workspace.objects.filter(pk=workspace.pk).update(reason=reason, reason_code="")
    args = {"run": str(run.pk), "host": led_by, "ready_at": (run.ready_at or run.started_at).isoformat()}
    return operations.submit("take_lead", workspace=workspace, by=by, args=args, exclusive=True, runner=to)


def _bring_back(workspace: Workspace, was: str, by: Actor):
    """Submit its arrival on another host; without a fit one it stays archived, and says why."""
    found = placement.choose(workspace)
    if found.runner is None:
        rows = Workspace.objects.filter(pk=workspace.pk)
        rows.update(reason=f"{workspace.reason} {found.words(workspace)}".strip())
        return
    epoch = workspace.lead_epoch
    args = {"runner": str(found.runner.pk), "from": "", "was": was, "head": str(workspace.head_id), "sent": {}}
    operations.submit(
        "arrive", workspace=workspace, by=by, args=args | {"epoch": epoch}, exclusive=True, runner=found.runner
    )


def _fail(workspace: Workspace, runner: Runner, by: Actor):
    reason = f"Its host {runner.host} is lost, and its files with it."
    _end_what_waits(workspace, runner, reason)
    Workspace.objects.filter(pk=workspace.pk).update(state=State.FAILED, reason=reason)
    placement.put(workspace, None)
    record(workspace, by, "workspace.failed", {"reason": reason})


def _end_what_waits(workspace: Workspace, runner: Runner, reason: str = "", *, goes_on: Runner | None = None):
    """End what was asked of the host: what was due did not run, and of what had begun nobody knows how it ended.

    `goes_on`: the host that takes over its Run, with the programs that can go on.
    """
    reason = reason or f"Its host {runner.host} is lost."
    asked = Operation.objects.open().filter(workspace=workspace)
    _settle(asked.filter(phase=Phase.DUE), f"{reason} It did not run.")
    for begun in asked:
        if goes_on is None or not led_on.hand_on(begun, goes_on):
            end_begun(begun, runner, reason)
    if goes_on is None:
        Run.objects.filter(workspace=workspace, ended_at=None).end(EndCode.LOST, reason)


def end_begun(begun: Operation, runner: Runner, reason: str):
    """Mark an operation as uncertain that a host had begun, of which nothing more can be known."""
    evidence = {
        "host": runner.host,
        "started_at": begun.started_at and begun.started_at.isoformat(),
        "answered_at": runner.heartbeat_at and runner.heartbeat_at.isoformat(),
        "lost_at": clock.now().isoformat(),
    }
    outcome = {
        "ok": False,
        "reason": f"{reason} Whether this ran is unknown.",
        "reason_code": ReasonCode.LOST.value,
    }
    ended = {"epoch": F("epoch") + 1, "settled_at": clock.now(), "lease_until": None}
    rows = Operation.objects.filter(pk=begun.pk)
    rows.update(runner=runner, phase=Phase.UNCERTAIN, outcome=outcome | {"evidence": evidence}, **ended)


def end_left_behind(runner: Runner):
    """End the programs that wait for a host which takes none of them over any more, as after a fault of its runner."""
    for run in led_on.left_behind(runner):
        with Team.objects.turn(run.workspace.team_id):
            for begun in led_on.go_on(run.pk, ())[1]:
                end_begun(begun, runner, "It was not taken over.")


def _settle(rows, reason: str):
    outcome = {"ok": False, "reason": reason, "reason_code": ReasonCode.LOST.value}
    ended = {"epoch": F("epoch") + 1, "settled_at": clock.now(), "lease_until": None}
    rows.update(phase=Phase.SETTLED, outcome=outcome, **ended)


def settle_as_silent(operation: Operation, here: Runner) -> bool:
    """End a move to a host that does not answer; False if its place has been switched meanwhile."""
    workspace = operation.workspace
    with Team.objects.turn(workspace.team_id):
        rows = Operation.objects.open().filter(pk=operation.pk, epoch=operation.epoch, workspace__runner=here)
        if not rows.exists():
            return False
        reason = f"Nothing was moved: {operation.runner.host} does not answer."
        _settle(rows, reason)
        was = operation.args["was"]
        state = State.PAUSED if was == State.PAUSED else State.STOPPED
        Workspace.objects.filter(pk=workspace.pk, state=State.STOPPED).update(state=state, reason=reason)
        record(workspace, Actor.system("runner"), "workspace.move_failed", {"reason": reason})
    return True
