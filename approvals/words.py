"""What an agent is told: short, true, and clear about what to do next."""

import json

from approvals.endings import STOPPED
from approvals.models import Action, Status
from approvals.moves import final_decision, policy_label
from approvals.reading import content, current

SHOWN = 4000  # characters of edited arguments that are repeated in words


def refusal(action: Action) -> str:
    """Why the call does not run, for an action that is anything but approved."""
    match action.status:
        case Status.PENDING:
            return (
                f"Waiting for a person ({action}). Go on with something else and make the same call again later; "
                "the answer is kept."
            )
        case Status.DENIED:
            return _denied(action)
        case Status.EXPIRED if action.decided_at:
            return "The approval was not collected in time and has lapsed. Ask again if it still matters."
        case Status.EXPIRED:
            return f"Nobody answered until {_time(action.expires_at)}. This is not a no. Ask again if it still matters."
        case Status.CANCELLED:
            note = (action.result or {}).get("note") or "This was taken back."
            return note if note == STOPPED else f"{note} It did not run."
        case _:
            return f"This call was let through once already ({action}). Make it again if it is needed again."


def _denied(action: Action) -> str:
    decision = final_decision(action)
    if decision is None:
        return f"The policy forbids this: {_sentence(' '.join(current(action).reasons))} Do not work around this."
    if decision.comment.strip():
        return f"{decision.user.get_username()} said no: {_sentence(decision.comment)} Do not work around this."
    return f"{decision.user.get_username()} said no. Do not work around this."


def permission(action: Action) -> str:
    """By whom it was allowed."""
    decision = final_decision(action)
    if decision:
        return f"Approved by {decision.user.get_username()} ({action})."
    return f"Allowed by {policy_label(action)} ({action})."


def edit(action: Action) -> str | None:
    """What to tell the model when other arguments run than it asked for; None when they are the same."""
    if action.revision == 1:
        return None
    by, call = current(action).by.get("label", "A person"), content(action)
    instead = call["arguments"].get("command")
    if action.tool != "Bash" or not isinstance(instead, str):
        instead = f"{action.tool} with {json.dumps(call['arguments'], ensure_ascii=False)}"
    shown = instead if len(instead) <= SHOWN else f"{instead[:SHOWN]}… ({len(instead):,} characters)"
    return f"{by} changed this before it ran. What ran instead: {shown}"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _time(moment) -> str:
    return f"{moment:%H:%M} UTC"
