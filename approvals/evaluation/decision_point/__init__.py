"""An external decision point, Cedar or OPA, that is asked beside our own rules: the strictest answer wins.

It is asked after our verdict and can only tighten it. Whatever goes wrong is an answer that asks a person.
"""

import logging
from dataclasses import dataclass, replace

from django.conf import settings

from approvals.evaluation.decision_point import document
from approvals.evaluation.decision_point.answers import ASK, Answer, NoAnswer
from approvals.policy.people import stricter
from approvals.policy.verdict import TIERS, reason
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.models import Agent, Team
from dashboard.text.strict_json import without_nul
from workspaces.secrets.masking import Masker

logger = logging.getLogger("handrail.gate")
ASKS = "tells_reach"  # in the context of a call, so that the engine tells where each part acts


@dataclass(frozen=True)
class Asked:
    """The call that is asked about. `agent` is the name of the one that asks, None if that is not known."""

    tool: str
    workspace: object | None
    team_id: object
    agent: str | None
    held: bool


def context() -> dict:
    """Return what the engine's context has besides, if a decision point is set."""
    return {ASKS: True} if settings.HANDRAIL_DECISION_POINT else {}


def tightened(found, asked: Asked):
    """Return the verdict (judge.PolicyResult), or a stricter one if the decision point says so."""
    if settings.HANDRAIL_DECISION_POINT is None:
        return found
    parts = found.commands
    found = replace(found, commands=[{key: value for key, value in part.items() if key != "reach"} for part in parts])
    if found.tier == "forbidden" or asked.tool in own_questions.TOOLS:
        return found
    return _with(found, _answer(found, parts, asked))


def _with(found, answer: Answer):
    if answer.tier is None:
        return found
    is_stricter = TIERS.index(answer.tier) > TIERS.index(found.tier)
    tier = answer.tier if is_stricter else found.tier
    why = reason(answer.tier, without_nul(answer.why))
    reasons = [why] if found.is_allowed else [why, *found.reasons] if is_stricter else [*found.reasons, why]
    people = found.approvals
    if is_stricter and found.needs_approval:  # a policy may take more people for the milder tier
        people = stricter(people, {tier: found.takes})
    return replace(found, tier=tier, reasons=reasons, envelope=None, takes_person=True, approvals=people)


def _answer(found, parts, asked: Asked) -> Answer:
    """Ask, and return the answer; any error is one that asks a person."""
    point = settings.HANDRAIL_DECISION_POINT
    try:
        if asked.agent is None:
            raise NoAnswer("the agent that asks is not known")
        about = document.of(found, parts, _around(asked), Masker(asked.workspace).stored)
        # Only what is asked is imported.
        if point.kind == "opa":
            from approvals.evaluation.decision_point import opa

            return opa.ask(point.place, about, settings.HANDRAIL_DECISION_POINT_SECONDS)
        from approvals.evaluation.decision_point import cedar

        return cedar.ask(point.place, about)
    except NoAnswer as error:
        why = str(error)
    except Exception as error:
        # Broad on purpose, as in `judge`: an error here leads to a question for a person.
        logger.exception("%s gave no verdict on a %s call", point.name, asked.tool)
        why = type(error).__name__
    return Answer(ASK, f"{point.name} gave no verdict: {why}")


def _around(asked: Asked) -> document.Around:
    team = Team.objects.get(pk=asked.team_id)
    agent = Agent.objects.select_related("owner").get(team=team, name=asked.agent)
    workspace, environment = asked.workspace, asked.workspace and asked.workspace.environment
    return document.Around(
        team=team.slug,
        agent=agent.name,
        owner=agent.owner.get_username() if agent.owner else None,
        tool=asked.tool,
        at=clock.now(),
        held=asked.held,
        workspace=workspace.key if workspace else None,
        environment=environment.name if environment else None,
        driver=environment.driver if environment else None,
        labels=dict(workspace.labels or {}) if workspace else {},
    )
