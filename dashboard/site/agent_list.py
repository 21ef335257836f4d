"""The list of agents: what each works on, how that stands, how many of its calls wait, and its API tokens."""

from datetime import timedelta
from typing import NamedTuple

from django.db.models import Count

from approvals.models import Action
from approvals.reports.tasks import Task, tasks_of
from dashboard.database import clock
from dashboard.models import Agent, Token

MAX_AGENTS = 200
LOOKS_BACK = timedelta(days=7)  # for the last task of an agent


class Row(NamedTuple):
    """An agent with its newest task of the last days, if there is one."""

    agent: Agent
    task: Task | None
    waiting: int  # calls that need approval
    tokens: list[Token]  # those that are valid, the oldest first
    may_manage: bool


def rows(caller) -> list[Row]:
    """Return the agents of the caller's teams: those with waiting calls first, then those at work, then by name."""
    now = clock.now()
    agents = Agent.objects.visible_to(caller).select_related("owner", "team").order_by("name", "pk")[:MAX_AGENTS]
    tasks = {each.agent.pk: each for each in tasks_of(caller, now - LOOKS_BACK, most=MAX_AGENTS, one_each=True)}
    pending = Action.objects.visible_to(caller).pending().filter(expires_at__gt=now).order_by()
    waiting = dict(pending.values_list("agent").annotate(n=Count("pk")))
    tokens: dict = {}
    live = Token.objects.live().visible_to(caller).filter(agent__in=[agent.pk for agent in agents])
    for token in live.order_by("created_at"):
        tokens.setdefault(token.agent_id, []).append(token)
    found = [
        Row(
            agent,
            tasks.get(agent.pk),
            waiting.get(agent.pk, 0),
            tokens.get(agent.pk, []),
            caller.can("manage_agents", agent.team_id),
        )
        for agent in agents
    ]
    return sorted(found, key=lambda row: (not row.waiting, not (row.task and row.task.is_open)))
