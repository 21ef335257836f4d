"""Claude Code: `~/.claude/projects/PROJECT/SESSION.jsonl`, a row for each block of a message."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial

from approvals.agents.lines import Line
from approvals.agents.own_words import is_of_the_program
from approvals.agents.transcript_values import (
    blocks_of,
    count_of,
    dict_of,
    joined_text,
    moment_of,
    price_of,
    row_of,
    text_of,
)

NAME, LABEL = "claude-code", "Claude Code"
FOLDER = ".claude/projects"
IS_CONVERSATION = True

# Rows that say nothing to anybody: the program's own state, and the whole prompt once more.
SILENT = frozenset(
    {
        "agent-name", "ai-title", "api-request", "api-request-blob", "api-request-shape", "atis-latch",
        "bridge-session", "custom-title", "file-history-snapshot", "last-prompt", "mode", "permission-mode", "progress",
        "queue-operation", "summary", "tools-used",
    }
)  # fmt: skip


def is_transcript(name: str) -> bool:
    return name.endswith(".jsonl")


def project_of(folder: str) -> str:
    """Return the name below FOLDER of the folder with the transcripts of sessions in `folder`."""
    return re.sub(r"[^A-Za-z0-9]", "-", folder)


def of_sub_agent(transcript: str, agent_id: str) -> str:
    """Return where the transcript of a session's sub-agent is kept."""
    return f"{transcript.removesuffix('.jsonl')}/subagents/agent-{agent_id}.jsonl" if transcript else ""


def beginning(head: bytes) -> tuple[str, datetime | None]:
    """Return (folder, time) of the first row that tells both; ("", None) if none does."""
    for row in _rows(head):
        cwd, at = text_of(row, "cwd"), moment_of(row)
        if cwd and at is not None:
            return cwd, at
    return "", None


def texts_since(tail: bytes, session: str, since: datetime) -> str:
    """Return the texts of the agent in this session since then."""
    lines = [line for row in _rows(tail) if row.get("sessionId") == session for line in read(row, {}) or ()]
    said = [line for line in lines if (line.role, line.kind) == ("assistant", "text")]
    return "\n\n".join(line.content for line in said if line.at is not None and line.at >= since)


def _rows(data: bytes) -> Iterator[dict]:
    return filter(None, map(row_of, data.split(b"\n")))


def folder_of(row: dict) -> str:
    return text_of(row, "cwd")


def asked(line: Line) -> tuple[str, dict, str] | None:
    return None if line.is_hosted else (line.tool, line.content, "")


def read(row: dict, state: dict) -> list[Line] | None:
    """Return the messages of a row, and note tokens once for each answer: all its rows repeat them."""
    kind = text_of(row, "type")
    if kind == "cost-state":
        return _note_cost(row, state)
    if kind in SILENT:
        return []
    if kind not in ("user", "assistant", "system", "attachment"):
        return None
    about = {"at": moment_of(row), "parent": text_of(row, "parentUuid")}
    if kind == "system":
        text = text_of(row, "content")
        return [Line("system", "note", text, native_id=text_of(row, "uuid"), **about)] if text else []
    if kind == "attachment":
        return _queued(row, dict_of(row, "attachment"), about)
    message = dict_of(row, "message")
    if kind == "assistant":
        return _counted(_lines(row, message.get("content"), partial(_answer, message), about), message, state)
    is_meta = row.get("isMeta") is True or row.get("isCompactSummary") is True
    found = _lines(row, message.get("content"), partial(_of_user, is_meta=is_meta), about)
    _note_started(row, found, state)
    return found


def _queued(row: dict, attachment: dict, about: dict) -> list[Line]:
    """Return a prompt that was typed while the agent worked, or the report of a background run; None for other rows."""
    if text_of(attachment, "type") != "queued_command":
        return []
    is_meta = text_of(attachment, "commandMode") not in ("", "prompt")
    return _lines(row, attachment.get("prompt"), partial(_of_user, is_meta=is_meta), about)


def _note_cost(row: dict, state: dict) -> list[Line]:
    """Keep the price of the whole session, of all its processes; without the price of a model there is none."""
    if row.get("hasUnknownModelCost") is not True and (cost := price_of(row, "totalCostUSD")) is not None:
        state["cost"] = cost
    return []


def _note_started(row: dict, found: list[Line], state: dict):
    """Keep which sub-agent a call has started, by the result of that call."""
    child = text_of(dict_of(row, "toolUseResult"), "agentId")
    if child and len(found) == 1 and found[0].call_id:
        state.setdefault("started", []).append([child, found[0].call_id])


def _lines(row: dict, content, read_block, about: dict) -> list[Line]:
    uuid, found = text_of(row, "uuid"), []
    for number, block in enumerate(blocks_of(content)):
        if line := read_block(block):
            found.append(replace(line, native_id=f"{uuid}.{number}" if uuid else "", **about))
    return found


def _answer(message: dict, block: dict) -> Line | None:
    model = text_of(message, "model")
    match text_of(block, "type"):
        case "text":
            text = text_of(block, "text")
            return Line("assistant", "text", text, model=model) if text.strip() else None
        case "thinking":
            text = text_of(block, "thinking")
            return Line("assistant", "thinking", text, model=model) if text.strip() else None
        case "tool_use" | "server_tool_use":
            named = {"tool": text_of(block, "name"), "call_id": text_of(block, "id")}
            is_hosted = block["type"] == "server_tool_use"
            return Line("assistant", "call", dict_of(block, "input"), model=model, is_hosted=is_hosted, **named)
    return None


def _of_user(block: dict, *, is_meta: bool) -> Line | None:
    if text_of(block, "type") == "tool_result":
        text, ok = joined_text(block.get("content")), block.get("is_error") is not True
        return Line("tool", "result", text, call_id=text_of(block, "tool_use_id"), ok=ok)
    text = joined_text([block])
    if not text.strip():
        return None
    if is_meta or is_of_the_program(text):
        return Line("system", "note", text)
    return Line("user", "text", text)


def _counted(lines: list[Line], message: dict, state: dict) -> list[Line]:
    answer, used = text_of(message, "id"), dict_of(message, "usage")
    if not lines or not answer or state.get("answer") == answer:
        return lines
    state["answer"] = answer
    cached = count_of(used, "cache_read_input_tokens")
    told = count_of(used, "input_tokens") + count_of(used, "cache_creation_input_tokens")
    return [lines[0].with_tokens(told, count_of(used, "output_tokens"), cached), *lines[1:]]
