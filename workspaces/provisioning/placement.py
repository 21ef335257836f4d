"""Choose the host of a workspace before its files are made or brought back, and say of each host why it is not fit.

With one host there is nothing to choose, and its runner binds what it begins.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, field

from django.conf import settings
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Coalesce

from dashboard.database import clock
from dashboard.problems import unavailable
from workspaces.host import place as places
from workspaces.models import Operation, Run, Runner, State, StoreIdentity, Workspace
from workspaces.provisioning import capacity, isolation

FEW = 3  # hosts whose load is compared: the best of all would get everything until its figures change
STARTING_KINDS = ("create", "resume", "arrive")  # they promise what a Run promises once it is up


@dataclass
class Choice:
    """What was found: the host, or of each host why it is not fit; `waits` where a fit one only does not answer."""

    runner: Runner | None = None
    why: dict[str, str] = field(default_factory=dict)  # by the host's name, as a clause
    waits: bool = False

    def words(self, workspace) -> str:
        told = " ".join(f"{host} {why}." for host, why in self.why.items())
        return f"No host can take {workspace.key} now. {told}"


def place(workspace, *, keep: bool = True):
    """Write where a workspace is to be whose files are on no host yet, or in the store alone.

    With `keep` it stays on the host that it has if that is fit. Problem 503 (code nothing_fits, with `hosts`) if no
    host can take it. If the only fit ones do not answer it stays without a place, and a runner places it later; one
    that a silent host alone can have waits for that.
    """
    hosts = list(Runner.objects.members().order_by("host"))
    if len(hosts) < 2:
        capacity.refuse_when_promised(workspace)
        return
    found = choose(workspace, hosts, keep=keep)
    if found.runner is None and not found.waits:
        raise unavailable(found.words(workspace), code="nothing_fits", hosts=found.why)
    pinned = pinned_to(workspace) if found.waits else ""
    put(workspace, found.runner or next((runner for runner in hosts if runner.host == pinned), None))


def may_move_now(workspace) -> bool:
    """Return whether the place of a workspace can be written anew: its files are on no host."""
    is_stored = workspace.state == State.ARCHIVED and workspace.head_id is not None
    return is_stored or workspace.runner_id is None


def choose(workspace, hosts=None, *, keep: bool = True, but: str = "") -> Choice:
    """Return the host for a workspace: with `keep` the one that it has if that is fit, else the best of a few.

    The host named `but` is left out.
    """
    hosts = list(Runner.objects.members().order_by("host")) if hosts is None else hosts
    figures, found = promised(workspace), Choice()
    pinned, store = pinned_to(workspace), host_of_store(workspace.team_id)
    fit = []
    for runner in hosts:
        why = "let it wait" if runner.host == but else why_not(runner, workspace, figures[runner.pk], pinned, store)
        if not why and not runner.is_alive:
            found.waits, why = True, silence(runner)
        if why:
            found.why[runner.host] = why
        else:
            fit.append(runner)
    if fit:
        kept = next((runner for runner in fit if keep and runner.pk == workspace.runner_id), None)
        some = random.sample(fit, min(FEW, len(fit)))
        found.runner = kept or min(some, key=lambda runner: share(runner, figures[runner.pk]))
        found.waits = False
    return found


def put(workspace, runner: Runner | None):
    """Write the place of a workspace; another runner leads it with a new epoch."""
    was = workspace.runner_id
    if (runner and runner.pk) == was and workspace.placed_at is not None:
        return
    fields = {"runner": runner, "placed_at": runner and clock.now()}
    Workspace.objects.filter(pk=workspace.pk).update(lead_epoch=F("lead_epoch") + 1, **fields)
    workspace.runner, workspace.placed_at = runner, fields["placed_at"]
    workspace.lead_epoch += 1


def bind(workspace_id, runner_id):
    """Note that the files are made by this runner, for a workspace that nobody placed."""
    rows = Workspace.objects.filter(pk=workspace_id)
    rows.exclude(runner=runner_id).update(runner=runner_id, lead_epoch=F("lead_epoch") + 1, placed_at=clock.now())
    rows.filter(placed_at=None).update(placed_at=Coalesce("placed_at", clock.now()))


# Of one host ---------------------------------------------------------------------------------------------------------


def why_not(runner: Runner, workspace, running: list[dict], pinned: str = "", store: str = "") -> str:
    """Return why the host cannot take the workspace, as a clause about it; "" if it can once it answers.

    `running` are the limits of what is promised there; `pinned`, `store`: the only host it can be on, "" for any.
    """
    environment = workspace.environment
    if pinned and pinned != runner.host:
        return f"does not have its files, which are on {pinned}"
    if store and store != runner.host:
        return f"does not have the snapshots of its team, which are in a folder of {store}"
    if runner.parts and "runner" not in runner.parts:
        return "runs no workspaces"
    if runner.lost_at:
        return f"was declared lost at {clock.in_utc(runner.lost_at)}"
    if runner.draining_at:
        return f"is drained since {clock.in_utc(runner.draining_at)}"
    return _lacks(runner, environment) or _is_full(runner, environment.limits, running)


def _lacks(runner: Runner, environment) -> str:
    probe = runner.capabilities.get(environment.driver, {})
    if not probe.get("available"):
        because = f": {probe['reason'].rstrip('.')}" if probe.get("reason") else ""
        return f"does not have the driver {environment.driver}{because}"
    facts = isolation.of_class(probe, environment.runtime_class)
    if not facts:
        return f"does not have the runtime class {environment.runtime_class}"
    offered = facts.get("isolation") or "none"
    if not isolation.is_enough(offered, environment.minimum_isolation):
        return f"offers isolation {offered}, and {environment.minimum_isolation} is the least"
    return ""


def _is_full(runner: Runner, wanted: dict, running: list[dict]) -> str:
    if runner.room.get("is_short_of_disk"):
        return "has too little free disk space"
    return capacity.beyond(runner.room, wanted, running)


def silence(runner: Runner) -> str:
    at = runner.heartbeat_at
    return f"has not answered since {clock.in_utc(at)}" if at else "has not answered since its last start"


def share(runner: Runner, running: list[dict]) -> float:
    """Return the largest share of a host's figures that is promised: 0.0 for an empty one."""
    room, shares = runner.room, []
    for name in ("memory_bytes", "cpus"):
        if room.get(name):
            shares.append(sum(limits.get(name) or 0 for limits in running) / room[name])
    shares.append(len(running) / (room.get("runs") or 1000))
    return max(shares)


def promised(but=None) -> dict:
    """Return {runner id: [limits]} of the workspaces that are up or about to be, without the workspace `but`."""
    up = Run.objects.filter(workspace=OuterRef("pk"), ended_at=None)
    coming = Operation.objects.open().filter(workspace=OuterRef("pk"), kind__in=STARTING_KINDS)
    rows = Workspace.objects.filter(Exists(up) | Exists(coming), runner__isnull=False)
    rows = rows.exclude(pk=but.pk) if but is not None else rows
    found = defaultdict(list)
    for runner_id, limits in rows.values_list("runner", "environment__limits"):
        found[runner_id].append(limits)
    return found


def pinned_to(workspace) -> str:
    """Return the host that alone has what the workspace is made from; "" if every host can get it."""
    if workspace.head_id is not None:
        return ""
    origin = workspace.forked_from if "checkpoint" in workspace.source.get("fork", {}) else None
    if origin is not None and origin.runner is not None:
        return origin.runner.host
    return settings.HANDRAIL_HOST_NAME if workspace.own_folder else ""


def host_of_store(team_id) -> str:
    """Return the host whose folder has the team's snapshots; "" if there are none yet, or every host reaches them."""
    if places.shares_store():
        return ""
    return StoreIdentity.objects.filter(team=team_id).values_list("host", flat=True).first() or ""


# By a runner, of what waits ------------------------------------------------------------------------------------------


def place_waiting(operation: Operation) -> Runner | None:
    """Place the workspace of a due operation that has no place yet; return its host, or None while none is fit.

    Why it waits is kept in the operation's progress. Call it in the team's turn.
    """
    workspace = Workspace.objects.select_related("environment", "runner", "forked_from__runner").get(
        pk=operation.workspace_id
    )
    if workspace.runner_id is None:
        found = choose(workspace, but=operation.progress.get("left", ""))
        if found.runner is None:
            return _keep_waiting(operation, found.words(workspace))
        put(workspace, found.runner)
    progress = {name: value for name, value in operation.progress.items() if name not in ("left", "no_host")}
    Operation.objects.filter(pk=operation.pk).update(runner=workspace.runner, progress=progress)
    operation.progress, operation.runner = progress, workspace.runner
    return workspace.runner


def _keep_waiting(operation: Operation, words: str) -> None:
    if operation.progress.get("no_host") != words:
        operation.progress = operation.progress | {"no_host": words}
        Operation.objects.filter(pk=operation.pk).update(progress=operation.progress)
