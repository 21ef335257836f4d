"""Rows of conversations from what hooks tell, at once: prompts, calls, results and last answers.

The events of Claude Code and Codex, which have the same names, are read as they are; those of other agents as their
dialects read them. Nothing here decides anything, so no failure of it may hold up a call.
"""

import logging

from approvals.agents.hook_events import After, Before, Began, Ended, HookEvent, Prompted, TurnEnded
from approvals.agents.lines import MAX_ID, Line
from approvals.agents.own_words import is_of_the_program
from approvals.agents.transcripts import CONVERSATIONS
from approvals.models import AgentSession, MessageKind, MessageSource, Role
from approvals.sessions import places, rows, sessions
from workspaces.models import Workspace

logger = logging.getLogger("handrail.conversations")


def hear(dialect: str, event: dict, caller, workspace: Workspace | None):
    """Store an event of a hook in its conversation. It never raises."""
    try:
        _keep(dialect, event, caller, workspace)
    except Exception:
        # Broad on purpose: the caller answers a hook, and an agent runs its tool when a hook fails.
        logger.exception("could not store the event of a hook in its conversation")


def hear_plainly(dialect: str, heard: HookEvent, caller, workspace: Workspace | None):
    """Store the lines that a dialect read from a hook's event in its conversation. It never raises."""
    try:
        _keep_plainly(dialect, heard, caller, workspace)
    except Exception:
        # Broad on purpose: as above.
        logger.exception("could not store the event of a hook in its conversation")


def _keep_plainly(dialect: str, heard: HookEvent, caller, workspace: Workspace | None):
    if not heard.session or len(heard.session) > MAX_ID:
        return
    lines = _lines_of(heard)
    if not lines and not isinstance(heard, Began | Ended):
        return
    noted = {"cwd": text({"cwd": heard.cwd}, "cwd"), "gated_by": "hook"}
    session = sessions.session_of(caller.agent, dialect, heard.session, workspace=workspace, **noted)
    if lines:
        rows.add(session, lines, MessageSource.HOOK)
    if isinstance(heard, Ended):
        sessions.end(session, text(heard.noted, "reason"))


def _lines_of(heard: HookEvent) -> list[Line]:
    match heard:
        case Prompted():
            return _prompted({"prompt": heard.text})
        case TurnEnded():
            return _last_answer({"last_assistant_message": heard.said})
        case Before() | After():
            about = {"tool": heard.tool, "call_id": heard.call_id}
            called = [Line(Role.ASSISTANT, MessageKind.CALL, heard.arguments, **about)]
            if isinstance(heard, Before):
                return called
            content = heard.error if heard.error is not None else heard.response
            result = Line(Role.TOOL, MessageKind.RESULT, _printed(content), ok=not heard.failed, **about)
            # Without an id nothing tells that a call is the one that was heard before its result.
            return [*called, result] if heard.call_id else [result]
    return []


def _keep(dialect: str, event: dict, caller, workspace: Workspace | None):
    name, native_id = text(event, "hook_event_name"), text(event, "session_id")
    if not native_id or name not in TOLD or len(native_id) > MAX_ID:
        return
    if event.get("agent_id") and event.get("agent_type") == "":
        return  # the program's own work, such as a summary of the conversation
    lines = TOLD[name](event)
    session = _session(dialect, event, caller, workspace)
    if name == "PostToolUse" and (started := _started(event)):
        sessions.started_by(session, started, text(event, "tool_use_id"))
    if lines:
        rows.add(session, lines, MessageSource.HOOK)
    if name == "SessionEnd":
        sessions.end(session, text(event, "reason"))
    if name == "SubagentStop" and session.parent_id:
        sessions.end(session, "")


def _session(dialect: str, event: dict, caller, workspace: Workspace | None) -> AgentSession:
    """Return the event's session: a sub-agent's is below the one that started it."""
    noted = {"cwd": text(event, "cwd"), "model": text(event, "model")[:100], "gated_by": "hook"}
    main = sessions.session_of(caller.agent, dialect, text(event, "session_id"), workspace=workspace, **noted)
    places.follow(main, text(event, "transcript_path"), caller)
    agent_id = text(event, "agent_id")
    if not agent_id or len(agent_id) > MAX_ID:
        return main
    child = sessions.session_of(caller.agent, dialect, agent_id, workspace=workspace, parent=main, **noted)
    told = [text(event, "agent_transcript_path"), text(event, "transcript_path")]
    if agent := CONVERSATIONS.get(dialect):
        told.append(agent.of_sub_agent(main.transcript, agent_id))
    places.follow_first(child, told, caller)
    return child


def _started(event: dict) -> str:
    """Return the id of the sub-agent that a call has started, "" if it has started none."""
    response = event.get("tool_response")
    return text(response, "agentId") if isinstance(response, dict) else ""


def text(event: dict, name: str) -> str:
    """Return a text of an event as it can be stored, "" if it has none."""
    value = event.get(name)
    return value.replace("\0", "␀").encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else ""


def _nothing(event: dict) -> list[Line]:
    return []


def _prompted(event: dict) -> list[Line]:
    words = text(event, "prompt").strip()
    if is_of_the_program(words):
        return [Line(Role.SYSTEM, MessageKind.NOTE, words)]
    return [Line(Role.USER, MessageKind.TEXT, words)] if words else []


def _last_answer(event: dict) -> list[Line]:
    words = text(event, "last_assistant_message").strip()
    return [Line(Role.ASSISTANT, MessageKind.TEXT, words)] if words else []


def _notified(event: dict) -> list[Line]:
    words = text(event, "message").strip()
    return [Line(Role.SYSTEM, MessageKind.NOTE, words)] if words else []


def _called(event: dict) -> list[Line]:
    call_id, tool = text(event, "tool_use_id"), text(event, "tool_name")
    if not call_id or not tool:
        return []
    return [Line(Role.ASSISTANT, MessageKind.CALL, event.get("tool_input") or {}, tool=tool, call_id=call_id)]


def _returned(event: dict) -> list[Line]:
    called = _called(event)
    if not called:
        return []
    failed = event["hook_event_name"] == "PostToolUseFailure"
    content = event.get("error") if failed else event.get("tool_response")
    result = Line(Role.TOOL, MessageKind.RESULT, _printed(content), tool=called[0].tool, call_id=called[0].call_id)
    return [*called, Line(**vars(result) | {"ok": not failed})]


def _printed(response):
    """Return a response as the model reads it, as far as its shape is known; else as it is."""
    if isinstance(response, dict) and isinstance(response.get("stdout"), str):
        parts = (response["stdout"], response.get("stderr"))
        return "\n".join(part.rstrip("\n") for part in parts if isinstance(part, str) and part)
    blocks = response.get("content") if isinstance(response, dict) else response
    if isinstance(blocks, list) and blocks and all(isinstance(each, dict) and "text" in each for each in blocks):
        return "\n".join(str(each["text"]) for each in blocks)
    return "" if response is None else response


TOLD = {
    "SessionStart": _nothing,
    "SessionEnd": _nothing,
    "SubagentStart": _nothing,
    "UserPromptSubmit": _prompted,
    "Notification": _notified,
    "PreToolUse": _called,
    "PostToolUse": _returned,
    "PostToolUseFailure": _returned,
    "Stop": _last_answer,
    "SubagentStop": _last_answer,
}
