"""Rules of agents' own settings over HTTP: shown line by line as rules of a policy, and written back."""

from typing import Annotated, Literal

from ninja import Router, Schema
from pydantic import Field

from approvals.api.policy import Name, scope_or_404
from approvals.policy import TIERS, PolicyError, read_policy
from approvals.policy.rule_files import AGENTS, read_rules, written
from dashboard.problems import invalid, not_allowed
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict

router = Router(tags=["policy"])
To = Literal[AGENTS]


class Import(Strict):
    agent: To
    text: Annotated[str, Field(max_length=500_000)] = Field(
        description="claude: a settings.json with permissions; codex: a .rules file with prefix_rule"
    )


class TakenOut(Schema):
    tier: Literal[TIERS]
    rule: str


class LeftOut(Schema):
    line: str
    why: str


class RuleFileOut(Schema):
    taken: list[TakenOut]
    left_out: list[LeftOut]


class ExportOut(RuleFileOut):
    text: str


@router.post("/policies/import", response={200: RuleFileOut} | PROBLEMS)
def read_agent_rules(request, body: Import):
    """Say line by line which of an agent's own rules are rules of a policy. Nothing is saved."""
    if not request.auth.can("write_policy", request.auth.team_ids[0]):
        raise not_allowed("Only a lead or admin can change the policy.")
    try:
        return _told(read_rules(body.agent, body.text))
    except PolicyError as error:
        raise invalid(str(error)) from None


@router.get("/policies/export", response={200: ExportOut} | PROBLEMS)
def write_agent_rules(request, to: To, environment: Name = ""):
    """Write the policy in force as an agent's own rules, with what these cannot say. For people."""
    text, found = written(to, read_policy(scope_or_404(request, environment).policy.text))
    return _told(found) | {"text": text}


def _told(found) -> dict:
    taken = [{"tier": tier, "rule": rule} for tier, rule in found.taken]
    return {"taken": taken, "left_out": [{"line": line, "why": why} for line, why in found.left_out]}
