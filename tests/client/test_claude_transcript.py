"""Rows of Claude Code's transcript as messages, whatever else stands in the file."""

import json

import pytest

from handrail_client.claude_transcript import Transcript, messages_of
from handrail_client.conversation import Message

AT = "2026-11-30T06:00:00.000Z"


def row(kind: str, content, **more) -> bytes:
    return json.dumps({"type": kind, "uuid": "u1", "timestamp": AT, "message": {"content": content}} | more).encode()


def test_each_block_is_a_message():
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    answer = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "I look."}, call]
    assert list(messages_of(row("assistant", answer))) == [
        Message("assistant", "Hm.", "thinking", id="u1.0", at=AT),
        Message("assistant", "I look.", id="u1.1", at=AT),
        Message("assistant", {"command": "ls"}, "call", id="u1.2", tool="Bash", call_id="c1", at=AT),
    ]
    parts = [{"type": "text", "text": "a"}, {"type": "image"}]
    result = [{"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": parts}]
    assert list(messages_of(row("user", result))) == [
        Message("tool", "a\n[image]", "result", id="u1.0", call_id="c1", ok=False, at=AT)
    ]
    assert [message.content for message in messages_of(row("user", "Go on."))] == ["Go on."]


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[" * 100_000, b"[]", b"null", b'{"type": "user"}', b'{"type": "mode", "mode": "default"}',
        row("user", None), row("user", 1), row("user", [1, "x", {}]), row("user", " "),
        row("user", "x", isMeta=True), row("user", "x", isSidechain=True), row("user", "x", message=1),
    ],
)  # fmt: skip
def test_a_row_that_is_no_message_is_left_out(line):
    assert list(messages_of(line)) == []


class Kept:
    """A conversation that keeps what is posted to it, while `is_there`."""

    def __init__(self):
        self.is_there, self.texts = True, []

    def post(self, messages) -> bool:
        self.texts += [message.content for message in messages] if self.is_there else []
        return self.is_there


def test_only_whole_rows_are_read_and_what_was_not_posted_comes_again(tmp_path):
    file, kept = tmp_path / "s.jsonl", Kept()
    transcript = Transcript(str(file), kept)
    transcript.post()
    one, two = row("user", "One."), row("assistant", "Two.")
    file.write_bytes(one + b"\n" + two[:20])
    kept.is_there = False
    transcript.post()
    file.write_bytes(one + b"\n" + two + b"\n")
    kept.is_there = True
    transcript.post("Two.")
    transcript.post()
    assert kept.texts == ["One.", "Two."]
