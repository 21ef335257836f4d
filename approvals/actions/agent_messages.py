"""Messages for agents about their actions. Each one says what to do next."""

from django.conf import settings
from django.db.models import Q

from approvals.actions.questions_to_agents import is_unheard
from approvals.actions.transitions import final_decision, policy_label
from approvals.evaluation.calls import parsed
from approvals.evaluation.judge import content, current, was_edited
from approvals.models import Action, ActionEndCode, Status
from approvals.questions import own_questions
from dashboard import json_text
from dashboard.database import clock

MAX_SHOWN = 4000  # characters of a call that a message repeats
ASKED_AGAIN = "The same call was made again. Its answer goes to the newer request."


def refusal(action: Action) -> str:
    """Return why the call does not run, for an action that is not approved."""
    match action.status:
        case Status.PENDING if is_unheard(action):
            return _question(action)
        case Status.PENDING if action.tool in own_questions.TOOLS:
            return (
                f"Nobody has answered yet ({action}). This is not a denial. To wait on, make exactly this call again."
            )
        case Status.PENDING:
            return (
                f"Not approved yet ({action}). This is not a denial. Continue with other work, then make exactly the "
                "same call again; if it's approved it will run at once."
            )
        case Status.DENIED:
            return _denied(action)
        case Status.EXPIRED if action.decided_at:
            return "This was approved, but the approval expired before it was used. Ask again if you still need it."
        case Status.EXPIRED:
            return (
                f"Nobody answered by {clock.in_utc(action.expires_at)}, so this did not run. This is not a denial. "
                "Ask again if you still need it."
            )
        case Status.CANCELLED:
            note = action.result["note"]
            return (
                note
                if action.end_code in (ActionEndCode.STOPPED, ActionEndCode.INTERRUPTED)
                else f"{note} It did not run."
            )
        case Status.FAILED | Status.UNCERTAIN if action.is_carried_out:
            return f"It could not be carried out as it was approved: {_sentence(action.result['note'])}"
        case _:
            return f"This approval was already used ({action}). Make the call again if you still need it."


def _question(action: Action) -> str:
    where = "in the `description` of the call" if action.tool == "Bash" else "in a sentence of your own"
    return (
        f"{action.open_question.user.get_username()} asks before deciding {action}: “{action.open_question.text}” "
        f"This is a question, not a denial. Answer it {where}, and make exactly the same call again: it waits for the "
        "decision, with your answer beside it."
    )


def _denied(action: Action) -> str:
    decision = final_decision(action)
    if decision is None:
        return f"The policy forbids this: {_sentence(' '.join(current(action).all_reasons))} Do not work around this."
    if action.tool in own_questions.TOOLS:
        return _declined(action, decision)
    if decision.do_first:
        return (
            f"{decision.user.get_username()} did not approve this yet. First do this: {_sentence(decision.comment)} "
            "Then make this call again, changed if that needs it: it is shown as a revision of this one."
        )
    if decision.comment.strip():
        return f"{decision.user.get_username()} denied this: {_sentence(decision.comment)} Do not work around this."
    return f"{decision.user.get_username()} denied this. Do not work around this."


def _declined(action: Action, decision) -> str:
    """Return what the agent hears of a plan that was sent back, or a question that a person does not answer."""
    name, comment = decision.user.get_username(), decision.comment.strip()
    if action.tool in own_questions.QUESTIONS:
        said = f"{name} declined to answer{f': {_sentence(comment)}' if comment else '.'}"
        return f"{said} Do not ask the same again: go on without an answer, or say what you need it for."
    said = f"{name} sent the plan back{f' with comments: {_sentence(comment)}' if comment else ' without a comment.'}"
    return f"{said} Nothing is approved. Change the plan, and present it again."


def permission(action: Action) -> str:
    """Return who allowed the action."""
    decision = final_decision(action)
    if decision:
        word = (
            own_questions.word_of(action.tool, decision.verdict) if action.tool in own_questions.TOOLS else "approved"
        )
        return f"{word.capitalize()} by {decision.user.get_username()} ({action})."
    return f"Allowed by {policy_label(action)} ({action})."


def notes(action: Action) -> str:
    """Return context for the model when the call is allowed: an edit of the arguments, and people's notes; or ""."""
    edited = [_edit(action)] if was_edited(action) and action.tool not in own_questions.TOOLS else []
    return " ".join(filter(None, [*edited, comments(action)]))


def _edit(action: Action) -> str:
    editor = next(r for r in sorted(action.revisions.all(), key=lambda r: -r.number) if r.by.get("type") == "person")
    instead = _in_short(action.tool, content(action)["arguments"])
    return f"{editor.by.get('label', 'A person')} edited this before it ran. What ran instead: {instead}"


def comments(action: Action) -> str:
    """Return the notes of people who edited the call or approved the current revision, oldest first."""
    if not action.decisions.all():
        return ""
    on = Q(verdict="edit") | Q(verdict="approve", revision__number=action.revision)
    found = action.decisions.filter(on).exclude(comment="").select_related("user").order_by("at")
    return " ".join(f"Note from {given.user.get_username()}: {_sentence(given.comment)}" for given in found)


def _in_short(tool: str, arguments: dict) -> str:
    """Return the call in a form that its agent can recognise, cut to MAX_SHOWN characters."""
    text = arguments.get("command")
    if tool != "Bash" or not isinstance(text, str):
        text = f"{tool} with {json_text.dumps(arguments, ensure_ascii=False)}"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}… ({len(text):,} characters)"


def approved_meanwhile(action: Action) -> str:
    """Return the reminder for an agent that stops although a call it no longer waits for was approved."""
    asked = parsed(action.revisions.get(number=1).canonical)
    done = "answered" if action.tool in own_questions.QUESTIONS else "approved"
    return (
        f"{action} has been {done}. Make that call again, exactly as before, and it runs at once. "
        f"The call: {_in_short(asked['tool'], asked['arguments'])}"
    )


def for_the_terminal(action: Action) -> str:
    """Return a line with the card's URL for the agent's own terminal; "" if no person is involved."""
    address = f"{settings.HANDRAIL_PUBLIC_URL}/actions/{action.pk}/"
    if action.status == Status.PENDING:
        return f"Handrail: {action} needs approval: {address}"
    decision = final_decision(action)
    if decision is None:
        return ""
    is_own = action.tool in own_questions.TOOLS
    verdict = own_questions.word_of(action.tool, decision.verdict) if is_own else _outcome(action, decision)
    return f"Handrail: {decision.user.get_username()} {verdict} {action}: {address}"


def _outcome(action: Action, decision) -> str:
    if decision.verdict != "deny":
        return "edited and approved" if was_edited(action) else "approved"
    return "sent back" if decision.do_first else "denied"


def _sentence(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
