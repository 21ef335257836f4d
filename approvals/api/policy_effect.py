"""The effect of a changed policy on the calls of the last month, over HTTP."""

from typing import Literal
from uuid import UUID

from ninja import Router, Schema
from pydantic import Field

from approvals.api.policy import NewText, TakesOut, must_write, scope_or_404
from approvals.policy import TIERS
from approvals.reports.policy_changes import effect, kept
from dashboard.problems import not_found
from dashboard.web.api_base import PROBLEMS

router = Router(tags=["policy"])


class ChangeOut(Schema):
    action: UUID
    number: int
    title: str
    before: Literal[TIERS]
    after: Literal[TIERS]
    takes_before: TakesOut = Field(description="the people who have to approve it, if it asks any")
    takes_after: TakesOut
    rule: str = Field(description="of the changed text, if one decides")


class EffectOut(Schema):
    days: int
    calls: int = Field(description="recorded calls of that time that the policy judges")
    judged: int = Field(description="those that were compared, the newest")
    cut_off: bool = Field(description="true: the others are left, and GET /policies/effect/{replay} goes on")
    replay: str = Field(description="the comparison, which is kept for a while")
    same: int
    counts: dict[str, int] = Field(description="calls in each group of changes")
    changes: dict[str, list[ChangeOut]] = Field(description=f"at most {effect.MAX_LISTED} of each group")


@router.post("/policies/effect", response={200: EffectOut} | PROBLEMS)
def try_policy(request, body: NewText):
    """Say what a text would have done with the calls of the last month, compared to the policy in force.

    Nothing is saved. The newest calls are judged first, for half a minute; what is left then, `GET
    /policies/effect/{replay}` goes on with.
    """
    must_write(request)
    one = kept.keep(effect.Replay(scope_or_404(request, body.environment), body.text))
    one.advance(effect.SECONDS)
    return _effect_out(one)


@router.get("/policies/effect/{replay}", response={200: EffectOut} | PROBLEMS)
def go_on_trying(request, replay: str):
    """Go on with a comparison that was cut off, for half a minute at most, and say what was found so far."""
    must_write(request)
    one = kept.find(replay, request.auth.team_ids)
    if one is None:
        raise not_found("replay")
    one.advance(effect.SECONDS)
    return _effect_out(one)


def _effect_out(one: kept.Kept) -> dict:
    found = one.replay.effect()
    return {
        "replay": one.key,
        "days": found.days,
        "calls": found.of,
        "judged": found.judged,
        "cut_off": not one.replay.is_done,
        "same": found.same,
        "counts": found.counts,
        "changes": {name: [_change(change) for change in changes] for name, changes in found.groups.items()},
    }


def _change(change: effect.Change) -> dict:
    action = change.action
    named = {"action": action.pk, "number": action.number, "title": action.title}
    takes = {"takes_before": change.takes_before.as_dict, "takes_after": change.takes_after.as_dict}
    return named | takes | {"before": change.before, "after": change.after, "rule": change.rule}
