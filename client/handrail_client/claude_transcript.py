"""The transcript of Claude Code as messages: `~/.claude/projects/PROJECT/SESSION.jsonl`, a row for each block."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

from handrail_client import json_text
from handrail_client.conversation import Conversation, Message

PAUSE = 0.1  # seconds between two looks for the last answer, which Claude Code writes when its hooks run already
LOOKS = 30


class Transcript:
    """A transcript that grows, and the conversation as which it is posted."""

    def __init__(self, path: str, conversation: Conversation):
        self._path, self._conversation = Path(path), conversation
        self._end = 0  # of the rows that were read, in bytes
        self._read: list[Message] = []
        self._lock = threading.Lock()

    def post(self, answer: str = ""):
        """Post what is new, after waiting some seconds for the row with this last answer."""
        with self._lock:
            for _ in range(LOOKS):
                self._read += self._new_messages()
                if not answer or any(message.is_answer and message.content.strip() == answer for message in self._read):
                    break
                time.sleep(PAUSE)
            if self._conversation.post(self._read):
                self._read = []

    def _new_messages(self) -> list[Message]:
        """Return the messages of the whole rows that came since the last time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._end)
                rows, end, _ = file.read().rpartition(b"\n")
        except OSError:
            return []
        self._end += len(rows) + len(end)
        return [message for row in rows.split(b"\n") for message in messages_of(row)]


def messages_of(line: bytes) -> Iterator[Message]:
    """Yield the messages of a row; none of a sub-agent's, and none that the program wrote for the model alone."""
    try:
        row = json_text.loads(line)
    except (ValueError, RecursionError):
        return
    match row:
        case {"isSidechain": True} | {"isMeta": True} | {"isCompactSummary": True}:
            return
        case {"type": "user" | "assistant" as role, "uuid": str(uuid), "message": {"content": content, **message}}:
            model = message.get("model", "") if role == "assistant" else ""
            about = {"at": row.get("timestamp"), "model": model}
            for number, block in enumerate(_blocks(content)):
                if found := _message(role, block, id=f"{uuid}.{number}", **about):
                    yield found


def _message(role: str, block: dict, **about) -> Message | None:
    match block:
        case {"type": "text", "text": str(text)} if text.strip():
            return Message(role, text, **about)
        case {"type": "thinking", "thinking": str(text)} if text.strip():
            return Message(role, text, "thinking", **about)
        case {"type": "tool_use", "id": str(call_id), "name": str(tool), "input": dict(arguments)}:
            return Message(role, arguments, "call", tool=tool, call_id=call_id, **about)
        case {"type": "tool_result", "tool_use_id": str(call_id)}:
            text, ok = _text(block.get("content")), block.get("is_error") is not True
            return Message("tool", text, "result", call_id=call_id, ok=ok, **about)
    return None


def _blocks(content) -> list[dict]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


def _text(content) -> str:
    """Return the words of a result; of its other parts, such as pictures, their type alone."""
    return "\n".join(str(block.get("text", f"[{block.get('type')}]")) for block in _blocks(content))
