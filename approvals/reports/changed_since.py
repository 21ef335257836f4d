"""What changed in a span of time over all workspaces: from the snapshots around it, and the actions inside it."""

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, OuterRef, Q, Subquery

from approvals.models import Action, Tier
from dashboard.models import Agent
from workspaces.changes import changed_lines
from workspaces.changes.comparisons import Lines
from workspaces.models import Snapshot, State, Workspace
from workspaces.programs.checks import Check, checks_of

MAX_WORKSPACES = 200  # in one answer, those that changed last
COUNTING_SECONDS = 1.0  # for counting lines in one answer; what is counted is cached
TIERS = [tier.value for tier in Tier]  # from the least risky on


@dataclass
class Changed:
    """A workspace with snapshots in the span.

    `before` is the snapshot that its changes begin at: the last before the span, or its first one if it `is_new`;
    `after` is the last of the span. `lines` is None if they were not counted in time.
    """

    workspace: Workspace
    before: Snapshot
    after: Snapshot
    is_new: bool
    lines: Lines | None = None
    checks: list[Check] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)
    actions: Counter = field(default_factory=Counter)  # {tier: number of actions that ran}

    @property
    def tier(self) -> str:
        """The highest tier of what ran there; "" if no action did."""
        return max(self.actions, key=TIERS.index, default="")

    @property
    def repository(self) -> str:
        return repository_of(self.workspace)

    @property
    def has_span(self) -> bool:
        """Return whether there are two points to compare."""
        return self.before.pk != self.after.pk

    @property
    def may_have_changed_since(self) -> bool:
        """Return whether programs can have changed files after the last snapshot."""
        return self.workspace.state == State.READY


@dataclass
class Answer:
    """What changed; `total` is the number of all workspaces with snapshots in the span, `uncounted` of rows."""

    rows: list[Changed]
    total: int

    @property
    def uncounted(self) -> int:
        return sum(row.lines is None for row in self.rows)


def changed_since(
    caller, since: datetime, until: datetime | None = None, *, workspaces=None, most=MAX_WORKSPACES
) -> Answer:
    """Return the workspaces that changed in the span, those that changed last first, in a constant number of queries.

    `workspaces`: ids, or a query of them, that alone are looked at; `most`: how many are listed.
    """
    inside = Q(created_at__gte=since) & (Q(created_at__lt=until) if until else Q())
    of_workspace = Snapshot.objects.filter(workspace=OuterRef("pk"))
    earlier = of_workspace.filter(created_at__lt=since).order_by("-number").values("pk")[:1]
    mine = Workspace.objects.visible_to(caller).kept()
    mine = mine if workspaces is None else mine.filter(pk__in=workspaces)
    changed = Snapshot.objects.filter(inside).values("workspace")  # of all teams, for the index by time
    found = mine.filter(pk__in=changed).select_related("team", "environment")
    found = found.annotate(
        after_pk=Subquery(of_workspace.filter(inside).order_by("-number").values("pk")[:1]),
        after_at=Subquery(of_workspace.filter(inside).order_by("-number").values("created_at")[:1]),
        before_pk=Subquery(earlier),
        first_pk=Subquery(of_workspace.order_by("number").values("pk")[:1]),
    )
    total, shown = found.count(), list(found.order_by("-after_at", "pk")[:most])
    rows = _rows(shown)
    _count(rows)
    _add_what_ran(rows, caller, since, until)
    return Answer(rows, total)


def _rows(workspaces: list[Workspace]) -> list[Changed]:
    ends = {pk for each in workspaces for pk in (each.after_pk, each.before_pk or each.first_pk)}
    points = Snapshot.objects.defer("skipped").in_bulk(ends)
    checks = checks_of(*workspaces)
    return [
        Changed(
            workspace=each,
            before=points[each.before_pk or each.first_pk],
            after=points[each.after_pk],
            is_new=each.before_pk is None,
            checks=checks[each.pk],
        )
        for each in workspaces
    ]


def _count(rows: list[Changed]):
    deadline = time.monotonic() + COUNTING_SECONDS
    for row in rows:
        team_id, old, new = row.workspace.team_id, row.before.tree_hex, row.after.tree_hex
        row.lines = changed_lines.between(team_id, old, new, until=deadline)


def _add_what_ran(rows: list[Changed], caller, since, until):
    """Set the agents whose actions ran in the span, and how many actions of each tier did."""
    inside = Q(consumed_at__gte=since) & (Q(consumed_at__lt=until) if until else Q())
    ran = Action.objects.visible_to(caller).filter(inside, workspace__in=[row.workspace.pk for row in rows])
    counts = ran.values_list("workspace", "agent", "tier").annotate(n=Count("pk")).order_by("workspace", "agent")
    by_workspace: dict = {}
    for workspace, agent, tier, n in counts:
        by_workspace.setdefault(workspace, []).append((agent, tier, n))
    wanted = {agent for found in by_workspace.values() for agent, _, _ in found}
    agents = Agent.objects.select_related("owner").in_bulk(wanted)
    for row in rows:
        for agent, tier, n in by_workspace.get(row.workspace.pk, ()):
            row.actions[tier] += n
            if agents[agent] not in row.agents:
                row.agents.append(agents[agent])


def repository_of(workspace) -> str:
    """Return the repository that a workspace was made from, without scheme and ".git"; "" if none is known."""
    address = workspace.source.get("git") or workspace.environment.repository
    return address.partition("://")[2].removesuffix(".git") if "://" in address else address.removesuffix(".git")
