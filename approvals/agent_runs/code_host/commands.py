"""What people write to Handrail in a thread: a line that begins with the mention, and what comes of it."""

import re
from dataclasses import dataclass

from approvals.actions.answer import APPROVE, DENY, Answer
from approvals.actions.decisions import decide
from approvals.agent_runs import attempts
from approvals.models import Action, Status, TaskThread, ThreadPost, Tier
from approvals.questions import own_questions
from dashboard.people.access import Caller
from dashboard.problems import Problem
from workspaces.code_hosts.threads import MAX_TEXT

START, CHOOSE, ENOUGH = "start", "choose", "enough"
VERBS = (START, APPROVE, DENY, CHOOSE, ENOUGH)
CHANGED = "{name} has changed since it was shown here. Look at it in Handrail."


@dataclass(frozen=True)
class Asked:
    """A line to Handrail: `number` of a call or an attempt, `words` after it."""

    verb: str
    number: int = 0
    words: str = ""


def parse(text: str, mention: str) -> Asked | None:
    """Return what the first line that begins with the mention asks for; None without one.

    A mention alone asks to start. Quoted lines are somebody else's.
    """
    for line in text[:MAX_TEXT].splitlines():
        first, *words = line.strip().split()[:200] or [""]
        if first.rstrip(":,").casefold() != mention.casefold():
            continue
        if not words:
            return Asked(START)
        if (verb := words[0].casefold().rstrip(":,")) in VERBS:
            found = re.fullmatch(r"#?(?:[aA]-)?(\d{1,9})[:,]?", words[1]) if len(words) > 1 else None
            rest = words[2:] if found else words[1:]
            return Asked(verb, int(found[1]) if found else 0, " ".join(rest))
    return None


def carry_out(asked: Asked, thread: TaskThread, *, caller: Caller) -> str:
    """Do what a person asked for in a thread; return what came of it as a sentence."""
    try:
        match asked.verb:
            case "approve" | "deny":
                return _answer(asked, thread, caller)
            case "choose":
                attempts.choose(thread.task, asked.number, caller=caller)
                return f"Attempt {asked.number} is chosen; the others are in the trash."
            case "enough":
                attempts.require(caller, thread.team_id)
                TaskThread.objects.filter(pk=thread.pk).update(follower=None)
                return "Enough: the agent gets no more checks and comments from here."
    except Problem as problem:
        return problem.detail
    return "The task has begun already."


def _answer(asked: Asked, thread: TaskThread, caller: Caller) -> str:
    places = thread.task.attempts.values("workspace")
    action = Action.objects.filter(team=thread.team_id, number=asked.number, workspace__in=places).first()
    if action is None:
        return f"No call A-{asked.number} of this task is known."
    shown = ThreadPost.objects.filter(thread=thread, key__startswith=key_of(action, "")).order_by("created_at").last()
    if shown is None or not shown.digest or not can_be_answered(action):
        return f"{action} can't be answered here. Open it in Handrail."
    if shown.digest != action.digest:
        return CHANGED.format(name=action)
    decide(action, Answer(asked.verb, shown.digest, asked.words), caller=caller)
    outcome = {APPROVE: "approved", DENY: "denied"}[asked.verb]
    return f"{action} is {outcome} by {caller.user.get_username()}."


def key_of(action: Action, digest: str) -> str:
    """Return the key of the comment that shows a call."""
    return f"ask:{action.pk}:{digest}"


def can_be_answered(action: Action) -> bool:
    """Return whether a comment can decide the call: it can be undone, and one person decides it by a yes or no."""
    is_question = action.tool in own_questions.TOOLS
    is_light = action.undo == "yes" and action.tier in (Tier.LOW, Tier.MEDIUM, Tier.HIGH)
    return action.status == Status.PENDING and is_light and action.takes_one and not is_question
