"""Codex: `~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`, rows of {timestamp, type, payload}.

The messages of the model are in the `response_item` rows; `event_msg` rows repeat most of them for the terminal. Only
the tokens are read from those. The file of a sub-agent begins with a copy of what its parent had said until then.
"""

import hashlib
import json
import re
import shlex
from dataclasses import replace

from approvals.agents.lines import Line
from approvals.agents.own_words import is_of_the_program
from approvals.agents.transcript_values import count_of, dict_of, joined_text, moment_of, text_of

NAME, LABEL = "codex", "Codex"
FOLDER = ".codex/sessions"
IS_CONVERSATION = True
SHELL_TOOLS = ("shell", "shell_command", "exec_command", "local_shell", "container.exec")
SHELLS = ("bash", "sh", "zsh")

SILENT = frozenset(
    {
        "compacted", "event_msg", "ghost_snapshot", "inter_agent_communication_metadata", "session_meta",
        "token_usage_record", "turn_context", "world_state",
    }
)  # fmt: skip
ITEMS_WITHOUT_WORDS = frozenset({"additional_tools", "compaction", "ghost_snapshot", "other"})
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})$", re.MULTILINE)
HEADER = 300  # characters of an output before the program's own, at most


def is_transcript(name: str) -> bool:
    return name.startswith("rollout-") and name.endswith(".jsonl")


def of_sub_agent(transcript: str, agent_id: str) -> str:
    """Return "": the hook of a sub-agent tells the path of its transcript."""
    return ""


def folder_of(row: dict) -> str:
    return text_of(dict_of(row, "payload"), "cwd") if text_of(row, "type") in ("session_meta", "turn_context") else ""


def asked(line: Line) -> tuple[str, dict, str] | None:
    """Return (tool, arguments, folder or "") of a command or a patch; None for other calls."""
    if line.tool == "apply_patch":
        return line.tool, {"command": text_of(line.content, "input")}, ""
    if line.tool not in SHELL_TOOLS:
        return None
    folder = text_of(line.content, "workdir") or text_of(line.content, "working_directory")
    command = line.content.get("command", line.content.get("cmd"))
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        if len(command) == 2 and command[0] == "apply_patch":
            return "apply_patch", {"command": command[1]}, folder
        is_script = len(command) == 3 and command[0].rsplit("/", 1)[-1] in SHELLS and command[1] in ("-c", "-lc")
        command = command[2] if is_script else shlex.join(command)
    return ("Bash", {"command": command}, folder) if isinstance(command, str) else None


def read(row: dict, state: dict) -> list[Line] | None:
    """Return the messages of a row, and note the model for those that follow and the tokens of the session."""
    kind, payload = text_of(row, "type"), dict_of(row, "payload")
    if kind == "session_meta" and "meta" not in state:
        _note_session(payload, state)
    if count_of(row, "ordinal") < state.get("inherits", 0):
        return []
    if kind == "turn_context" and text_of(payload, "model"):
        state["model"] = text_of(payload, "model")
    if kind == "event_msg" and text_of(payload, "type") == "token_count":
        if totals := dict_of(dict_of(payload, "info"), "total_token_usage"):
            state["totals"] = _tokens(totals)
        return []
    if kind in SILENT:
        return []
    if kind != "response_item":
        return None
    line = _line(payload)
    if line is None:
        return [] if text_of(payload, "type") in ITEMS_WITHOUT_WORDS | {"reasoning", "message"} else None
    return [_placed(line, row, payload, state)]


def _placed(line: Line, row: dict, payload: dict, state: dict) -> Line:
    native_id = text_of(payload, "id") or ("" if line.call_id else _digest_of(row, payload))
    model = text_of({"model": state.get("model")}, "model") if line.role == "assistant" else ""
    return replace(line, at=moment_of(row), native_id=native_id, model=model)


def _digest_of(row: dict, payload: dict) -> str:
    """Return what stands for the id of an item without one: it is the same when the file is read again."""
    told = json.dumps([row.get("timestamp"), payload], sort_keys=True).encode("utf-8", "surrogatepass")
    return hashlib.sha256(told).hexdigest()[:32]


def _note_session(payload: dict, state: dict):
    """Note from the first row whose session it is: a sub-agent's is known by its path among the agents."""
    state["meta"] = True
    state["inherits"] = count_of(payload, "subagent_history_start_ordinal")
    state["title"] = text_of(payload, "agent_path")


def _line(payload: dict) -> Line | None:
    kind = text_of(payload, "type")
    if kind == "message":
        return _message(text_of(payload, "role"), joined_text(payload.get("content")))
    if kind == "agent_message":
        text = joined_text(payload.get("content"))
        return Line("system", "note", text) if text.strip() else None
    if kind == "reasoning":
        text = joined_text(payload.get("summary")) or joined_text(payload.get("content"))
        return Line("assistant", "thinking", text) if text.strip() else None
    call_id = text_of(payload, "call_id") or text_of(payload, "id")
    if kind in CALLS:
        return Line("assistant", "call", _arguments(payload), tool=_tool(payload), call_id=call_id)
    if kind in OUTPUTS:
        text, ok = _output(payload.get("output"))
        return Line("tool", "result", text, call_id=call_id, ok=ok)
    return None


def _message(role: str, text: str) -> Line | None:
    if not text.strip():
        return None
    if role == "assistant":
        return Line("assistant", "text", text)
    is_person = role == "user" and not is_of_the_program(text)
    return Line("user", "text", text) if is_person else Line("system", "note", text)


def _tool(payload: dict) -> str:
    return text_of(payload, "name") or text_of(payload, "type").removesuffix("_call")


def _arguments(payload: dict):
    if text_of(payload, "type") in ("local_shell_call", "web_search_call"):
        return dict_of(payload, "action")
    if "input" in payload:
        return {"input": payload["input"]}
    text = text_of(payload, "arguments")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"arguments": text}


def _output(output) -> tuple[str, bool | None]:
    """Return (text, whether it succeeded). Codex writes an output as a text, as blocks, or as JSON in a text."""
    if isinstance(output, str) and output.startswith("{"):
        try:
            parsed = json.loads(output)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict) and isinstance(parsed.get("output"), str):
            status = dict_of(parsed, "metadata").get("exit_code")
            return parsed["output"], status == 0 if isinstance(status, int) else None
    if isinstance(output, dict):
        ok = output.get("success")
        return joined_text(output.get("content")), ok if isinstance(ok, bool) else None
    text = joined_text(output)
    exited = EXITED.search(text[:HEADER].partition("\nOutput:\n")[0])
    return text, int(exited[1]) == 0 if exited else None


def _tokens(used: dict) -> list[int]:
    """Return [tokens in, out, from the cache]; Codex counts those from the cache as tokens in too."""
    cached = count_of(used, "cached_input_tokens")
    return [max(count_of(used, "input_tokens") - cached, 0), count_of(used, "output_tokens"), cached]
