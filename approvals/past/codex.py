"""Codex: `~/.codex/sessions/YEAR/MONTH/DAY/rollout-TIME-ID.jsonl`, rows of {timestamp, type, payload}."""

import json
import shlex

from approvals.past.calls import PastCall, dict_of, seconds_of, text_of

NAME, LABEL = "codex", "Codex"
FOLDER = ".codex/sessions"
SHELL_TOOLS = ("shell", "shell_command", "exec_command", "local_shell", "container.exec")
SHELLS = ("bash", "sh", "zsh")


def is_transcript(name: str) -> bool:
    return name.startswith("rollout-") and name.endswith(".jsonl")


def calls(rows):
    """Yield the calls that Codex asks its hooks about: commands and patches."""
    root = cwd = ""
    for row in rows:
        payload = dict_of(row, "payload")
        if row.get("type") in ("session_meta", "turn_context"):
            cwd = text_of(payload, "cwd") or cwd
            root = root or cwd
        elif row.get("type") == "response_item" and (found := _call(payload)):
            tool, arguments, folder = found
            call_id = text_of(payload, "call_id") or text_of(payload, "id")
            yield PastCall(NAME, tool, arguments, folder or cwd, root, seconds_of(row.get("timestamp")), call_id)


def _call(payload: dict):
    """Return (tool, arguments, folder or "") of one item; None if it is no command and no patch."""
    kind, name = payload.get("type"), text_of(payload, "name")
    if kind == "local_shell_call":
        action = dict_of(payload, "action")
        return _shell(action, text_of(action, "working_directory"))
    if kind == "custom_tool_call" and name == "apply_patch":
        return "apply_patch", {"command": text_of(payload, "input")}, ""
    if kind != "function_call":
        return None
    try:
        arguments = json.loads(text_of(payload, "arguments"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(arguments, dict):
        return None
    if name in SHELL_TOOLS:
        return _shell(arguments, text_of(arguments, "workdir"))
    if name == "apply_patch":
        return name, {"command": text_of(arguments, "input")}, ""
    return None


def _shell(arguments: dict, folder: str):
    command = arguments.get("command", arguments.get("cmd"))
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        is_script = len(command) == 3 and command[0].rsplit("/", 1)[-1] in SHELLS and command[1] in ("-c", "-lc")
        patches = len(command) == 2 and command[0] == "apply_patch"
        if patches:
            return "apply_patch", {"command": command[1]}, folder
        command = command[2] if is_script else shlex.join(command)
    return ("Bash", {"command": command}, folder) if isinstance(command, str) else None
