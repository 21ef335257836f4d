"""Take back outside what an action did there: a call of its own, with its own card, judged and attested as any other.

`compensate` submits the call that was found before the decision (approvals.actions.way_back_search).
"""

from approvals.actions import submission
from approvals.actions.expiry import end_if_due
from approvals.actions.mcp_tools import UNKNOWN, Served
from approvals.actions.transitions import record
from approvals.actions.way_back_search import RAN, TOOL, of
from approvals.evaluation.calls import BROKER, GATE, Call
from approvals.models import Action, Status, WayBack, WayBackState
from dashboard.models import Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, not_allowed

# Ends after which the same may be asked again: nothing was taken back.
NOT_TAKEN = (Status.DENIED, Status.EXPIRED, Status.CANCELLED, Status.FAILED)
NONE = "There is no way back outside from this action."
NOT_OVER = "This action has not run, so there is nothing to take back."
LATER = "Handrail is still asking what there is to take back. Try again in a moment."


def why_not(action: Action) -> str:
    """Return why the action cannot be taken back outside now, as a sentence; "" if it can."""
    row = of(action)
    if row is None or row.state == WayBackState.NONE:
        return row.why_not if row and row.why_not else NONE
    if action.status not in RAN:
        return NOT_OVER
    return "" if row.state == WayBackState.READY else LATER


def taken_by(action: Action) -> Action | None:
    """Return the newest action that was asked to take this one back."""
    row = of(action)
    return row.taken_by if row else None


def is_offered(action: Action) -> bool:
    """Return whether the action can be taken back, and nobody has asked for that or it came to nothing."""
    taken = taken_by(action)
    return not why_not(action) and (taken is None or taken.status in NOT_TAKEN)


def compensate(action: Action, *, caller) -> tuple[Action, bool]:
    """Submit the call that takes the action back; return (its action, whether it is new).

    The one that is there already is returned unless it came to nothing. Reviewers may, and the agent whose action it
    is. Problem 403; 409 with code no_way_back.
    """
    if not caller.can("take_back", action.team_id):
        raise not_allowed("Only a reviewer, lead or admin, or the agent itself, can take back what an action did.")
    if reason := why_not(action):
        raise conflict(reason, code="no_way_back")
    known = taken_by(action)
    if known is not None and (known := end_if_due(known)).status not in NOT_TAKEN:
        return known, False
    made, is_new = submission.submit(_call_for(action, caller), caller=_agent_of(action))
    with Team.objects.turn(action.team_id):
        if not Action.objects.filter(pk=made.pk, compensates=None).update(compensates=action):
            return made, False
        WayBack.objects.filter(action=action).update(taken_by=made)
        asked = {"action": str(made.pk), "asked": f"A-{made.number}"}
        record(action, "action.compensation_asked", caller.actor, asked)
    return made, is_new


def _call_for(action: Action, caller) -> Call:
    """Return the compensating call. Its key makes two requests at once one action."""
    call = action.way_back.call
    tries = Action.objects.filter(compensates=action).count()
    key = f"compensate:{action.pk}:{tries}"
    reasoning = f"Takes back A-{action.number}."
    own_verb = call["tool"] == TOOL
    # The gate binds the definition of the tool when it makes the call; an approval is for this server.
    served = Served(**call["served"], tool_sha256=UNKNOWN) if "served" in call else None
    mode = BROKER if own_verb or call["tool"] == "Bash" else GATE
    how = {"cwd": call.get("cwd"), "served": served}
    return Call(
        call["tool"],
        call["arguments"],
        workspace=action.workspace,
        mode=mode,
        own_verb=own_verb,
        idempotency_key=key,
        body_hash=key[:64],
        reasoning=reasoning,
        by=caller.actor if caller.is_person else None,
        **how,
    )


def _agent_of(action: Action) -> Caller:
    return Caller(roles={action.agent.team_id: "agent"}, agent=action.agent)


def as_json(action: Action) -> dict | None:
    """Return {title, call, state, action, found_at} of the way back; None where there is none."""
    row = of(action)
    if row is None or row.call is None:
        return None
    told = {"title": row.title, "call": {"tool": row.call["tool"], "arguments": row.call["arguments"]}}
    return told | {"state": row.state, "action": row.taken_by_id, "found_at": row.found_at}


def missing(action: Action) -> str | None:
    """Return why there is no way back, or what of the action it does not take back; None if nothing is missing."""
    row = of(action)
    return (row.why_not or None) if row else None
