"""Ask an agent about a call that waits, and keep what it answers. Neither decides anything.

An agent that polls gets the question in its next response. Claude Code's hook can only allow or deny: it is denied with
the question in its reason, the action stays pending, and the same call made again is the same action, which brings the
answer.
"""

import stat
from contextlib import closing, suppress

from django.db import transaction
from django.db.models import Q

from approvals.actions.decisions import may_approve_scope
from approvals.actions.transitions import record
from approvals.agents import transcript_files
from approvals.agents.transcripts import CONVERSATIONS
from approvals.evaluation.calls import Call
from approvals.evaluation.judge import content
from approvals.models import Action, ActionMessage, Status
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem, conflict, invalid, not_allowed
from workspaces.secrets.masking import masked
from workspaces.store.files import Opened

MAX_TEXT = 4000  # characters of a message
MAX_MESSAGES = 100  # about one action
MAX_TRANSCRIPT = 1 << 20  # bytes at the end of a transcript in which the answer is looked for
QUESTION, ANSWER = ActionMessage.Kind.QUESTION, ActionMessage.Kind.ANSWER


def ask(action: Action, *, caller, text: str) -> ActionMessage:
    """Ask the agent; the action waits on as it did. Problem 403, 409 if it is decided, 422."""
    if not caller.is_person or not caller.can("decide", action.team_id) or not may_approve_scope(action, caller):
        raise not_allowed("Only a reviewer, lead or admin can ask the agent.")
    if not text.strip():
        raise invalid("The question is empty.")
    with transaction.atomic():
        _lock(action, "It is decided already, so its agent can't be asked about it.")
        message = _add(action, QUESTION, text, user=caller.user)
        Action.objects.filter(pk=action.pk).update(open_question=message)
        action.open_question = message
        record(action, "action.question_asked", caller.actor)
    return message


def answer(action: Action, *, caller, text: str) -> ActionMessage:
    """Keep the agent's answer. Problem 403, 409 if it is decided."""
    if caller.is_person or caller.agent.pk != action.agent_id:
        raise not_allowed("Only the agent that asked answers questions about its call.")
    with transaction.atomic():
        _lock(action, "It is decided already.")
        message = _add(action, ANSWER, text)
        Action.objects.filter(pk=action.pk).update(open_question=None)
        action.open_question = None
        record(action, "action.question_answered", caller.actor)
    return message


def is_unheard(action: Action) -> bool:
    """Return whether a person asked something that the agent has not got yet."""
    waits = action.status == Status.PENDING and action.open_question_id is not None
    return waits and action.open_question.heard_at is None


def take_answer(action: Action, call: Call, *, caller, is_last: bool) -> bool:
    """Take the answer from a call that was made again; return whether there is one, or none can come.

    It is the call's `description`, if that is not the one that the action has, or else what the agent said since in its
    transcript, which may be written with a delay. At the last try no answer is an empty one.
    """
    if action.status != Status.PENDING or action.open_question.heard_at is None:
        return True
    said = _new_description(action, call) or _in_transcript(call, since=action.open_question.at)
    if not said and not is_last:
        return False
    with suppress(Problem):  # decided meanwhile
        answer(action, caller=caller, text=said)
    return True


def answer_from_last_message(session: str, text: str, *, caller):
    """Take what an agent said last in its turn as the answer to the questions about its session's calls."""
    asked = Q(agent=caller.agent, session=session, status=Status.PENDING, open_question__heard_at__isnull=False)
    for action in Action.objects.filter(asked).select_related("open_question", "workspace") if session and text else ():
        with suppress(Problem):
            answer(action, caller=caller, text=text)


def _lock(action: Action, problem: str):
    Team.objects.take_turn(action.team_id)
    if not Action.objects.filter(pk=action.pk, status=Status.PENDING).exists():
        raise conflict(problem, code="already_decided")


def _add(action: Action, kind: str, text: str, user=None) -> ActionMessage:
    if action.messages.count() >= MAX_MESSAGES:
        raise conflict(f"{MAX_MESSAGES} messages about one call are the most.")
    text = text.strip().replace("\0", "␀")
    text = masked(text, action.workspace)[:MAX_TEXT]
    return ActionMessage.objects.create(action=action, kind=kind, text=text, user=user, at=clock.now())


def _new_description(action: Action, call: Call) -> str:
    said = call.arguments.get("description")
    is_new = call.tool == "Bash" and isinstance(said, str) and said != content(action)["arguments"].get("description")
    return said if is_new else ""


def _in_transcript(call: Call, *, since) -> str:
    """Return the texts of the agent since then in its session's transcript; "" if it cannot be read here.

    The agent names the path: only a file that can be a transcript is read.
    """
    if call.workspace is not None and not call.workspace.environment.capabilities.own_folder:
        return ""  # its transcript is in the workspace
    path = call.transcript or ""
    for reader in CONVERSATIONS.values():
        if hasattr(reader, "texts_since") and transcript_files.can_be(path, reader.FOLDER):
            return reader.texts_since(_end_of(path), call.session, since)
    return ""


def _end_of(path: str) -> bytes:
    """Return the last lines of a transcript."""
    try:
        with closing(Opened(transcript_files.open_here(path))) as file:
            if not stat.S_ISREG(file.info.st_mode):
                return b""
            return file.pread(MAX_TRANSCRIPT, max(0, file.info.st_size - MAX_TRANSCRIPT))
    except (OSError, ValueError):
        return b""
