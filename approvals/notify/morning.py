"""What a person finds in the morning, for each team: what ended, what asks, what it cost, what looked odd in a day."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Q, Sum

from approvals.models import CLOSED_RUNS, Action, AgentRun, AgentRunState, ModelCall, Status, Task, Tier
from approvals.notify.odd import Odd, odd_of
from dashboard.models import Team

SPAN = timedelta(days=1)
MOST = 20  # rows of each list
ENDED_RUNS = (AgentRunState.STOPPED, *CLOSED_RUNS)


@dataclass
class TeamMorning:
    """A team's day. `cost`: of started agents, at the team's prices; `counts`: of calls, by what became of them."""

    team: Team
    counts: dict[str, int]
    ended_tasks: list[Task] = field(default_factory=list)
    ended_runs: list[AgentRun] = field(default_factory=list)
    asks: list[Action] = field(default_factory=list)
    to_see_to: list[AgentRun] = field(default_factory=list)
    cost: Decimal = Decimal(0)
    odd: list[Odd] = field(default_factory=list)

    @property
    def ended(self) -> int:
        return len(self.ended_tasks) + len(self.ended_runs)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing happened and nothing asks."""
        lists = (self.ended_tasks, self.ended_runs, self.asks, self.to_see_to, self.odd)
        return not any(lists) and not self.cost and not any(self.counts.values())


def morning_of(caller, now: datetime) -> list[TeamMorning]:
    """Return the last day of each of the person's teams in which something happened, by name."""
    found = [_of_team(team, now) for team in Team.objects.visible_to(caller).order_by("name")]
    return [each for each in found if not each.is_quiet]


def _of_team(team: Team, now: datetime) -> TeamMorning:
    since = now - SPAN
    made = TeamMorning(team, _counts(team, now, since))
    made.ended_tasks = list(Task.objects.filter(team=team, changed_at__gte=since).exclude(end="")[:MOST])
    runs = AgentRun.objects.work().filter(team=team).select_related("workspace__team").order_by("-changed_at")
    made.ended_runs = list(runs.filter(state__in=ENDED_RUNS, changed_at__gte=since, attempt=None)[:MOST])
    waiting = runs.to_see_to().filter(team=team, attempt__task__end="") | runs.to_see_to().filter(attempt=None)
    made.to_see_to = list(waiting[:MOST])
    pending = Action.objects.pending().filter(team=team, expires_at__gt=now)
    made.asks = list(pending.select_related("agent__owner", "workspace").order_by("-created_at")[:MOST])
    spent = ModelCall.objects.filter(run__team=team, at__gte=since).aggregate(cost=Sum("cost"))
    made.cost = spent["cost"] or Decimal(0)
    made.odd = odd_of(team, since, now)
    return made


def _counts(team: Team, now: datetime, since: datetime) -> dict[str, int]:
    recent = Q(created_at__gte=since)
    return Action.objects.filter(team=team).aggregate(
        waiting=Count("pk", filter=Q(status=Status.PENDING, expires_at__gt=now)),
        quiet=Count("pk", filter=recent & (Q(tier__in=[Tier.LOW, Tier.MEDIUM]) | Q(grant__isnull=False))),
        denied=Count("pk", filter=recent & Q(status=Status.DENIED)),
        expired=Count("pk", filter=recent & Q(status=Status.EXPIRED)),
        failed=Count("pk", filter=recent & Q(status__in=[Status.FAILED, Status.UNCERTAIN])),
    )
