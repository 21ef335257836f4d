"""Merge Handrail's hooks into a settings file of Claude Code, check them, and remove them again."""

import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from django.conf import settings
from django.urls import reverse

from approvals.agents import hook_programs, json_hooks
from approvals.agents.claude_code import folder_line
from approvals.agents.claude_code.own_settings import LOCAL, MANAGED, SYSTEM_FOLDER, code_around_hooks
from approvals.agents.hook_programs import PROGRAM, hook_command
from dashboard.files.atomic_write import replace_file
from dashboard.problems import Problem, invalid
from workspaces.drivers import own_programs

OF_TOOLS = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
OF_SESSIONS = ("SessionStart", "UserPromptSubmit", "Notification", "SubagentStop", "Stop", "SessionEnd")
EVENTS = (*OF_TOOLS, "PermissionRequest", "Elicitation", *OF_SESSIONS)
# Folders that an older version connected lack these until they are connected again; their gate is whole without them.
ADDED_LATER = ("PermissionRequest", "Notification", "SubagentStop")
HOOK_TIMEOUT = 86_400  # seconds that Claude Code waits for the gate
REPORT_TIMEOUT = 60
PROMPT_TIMEOUT = 5  # the person at the terminal waits for it; a late one is given up, and the prompt goes on
# What a folder's or user's settings could put code around a hook with: programs by which Claude Code runs each hook,
# and what loads into a program or a shell. Managed settings, which go before those, empty them.
NOTHING_AROUND = dict.fromkeys(
    ("CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_CODE_SHELL", *own_programs.LOADING, "SHELLOPTS", "BASHOPTS"), ""
)
SWITCHED_OFF = "disableAllHooks"
PROGRAM_INSIDE = "claude-code/handrail_hook.py"  # below the /etc of a workspace
SYSTEM_CONNECTION = SYSTEM_FOLDER / "handrail/connection.json"


def is_system_gated() -> bool:
    """Return whether this machine's managed settings hold Handrail's hook: a folder's own would ask a second time."""
    try:
        groups = json.loads(MANAGED.read_text("utf-8"))["hooks"]["PreToolUse"]
        commands = [str(hook.get("command")) for group in groups for hook in group["hooks"]]
        return SYSTEM_CONNECTION.exists() and any(str(SYSTEM_CONNECTION) in command for command in commands)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def status_message() -> str:
    """Return the line that Claude Code's terminal shows while a call waits, with the URL of the pending actions."""
    return f"Asking Handrail. Answer at {settings.HANDRAIL_PUBLIC_URL}{reverse('waiting')}"


def entries(connection: Path, folder: Path | None = None, **where) -> dict[str, dict]:
    """Return {event: the matcher group that Handrail adds}; `where` is passed on to `hook_command`.

    With a folder, the hook lets calls of sessions pass that have nothing to do with it.
    """
    if folder:
        return entries_of(lambda role: folder_line.line(connection, role, folder, **where))
    return entries_of(lambda role: hook_command(connection, role, **where))


def entries_of(line: Callable[[str], str]) -> dict[str, dict]:
    """Return {event: the matcher group} of hooks whose line for a role, gate or report, `line` returns."""
    gate = {
        "type": "command",
        "command": line("gate"),
        "timeout": HOOK_TIMEOUT,
        "onFailure": "block",  # also when the shell is killed or times out
        "statusMessage": status_message(),
    }
    report = {"type": "command", "command": line("report"), "timeout": REPORT_TIMEOUT}
    hooks = dict.fromkeys(EVENTS, report)
    hooks |= {"PreToolUse": gate, "Elicitation": gate, "UserPromptSubmit": report | {"timeout": PROMPT_TIMEOUT}}
    named = (*OF_TOOLS, "PermissionRequest")  # whose matcher is a tool
    return {event: ({"matcher": "*"} if event in named else {}) | {"hooks": [hooks[event]]} for event in EVENTS}


def settings_to_copy() -> dict:
    """Return settings with HTTP hooks, authorized by $HANDRAIL_TOKEN, to copy by hand; the gate blocks on failure."""
    status = status_message()
    hook = {
        "type": "http",
        "url": f"{settings.HANDRAIL_PUBLIC_URL}/hooks/claude-code",
        "headers": {"Authorization": "Bearer $HANDRAIL_TOKEN"},
        "allowedEnvVars": ["HANDRAIL_TOKEN"],
        "timeout": HOOK_TIMEOUT,
        "onFailure": "block",
    }
    told = {"hooks": [{**hook, "timeout": 30, "onFailure": "continue"}]}
    every = {"matcher": "*"}  # newer versions bring new tools; one that no matcher covers would run unasked
    # No SessionStart: Claude Code (2.1.329 at least) never calls an http hook for it.
    return {
        "hooks": {
            "PreToolUse": [every | {"hooks": [{**hook, "statusMessage": status}]}],
            "Elicitation": [{"hooks": [{**hook, "statusMessage": status}]}],
            "PostToolUse": [every | told],
            "PostToolUseFailure": [every | told],
            "PermissionRequest": [every | told],
            "UserPromptSubmit": [{"hooks": [{**hook, "timeout": PROMPT_TIMEOUT, "onFailure": "continue"}]}],
            "Notification": [told],
            "SubagentStop": [told],
            "Stop": [told],
            "SessionEnd": [told],
        }
    }


def system_files(workspace) -> dict[str, bytes]:
    """Return {path below /etc: content} with the managed settings of Claude Code in a workspace, and its hook.

    Their `env` goes before that of the user's and the project's settings, which Claude Code hands on to its hooks.
    """
    hooks = {name: [group] for name, group in entries_of(partial(_line_inside, workspace)).items()}
    managed = json.dumps({SWITCHED_OFF: False, "env": NOTHING_AROUND, "hooks": hooks}, indent=2) + "\n"
    return {str(MANAGED.relative_to("/etc")): managed.encode(), PROGRAM_INSIDE: PROGRAM.read_bytes()}


def _line_inside(workspace, role: str) -> str:
    words = hook_programs.in_run(workspace, f"/etc/{PROGRAM_INSIDE}", role)
    return own_programs.shell_line(words, is_gate=role == "gate")


def read(file: Path) -> str | None:
    """Return the file's text, None if it does not exist. Problem 422 if it is a symlink or not a JSON object."""
    if file.is_symlink() or file.parent.is_symlink():
        raise invalid(f"{file} is a symlink; Handrail does not write through it.")
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise invalid(f"{file} cannot be read ({error}).") from None
    try:
        if not isinstance(json.loads(text), dict) or not isinstance(json.loads(text).get("hooks", {}), dict):
            raise ValueError("not an object")
    except (ValueError, RecursionError) as error:
        raise invalid(f"{file} is not what Claude Code reads ({error}); mend or remove it first.") from None
    return text


def with_hooks(text: str | None, added: dict[str, dict], ours: str) -> str:
    """Return the file's text with Handrail's hooks `added` once; earlier ones, which contain `ours`, are replaced."""
    merged = without_hooks(text, ours) if text else {}
    merged[SWITCHED_OFF] = False  # this file takes precedence over the repository's and the user's settings
    json_hooks.add(merged, added)
    return json.dumps(merged, indent=2) + "\n"


def without_hooks(text: str, ours: str) -> dict:
    """Return the file's settings without hooks whose command contains `ours`, and without `disableAllHooks: false`."""
    left = json.loads(text)
    if left.get(SWITCHED_OFF) is False:
        del left[SWITCHED_OFF]
    json_hooks.remove(left, ours)
    return left


def problem(real: Path, added: dict[str, dict]) -> str:
    """Return why a new Claude Code session in this folder would not be fully gated; "" if it would be."""
    if around := code_around_hooks(real):
        return around
    try:
        text = read(real / LOCAL)
    except Problem as refused:
        return refused.detail
    if text is None:
        return f"{LOCAL} is gone, and Handrail's hook with it."
    now = json.loads(text)
    if now.get(SWITCHED_OFF) is not False:
        return f"{LOCAL} no longer keeps hooks switched on ({SWITCHED_OFF})."
    needed = {event: group for event, group in added.items() if event not in ADDED_LATER}
    if missing := [event for event, group in needed.items() if not json_hooks.holds(now, event, group)]:
        return f"{LOCAL} does not hold Handrail's hook for {', '.join(missing)} as it was set."
    return ""


def write(file: Path, text: str, owner: os.stat_result):
    """Replace the file atomically. Written by root, it gets the folder's `owner`."""
    file.parent.mkdir(exist_ok=True)
    if os.geteuid() == 0:
        os.chown(file.parent, owner.st_uid, owner.st_gid, follow_symlinks=False)
    replace_file(file, text.encode(), mode=0o644, owner=(owner.st_uid, owner.st_gid))
