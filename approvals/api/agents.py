"""An agent as an identity, over HTTP: whose it is, what it may use, and what it was denied."""

from datetime import datetime
from uuid import UUID

from ninja import Router, Schema
from pydantic import Field

from approvals.reports.agent_identity import MAX_PLACES, Choice, Denial, Identity, Place, Tool, known_to
from dashboard.database import clock
from dashboard.problems import not_found
from dashboard.web.api_base import PROBLEMS

router = Router(tags=["agents"])


class AgentPlaceOut(Schema):
    key: str
    environment: str
    is_creator: bool = Field(description="it created the workspace; otherwise it is bound to it")
    hosts: list[str] = Field(description="that people allowed there, beside those of the environment")
    agents_together: str = Field(description="allow, warn or one_at_a_time")
    is_at_work: bool
    others_at_work: list[str]
    is_locked: bool = Field(description="it is refused there now, since another agent is at work")
    refused_at: datetime | None = Field(description="when it was last refused for that")


class AgentEnvironmentOut(Schema):
    name: str
    version: int
    may_use: bool = Field(description="whether it may create workspaces from it")
    why_not: str
    hosts: list[str] = Field(description="that agents reach in its workspaces")


class AgentToolOut(Schema):
    tool: str
    calls: int
    asked: int
    denied: int
    rules: dict[str, int] = Field(description="how many rules of the team's policy name it, by tier")


class AgentTokenOut(Schema):
    prefix: str
    workspace: str | None = Field(description="key of the only workspace that it reaches")
    created_at: datetime
    expires_at: datetime | None = Field(description="null: it never expires")
    last_used_at: datetime | None


class AgentLastSessionOut(Schema):
    id: UUID
    title: str
    workspace: str | None
    started_at: datetime
    last_at: datetime
    ended_at: datetime | None


class AgentAsksOut(Schema):
    days: int
    calls: int
    asked: int = Field(description="calls about which people were asked: neither the policy nor a grant decided")
    denied: int
    per_100_calls: float


class DenialOut(Schema):
    action: UUID
    number: int
    title: str
    tool: str
    workspace: str | None
    at: datetime
    by: str | None = Field(description="the person; null: the policy")
    reasons: list[str] = Field(description="the person's comment, or what the policy says")


class HeldGrantOut(Schema):
    id: UUID
    says: str
    workspace: str | None
    by: str
    expires_at: datetime
    uses_left: int


class AgentPolicyOut(Schema):
    version: int = Field(description="of the team's policy; 0: the default, not saved yet")
    environments: list[str] = Field(description="with a policy of their own")


class AgentOut(Schema):
    name: str
    team: str
    owner: str | None
    created_at: datetime
    paused_at: datetime | None
    last_seen_at: datetime | None
    workspaces: list[AgentPlaceOut] = Field(description="in which it may work, the first 50 by key; in no other")
    environments: list[AgentEnvironmentOut]
    policy: AgentPolicyOut
    tools: list[AgentToolOut] = Field(description="that it called, or that the policy names; the most called first")
    asks: AgentAsksOut
    tokens: list[AgentTokenOut] = Field(description="valid ones, never their values")
    run_tokens: int = Field(description="tokens of programs of open runs, which end with their run")
    sessions: list[AgentLastSessionOut] = Field(description="the newest ten that no other session has started")
    grants: list[HeldGrantOut] = Field(description="in force: they let calls run without asking")
    denied: list[DenialOut] = Field(description="the newest ten")


@router.get("/agents/{agent}", response={200: AgentOut} | PROBLEMS)
def read_agent(request, agent: str):
    """Return who an agent of the team is, by its name: owner, what it may use, tokens, sessions, asks and denials.

    Figures are of the last seven days. An agent may read of itself, unless its token is for one workspace.
    """
    found = known_to(request.auth).filter(name=agent).select_related("owner", "team").first()
    if found is None:
        raise not_found("agent")
    facts = Identity(found, request.auth, clock.now())
    same = ("name", "created_at", "paused_at", "last_seen_at")
    return {name: getattr(found, name) for name in same} | {
        "team": found.team.slug,
        "owner": found.owner and found.owner.get_username(),
        "workspaces": [_place(each) for each in facts.places[:MAX_PLACES]],
        "environments": [_environment(each) for each in facts.environments],
        "policy": {"version": facts.policy.number, "environments": facts.own_policies},
        "tools": [_tool(each) for each in facts.tools],
        "asks": facts.asks,
        "tokens": [_token(each) for each in facts.tokens],
        "run_tokens": facts.run_tokens,
        "sessions": [_session(each) for each in facts.sessions],
        "grants": [_grant(each) for each in facts.grants],
        "denied": [_denial(each) for each in facts.denied],
    }


def _key(row) -> str | None:
    return row.workspace.key if row.workspace else None


def _picked(row, *names: str) -> dict:
    return {name: getattr(row, name) for name in names}


def _place(place: Place) -> dict:
    environment = place.workspace.environment
    return {
        "key": place.workspace.key,
        "environment": environment.name,
        "agents_together": environment.agents_together,
        "others_at_work": place.others,
        **_picked(place, "is_creator", "hosts", "is_at_work", "is_locked", "refused_at"),
    }


def _environment(choice: Choice) -> dict:
    named = _picked(choice.environment, "name", "version")
    return named | {"may_use": not choice.why_not} | _picked(choice, "why_not", "hosts")


def _tool(tool: Tool) -> dict:
    return {"tool": tool.name} | _picked(tool, "calls", "asked", "denied", "rules")


def _token(token) -> dict:
    return {"workspace": _key(token)} | _picked(token, "prefix", "created_at", "expires_at", "last_used_at")


def _session(session) -> dict:
    when = _picked(session, "id", "started_at", "last_at", "ended_at")
    return {"title": str(session), "workspace": _key(session)} | when


def _grant(grant) -> dict:
    named = {"workspace": _key(grant), "by": grant.by.get_username()}
    return named | _picked(grant, "id", "says", "expires_at", "uses_left")


def _denial(denial: Denial) -> dict:
    action = denial.action
    named = {"action": action.pk, "workspace": _key(action), "at": action.ended_at, "by": denial.by or None}
    return named | _picked(action, "number", "title", "tool") | {"reasons": denial.reasons}
