"""Store the messages that an agent sends to its client over ACP."""

import logging

from approvals.agents import dialects
from approvals.agents.acp.dialect import CLIENT_PREFIX, PERMISSION, text_of
from approvals.agents.lines import MAX_ID, Line
from approvals.models import MessageKind, MessageSource, Role
from approvals.sessions import rows, sessions
from approvals.sessions.hearing import text
from workspaces.models import Workspace

logger = logging.getLogger("handrail.conversations")


def hear(event: dict, caller, workspace: Workspace | None):
    """Store an event in its conversation. It never raises."""
    try:
        _keep(event, caller, workspace)
    except Exception:
        # Broad on purpose: the response to a request for permission must not depend on it.
        logger.exception("could not store a message of an ACP agent")


def _keep(event: dict, caller, workspace: Workspace | None):
    native_id, name = text(event, "sessionId"), text(event, "hook_event_name")
    if not native_id or len(native_id) > MAX_ID:
        return
    hooked = dialects.DIALECTS.get(text(event, "dialect"))  # its hook's actions have the call ids without a prefix
    dialect = hooked.name if hooked else dialects.ACP.name
    noted = {"cwd": text(event, "cwd"), "gated_by": "hook" if hooked else "acp"}
    session = sessions.session_of(caller.agent, dialect, native_id, workspace=workspace, **noted)
    if lines := LINES.get(name, _nothing)(event, "" if hooked else CLIENT_PREFIX):
        rows.add(session, lines, MessageSource.ACP)


def _nothing(event: dict, prefix: str) -> list[Line]:
    return []


def _message_reader(role: str, kind: str):
    def lines(event: dict, prefix: str) -> list[Line]:
        words = text(event, "text").strip()
        key = text(event, "messageId")
        return [Line(role, kind, words, native_id=f"{kind}:{key}" if key else "")] if words else []

    return lines


def _called(event: dict, prefix: str) -> list[Line]:
    call = event.get("toolCall")
    if not isinstance(call, dict) or not text(call, "toolCallId"):
        return []
    tool = text(call, "kind") or "other"
    given = call.get("rawInput") or {"title": text(call, "title")}
    return [Line(Role.ASSISTANT, MessageKind.CALL, given, tool=tool, call_id=prefix + text(call, "toolCallId"))]


def _updated(event: dict, prefix: str) -> list[Line]:
    if isinstance(event.get("plan"), list):
        return _planned(event["plan"])
    called = _called(event, prefix)
    if not called:
        return []
    call = event["toolCall"]
    about = {"tool": called[0].tool, "call_id": called[0].call_id, "ok": call.get("status") == "completed"}
    content = text_of(call.get("content")) or call.get("rawOutput") or ""
    return [*called, Line(Role.TOOL, MessageKind.RESULT, content, **about)]


def _planned(entries: list) -> list[Line]:
    marks = {"completed": "x", "in_progress": "~"}
    told = [each for each in entries if isinstance(each, dict)]
    steps = [f"- [{marks.get(text(each, 'status'), ' ')}] {text(each, 'content')}" for each in told]
    return [Line(Role.ASSISTANT, MessageKind.NOTE, "\n".join(steps))] if steps else []


LINES = {
    "session/prompt": _message_reader(Role.USER, MessageKind.TEXT),
    "session/said": _message_reader(Role.ASSISTANT, MessageKind.TEXT),
    "session/thought": _message_reader(Role.ASSISTANT, MessageKind.THINKING),
    PERMISSION: _called,
    "session/update": _updated,
}
