"""What an agent is: where it may work and with what, how often it asks, its tokens, sessions, grants and denials."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from django.db.models import Count, Prefetch, Q

from approvals.evaluation import policies
from approvals.evaluation.workers import Late
from approvals.models import Action, AgentSession, Decision, Grant, Policy, Status
from approvals.policy import TIERS, PolicyError
from approvals.reports.agent_day import places_of
from approvals.reports.ask_rate import ASKED, DAYS, per_100
from approvals.sessions.reading import main_sessions, sessions_for
from dashboard.models import Agent, Token
from workspaces.lifecycle import agents_at_work
from workspaces.models import AgentAtWork, AgentsTogether, Environment, Workspace
from workspaces.provisioning import eligibility
from workspaces.services import environments, network

MAX_PLACES, MAX_ENVIRONMENTS, MAX_TOOLS, MAX_TOKENS = 50, 100, 40, 50  # listed of each
MAX_SESSIONS = MAX_DENIED = 10
MAX_GRANTS = 100


@dataclass(frozen=True)
class Place:
    """A workspace in which the agent may work, and who else is at work there now."""

    workspace: Workspace
    is_creator: bool  # it created the workspace, and cannot be unbound
    is_at_work: bool
    others: list[str]
    hosts: list[str]  # that people allowed here, beside those of the environment
    refused_at: datetime | None  # when it was last refused because another agent was at work

    @property
    def is_one_at_a_time(self) -> bool:
        return self.workspace.environment.agents_together == AgentsTogether.ONE

    @property
    def is_locked(self) -> bool:
        """Whether the agent is refused there now."""
        return self.is_one_at_a_time and bool(self.others) and not self.is_at_work

    @property
    def is_shared_now(self) -> bool:
        """Whether people are warned of two agents on the same files."""
        allowed = self.workspace.environment.agents_together == AgentsTogether.ALLOW
        return bool(self.others) and not allowed and not self.is_locked


@dataclass(frozen=True)
class Choice:
    """An environment: whether the agent may create workspaces from it, and the hosts that it opens to agents."""

    environment: Environment
    why_not: str  # "" if it may

    @property
    def hosts(self) -> list[str]:
        return list(self.environment.egress.get("agent") or [])


@dataclass(frozen=True)
class Tool:
    """A tool that the agent called in the last DAYS days, or that rules of the team's policy name."""

    name: str
    calls: int
    asked: int
    denied: int
    rules: dict[str, int]  # {tier: number of rules of the team's policy that name the tool}


@dataclass(frozen=True)
class Denial:
    """A call that was denied: by a person, with their comment, or by the policy."""

    action: Action
    by: str  # name of the person; "" if the policy denied it
    reasons: list[str]


def known_to(caller):
    """Return the agents that the caller may know of: a person's team's; an agent itself, not from a workspace."""
    agents = Agent.objects.visible_to(caller)
    if caller.is_person:
        return agents
    return agents.none() if caller.workspace_id else agents.filter(pk=caller.agent.pk)


class Identity:
    """The facts about an agent that the caller may know of; each is asked for once, in a constant number of queries."""

    def __init__(self, agent: Agent, caller, now: datetime):
        self.agent, self.caller, self.now = agent, caller, now

    @cached_property
    def places(self) -> list[Place]:
        """Where it may work, by key; at most MAX_PLACES and one more."""
        rows = places_of(self.agent, self.caller).select_related("environment")
        found = list(rows[: MAX_PLACES + 1])
        working = agents_at_work.at_work_in(found, self.now)
        allowed = network.allowed_in(found)
        mine = AgentAtWork.objects.filter(agent=self.agent, workspace__in=found, refused_at__isnull=False)
        refused = dict(mine.values_list("workspace", "refused_at"))
        return [
            Place(
                workspace=each,
                is_creator=each.created_by_agent_id == self.agent.pk,
                is_at_work=self.agent in working.get(each.pk, ()),
                others=[other.name for other in working.get(each.pk, ()) if other != self.agent],
                hosts=allowed.get(each.pk, []),
                refused_at=refused.get(each.pk),
            )
            for each in found
        ]

    @cached_property
    def environments(self) -> list[Choice]:
        """The newest version of each environment of its team, with why it may not use it, if so."""
        rows = environments.newest_versions([self.agent.team_id]).to_make_from().order_by("name")
        return [
            Choice(each, eligibility.why_not(each, eligibility.own_source(each), self.agent))
            for each in rows[:MAX_ENVIRONMENTS]
        ]

    @cached_property
    def _calls(self) -> list[dict]:
        since = self.now - timedelta(days=DAYS)
        recent = Action.objects.filter(agent=self.agent, created_at__gte=since)  # in one index
        counts = {
            "calls": Count("*"),
            "asked": Count("tool", filter=ASKED),
            "denied": Count("tool", filter=Q(status=Status.DENIED)),
        }
        return list(recent.order_by().values("tool").annotate(**counts))

    @cached_property
    def asks(self) -> dict:
        """Return {days, calls, asked, denied, per_100_calls} of the last DAYS days."""
        totals = {name: sum(row[name] for row in self._calls) for name in ("calls", "asked", "denied")}
        return {"days": DAYS, **totals, "per_100_calls": per_100(totals["asked"], totals["calls"])}

    @cached_property
    def policy(self) -> Policy:
        """The team's policy; number 0 if it is the default one that was not saved yet."""
        return policies.for_display(self.agent.team_id)

    @cached_property
    def own_policies(self) -> list[str]:
        """Names of environments with a policy of their own."""
        own = Policy.objects.filter(team=self.agent.team_id, active=True, environment__isnull=False)
        return sorted(set(own.values_list("environment__name", flat=True)))

    @cached_property
    def tools(self) -> list[Tool]:
        """The most called first; at most MAX_TOOLS."""
        called, ruled = {row["tool"]: row for row in self._calls}, self._rules_by_tool()
        names = sorted(called.keys() | ruled.keys(), key=lambda name: (-called.get(name, {}).get("calls", 0), name))
        none = {"calls": 0, "asked": 0, "denied": 0}
        rows = [(name, called.get(name, none), ruled.get(name, {})) for name in names[:MAX_TOOLS]]
        return [Tool(name, row["calls"], row["asked"], row["denied"], rules) for name, row, rules in rows]

    def _rules_by_tool(self) -> dict[str, dict[str, int]]:
        """Return {tool: {tier: number of rules}}, the strictest tier first; {} for a policy that cannot be read."""
        try:
            lists = policies.checked(self.policy)["rules"]
        except (PolicyError, Late):
            return {}
        named = {tier: Counter(rule.partition("(")[0] for rule in lists.get(tier, [])) for tier in reversed(TIERS)}
        tools = {tool for counts in named.values() for tool in counts}
        return {tool: {tier: counts[tool] for tier, counts in named.items() if tool in counts} for tool in tools}

    @cached_property
    def tokens(self) -> list[Token]:
        """The valid ones that were made for it, those that end first at the top."""
        made = self._live_tokens.filter(for_run=False).select_related("workspace__team")
        return list(made.order_by("expires_at", "created_at")[:MAX_TOKENS])

    @cached_property
    def run_tokens(self) -> int:
        """How many tokens programs of open Runs have; each ends with its Run."""
        return self._live_tokens.filter(for_run=True).count()

    @property
    def _live_tokens(self):
        return Token.objects.live().visible_to(self.caller).filter(agent=self.agent)

    @cached_property
    def sessions(self) -> list[AgentSession]:
        """The newest that no other session has started."""
        return list(main_sessions(sessions_for(self.caller, agent=self.agent)).order_by("-last_at")[:MAX_SESSIONS])

    @cached_property
    def grants(self) -> list[Grant]:
        """Those in force, which let calls run without asking."""
        active = Grant.objects.visible_to(self.caller).active(self.now).filter(agent=self.agent)
        return list(active.select_related("agent__owner", "workspace__team", "by").order_by("expires_at")[:MAX_GRANTS])

    @cached_property
    def denied(self) -> list[Denial]:
        """The newest calls that were denied."""
        final = Prefetch("decisions", Decision.objects.filter(final=True).select_related("user"))
        rows = Action.objects.filter(agent=self.agent, status=Status.DENIED)
        rows = rows.select_related("workspace__team").prefetch_related("revisions", final)
        return [_denial(action) for action in rows.order_by("-ended_at")[:MAX_DENIED]]


def _denial(action: Action) -> Denial:
    decision = next(iter(action.decisions.all()), None)
    if decision is not None:
        return Denial(action, decision.user.get_username(), [decision.comment] if decision.comment else [])
    revision = max(action.revisions.all(), key=lambda each: each.number)
    return Denial(action, "", revision.all_reasons)
