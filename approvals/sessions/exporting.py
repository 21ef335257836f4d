"""A conversation as a file: JSON lines with all that is kept, or Markdown to read. Texts are as stored, masked."""

import json
import re
from collections.abc import Iterator

from approvals.models import AgentSession, Message, MessageKind
from approvals.sessions.reading import messages_of

AT_ONCE = 200  # messages read by one query
WHO = {"assistant": "Agent", "tool": "Tool", "system": "Note"}
OF_SESSION = ("native_id", "dialect", "title", "model", "cwd", "gated_by", "end_reason", "seq", "branch", "unknown")
OF_SESSION += ("started_at", "last_at", "ended_at", "tokens_in", "tokens_out", "tokens_cached", "cost")
OF_MESSAGE = ("seq", "branch", "native_id", "at", "role", "kind", "text", "bytes", "tool", "call_id", "ok", "model")
OF_MESSAGE += ("tokens_in", "tokens_out", "source")


def of_session(session: AgentSession) -> dict:
    """Return a session for the API and exports."""
    workspace = session.workspace
    named = {"id": session.pk, "agent": session.agent.name, "workspace": workspace and workspace.key}
    named |= {"parent": session.parent_id, "started_by": session.call_id}
    return named | {name: getattr(session, name) for name in OF_SESSION}


def of_message(message: Message) -> dict:
    """Return a message for the API and exports; `text` is the part that stands in its row."""
    action = message.action
    before = action and action.snapshot_before
    joined = {"action": message.action_id, "action_number": action and action.number}
    joined |= {"snapshot": before and before.number, "by": message.by and message.by.get_username()}
    return {name: getattr(message, name) for name in OF_MESSAGE} | joined | {"is_whole": not message.is_long}


def json_lines(session: AgentSession) -> Iterator[bytes]:
    """Yield the session, then each message with its whole text, as one JSON object a line."""
    yield _line({"type": "session", **of_session(session)})
    for message in _messages(session):
        told = of_message(message) | {"text": message.whole}
        del told["is_whole"]
        yield _line({"type": "message", **told})


def _line(told: dict) -> bytes:
    return json.dumps(told, ensure_ascii=False, default=_plain).encode() + b"\n"


def _plain(value) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def markdown(session: AgentSession) -> Iterator[bytes]:
    """Yield the conversation as Markdown. Each text is in a fence, so that it cannot pass for part of the document."""
    place = f" · {session.workspace.key}" if session.workspace else ""
    title = " ".join(f"{session}".split())
    yield f"# {_fenced_word(title)}\n\n{session.agent.name} · {session.dialect}{place}\n".encode()
    for message in _messages(session):
        yield _section(message).encode()


def _section(message: Message) -> str:
    asked = "Agent that started it" if message.session.parent_id else "Prompt"
    who = message.by.get_username() if message.by else {**WHO, "user": asked}[message.role]
    tool = f" · {_fenced_word(message.tool)}" if message.tool else ""
    card = f" · A-{message.action.number}" if message.action else ""
    failed = " · failed" if message.ok is False else ""
    at = message.at.isoformat(timespec="seconds")
    text, kind = message.whole, "json" if message.kind == MessageKind.CALL else ""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"\n## {message.seq} · {who} · {message.kind}{tool}{card}{failed} · {at}\n\n{fence}{kind}\n{text}\n{fence}\n"


def _fenced_word(text: str) -> str:
    return "`" + text.replace("`", "'") + "`"


def _messages(session: AgentSession) -> Iterator[Message]:
    """Yield the messages in the order of the conversation, some at a time."""
    ids = list(session.messages.order_by("at", "seq").values_list("pk", flat=True))
    for begin in range(0, len(ids), AT_ONCE):
        some = ids[begin : begin + AT_ONCE]
        found = {row.pk: row for row in messages_of(session).filter(pk__in=some)}
        yield from (found[pk] for pk in some if pk in found)
