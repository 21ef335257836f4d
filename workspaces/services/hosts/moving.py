"""Move a workspace to another host, or under another environment, whose driver may be another one."""

from datetime import timedelta

from django.db.models import Exists, F, OuterRef

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.people.access import Caller
from dashboard.problems import Problem, conflict, invalid, unavailable
from workspaces import lifecycle, operations
from workspaces.lifecycle.activity import why_awake
from workspaces.lifecycle.lost_hosts import settle_as_silent
from workspaces.models import Environment, Operation, Runner, State, Workspace
from workspaces.models.runners import RUNNER_TIMEOUT
from workspaces.provisioning import eligibility, placement

DRAIN = Actor.system("drain")
KINDS = ("move", "arrive", "leave")
TRY_AGAIN = timedelta(minutes=5)  # after a move that did not succeed
STATES = (State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED)


def move(workspace: Workspace, to: Runner | None, environment: Environment | None, *, by: Actor) -> Operation | None:
    """Submit the move of a workspace; None if it is archived, whose place is switched at once.

    Problem 409 if it cannot be moved, or is there already; 503 if its own host, or the other one, does not answer or
    has no room for it.
    """
    lifecycle.must_be(workspace, *STATES, what="moved")
    here = workspace.runner
    to = to or here
    if to is None:
        raise conflict(f"{workspace.key} has no place yet.")
    under = environment or workspace.environment
    if to == here and under == workspace.environment:
        raise conflict(f"{workspace.key} is on {to.host} under {under} already.")
    if words := why_it_stays(workspace):
        raise conflict(f"{workspace.key} can't be moved: it {words}.")
    if here is not None and workspace.state != State.ARCHIVED and not here.is_alive:
        raise unavailable(f"{workspace.key} is on {here.host}, which {placement.silence(here)}.")
    _refuse_unfit(workspace, to, under)
    wish = {"runner": str(to.pk)} | ({"environment": str(under.pk)} if under != workspace.environment else {})
    if workspace.state == State.ARCHIVED:
        _switch_archived(workspace, to, under, by)
        return None
    return lifecycle.submit_exclusive(workspace, "move", by=by, args=wish)


def environment_named(workspace: Workspace, name: str, caller: Caller | None = None) -> Environment:
    """Return the newest version of the environment that the files may go under. Problem 403, 409 or 422."""
    found = Environment.objects.filter(team=workspace.team, name=name).order_by("-version").first()
    if found is None:
        raise invalid(f"There is no environment named {name!r}.")
    if found.capabilities.own_folder or workspace.environment.capabilities.own_folder:
        raise conflict("The files of a connected folder stay where they are, under its own environment.")
    if caller is not None and found != workspace.environment:
        eligibility.check_under(found, workspace, caller)
    return found


def why_it_stays(workspace: Workspace) -> str:
    """Return what keeps a workspace on its host, as a clause about it; "" if nothing does."""
    if workspace.own_folder:
        return "is a connected folder"
    names = sorted(workspace.checkpoints.values_list("name", flat=True))
    return f"has checkpoints of its microVM, which stay on their host: {', '.join(names)}" if names else ""


def _refuse_unfit(workspace, to: Runner, under: Environment):
    """Raise Problem 503 if the host cannot take the workspace under this environment."""
    was, workspace.environment = workspace.environment, under
    try:
        running = placement.promised(workspace)[to.pk]
        store = placement.host_of_store(workspace.team_id)
        why = placement.why_not(to, workspace, running, store=store if to != workspace.runner else "")
    finally:
        workspace.environment = was
    if not why and not to.is_alive:
        why = placement.silence(to)
    if why:
        raise unavailable(f"{to.host} can't take {workspace.key}: it {why}.", code="nothing_fits", hosts={to.host: why})


def _switch_archived(workspace, to: Runner, under: Environment, by: Actor):
    with Team.objects.turn(workspace.team_id):
        fields = {"runner": to, "placed_at": clock.now(), "lead_epoch": F("lead_epoch") + 1}
        if under != workspace.environment:
            fields |= {"environment": under, "base": {}}
        rows = Workspace.objects.filter(pk=workspace.pk, state=State.ARCHIVED)
        if rows.update(**fields):
            data = {"from": workspace.runner.host if workspace.runner else "", "to": to.host}
            data |= {"driver": under.driver, "environment": str(under)}
            lifecycle.record(workspace, by, "workspace.moved", data)


# Away from a host that is drained ------------------------------------------------------------------------------------


def at(runner: Runner):
    """Return the workspaces on a host, those in the trash too, by key."""
    rows = Workspace.objects.filter(runner=runner, purged_at=None).order_by("key")
    return rows.select_related("team", "environment", "runner", "head")


def leave_host(workspace: Workspace, *, by: Actor, now: bool) -> str:
    """Move a workspace to the best other host, with `now` also while it is in use; return in words what happens."""
    if Operation.objects.open().filter(workspace=workspace, kind__in=KINDS).exists():
        return "is on its way"
    if words := _why_not_away(workspace, now):
        return f"stays: it {words}"
    found = placement.choose(workspace, keep=False, but=workspace.runner.host)
    if found.runner is None:
        return f"stays: {found.words(workspace)}"
    if workspace.state == State.READY and not (now or why_awake(workspace).is_over):
        return f"goes to {found.runner.host} once it is idle"
    try:
        move(workspace, found.runner, None, by=by)
    except Problem as refused:
        return f"stays: {refused.detail}"
    return f"goes to {found.runner.host}"


def _why_not_away(workspace: Workspace, now: bool) -> str:
    """Return what keeps a workspace on a host that is drained, as a clause about it; "" if nothing does."""
    if workspace.trashed_at:
        return "is in the trash"
    if workspace.state not in STATES:
        return lifecycle.STATE_WORDS[workspace.state].removeprefix("it ")
    if not now and workspace.runs.filter(memory_kept=True).exists():
        return "is paused with the memory of its programs, which stays on its host"
    return why_it_stays(workspace)


def to_drain(here: Runner):
    """Return the workspaces that are to leave this host, which is drained, and were not tried lately."""
    drained = Runner.objects.filter(pk=here.pk, draining_at__isnull=False)
    lately = Operation.objects.filter(kind="move", workspace=OuterRef("pk"), created_at__gt=clock.now() - TRY_AGAIN)
    return Workspace.objects.filter(~Exists(lately), runner__in=drained, purged_at=None, state__in=STATES)


def drain(here: Runner):
    """Move the workspaces of this host, which is drained, once they are idle."""
    for workspace in to_drain(here).select_related("team", "environment", "runner", "head"):
        leave_host(workspace, by=DRAIN, now=False)


# What a host that falls silent holds up ------------------------------------------------------------------------------


def held_up(here: Runner):
    """Return the moves away from this host whose other end does not answer."""
    away = Runner.objects.exclude(pk=here.pk).filter(heartbeat_at__lt=clock.now() - RUNNER_TIMEOUT)
    return Operation.objects.open().filter(kind="arrive", workspace__runner=here, runner__in=away)


def give_up_on_silent(here: Runner):
    """End the moves whose other end does not answer: the workspace is here, whole, and what was up is resumed."""
    for operation in held_up(here).select_related("workspace", "runner"):
        if settle_as_silent(operation, here):
            by = operations.actor_of(operation)
            if operation.args["was"] == State.READY:
                try:
                    lifecycle.resume(operation.workspace, by=by)
                except Problem:
                    pass  # the team was stopped
