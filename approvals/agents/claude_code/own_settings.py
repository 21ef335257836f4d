"""What a person's own settings of Claude Code mean for calls that Handrail would answer with a changed command.

Claude Code matches its deny and ask rules, and other hooks, against the command that runs. A changed one no longer
matches. So a call that a rule could match is left as it is, and a folder with another hook before tools is not held.
"""

import json
import re
from pathlib import Path

LOCAL = Path(".claude/settings.local.json")
SHARED = Path(".claude/settings.json")
SYSTEM_FOLDER = Path("/etc/claude-code")  # only root writes there, and every Claude Code on this machine reads it
MANAGED = SYSTEM_FOLDER / "managed-settings.json"
USER = (Path(".claude/settings.json"), Path(".claude/settings.local.json"))
CHANGE_CALLS = ("PreToolUse", "PermissionRequest")  # events whose hooks may answer with another input
# Variables by which a settings file's `env` puts code around the hook's own: a loader's, a shell's, Claude Code's.
AROUND_HOOKS = re.compile(r"LD_.*|DYLD_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|CLAUDE_CODE_SHELL(_PREFIX)?")
OURS = ("command_hook.py", "handrail/hook.py", "/hooks/claude-code")  # what our own hooks' entries hold


def files(root: Path, cwd: Path | None = None) -> list[Path]:
    """Return every settings file that a Claude Code in the folder may read: the machine's, the user's, the folders'."""
    folders = [root]
    if cwd is not None and cwd.is_relative_to(root):
        folders += [folder for folder in (cwd, *cwd.parents) if folder.is_relative_to(root) and folder != root]
    more = sorted(MANAGED.parent.glob("managed-settings.d/*.json"))
    own = [folder / name for folder in folders for name in (SHARED, LOCAL)]
    return [MANAGED, *more, *(Path.home() / name for name in USER), *own]


def other_hook(root: Path, cwd: Path | None = None) -> str:
    """Return a sentence that names a settings file with another hook before tools; "" if there is none."""
    for file in files(root, cwd):
        found = _read(file)
        if found is None:
            return f"{file} cannot be read, so other hooks in it cannot be ruled out."
        for group in _groups(found.get("hooks", {})):
            hooks = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(hooks, list) or not all(_is_ours(hook) for hook in hooks):
                return f"{file} has another hook before tools, which could change a call after Handrail has judged it."
    return ""


def code_around_hooks(root: Path, cwd: Path | None = None) -> str:
    """Return a sentence that names a settings file in the folder whose `env` loads code into hooks; "" if none does.

    Without `cwd` it is the folder's own two files, else also those between it and the folder.
    """
    for file in files(root, cwd):
        variables = (_read(file) or {}).get("env") if file.is_relative_to(root) else None
        found = [name for name in variables if AROUND_HOOKS.fullmatch(name)] if isinstance(variables, dict) else []
        if found := [name for name in found if variables[name] != ""]:
            return f"{file} sets {', '.join(found)}, which can put code of its own in place of Handrail's hook."
    return ""


def _groups(hooks) -> list:
    """Return the entries of events whose hooks can change a call; something that is no entry if there is no telling."""
    if not isinstance(hooks, dict):
        return ["?"]
    found = [hooks.get(event) or [] for event in CHANGE_CALLS]
    return [group for groups in found for group in (groups if isinstance(groups, list) else ["?"])]


def may_match(root: Path, cwd: Path | None, command: str) -> bool:
    """Return whether a deny or ask rule for Bash could match the command, or a part of it."""
    words = " ".join(command.split())
    for file in files(root, cwd):
        permissions = (_read(file) or {}).get("permissions")
        for name in ("deny", "ask"):
            rules = permissions.get(name) if isinstance(permissions, dict) else None
            if any(_could_match(str(rule), words) for rule in rules or ()):
                return True
    return False


def _could_match(rule: str, words: str) -> bool:
    tool, _, pattern = rule.partition("(")
    if tool.strip() not in ("Bash", "*"):
        return False
    literal = pattern.removesuffix(")").split("*")[0].rstrip(": ")  # up to the first wildcard
    return " ".join(literal.split()) in words


def _is_ours(hook) -> bool:
    return isinstance(hook, dict) and any(ours in str(hook.get("command") or hook.get("url")) for ours in OURS)


def _read(file: Path) -> dict | None:
    """Return the settings, {} if there is no such file, None if it is not what Claude Code reads."""
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        return {}
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
