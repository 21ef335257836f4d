"""Put an agent's hook into the settings file in its user's home, check it there, and take it out again."""

import json
import os
from pathlib import Path
from typing import Protocol

from approvals.agents import json_hooks
from dashboard.files.atomic_write import replace_file
from dashboard.problems import Problem, invalid


class SettingsFile(Protocol):
    """What is known of the file; a Dialect knows it."""

    settings_file: str  # below the home
    owns_file: bool
    switches: dict


def read(dialect: SettingsFile, home: Path) -> str | None:
    """Return the file's text, None if it does not exist. Problem 422: a symlink, or not the agent's format."""
    file = home / dialect.settings_file
    try:
        if file.is_symlink():
            raise invalid(f"{file} is a symlink; Handrail does not write through it.")
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise invalid(f"{file} cannot be read ({error}).") from None
    if not dialect.owns_file:
        _parsed(text, file)
    return text


def _parsed(text: str | None, file: Path) -> dict:
    try:
        found = json.loads(text) if text and text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise invalid(f"{file} is not JSON ({error}); mend or remove it first.") from None
    if not isinstance(found, dict) or not isinstance(found.get("hooks", {}), dict):
        raise invalid(f"{file} has no settings in the form that Handrail knows; mend or remove it first.")
    return found


def put_in(dialect: SettingsFile, home: Path, hooks: dict | str, *, ours: str):
    """Add the hook to the file once; an earlier one, with `ours` in its command, is replaced. Problem 422."""
    file, before = home / dialect.settings_file, read(dialect, home)
    text = hooks if dialect.owns_file else _with_hooks(dialect, _parsed(before, file), hooks, ours)
    try:
        _write(file, text, home)
    except OSError as error:
        raise invalid(f"{file} cannot be written ({error.strerror}), so the hook cannot be put there.") from None


def _with_hooks(dialect: SettingsFile, merged: dict, hooks: dict, ours: str) -> str:
    json_hooks.remove(merged, ours)
    for name, wanted in dialect.switches.items():
        merged[name] = _switched(merged.get(name), wanted)
    json_hooks.add(merged, hooks)
    return json.dumps(merged, indent=2) + "\n"


def _switched(now, wanted):
    return now | wanted if isinstance(now, dict) and isinstance(wanted, dict) else wanted


def take_out(dialect: SettingsFile, home: Path, *, ours: str, before: str | None):
    """Remove the hook: byte for byte as `before` if nothing else in the file changed. Problem 422."""
    file, now = home / dialect.settings_file, read(dialect, home)
    if now is None or now == before:
        return
    if dialect.owns_file:
        _restore(file, before, home)
        return
    left, earlier = _parsed(now, file), _parsed(before, file)
    json_hooks.remove(left, ours)
    for name in dialect.switches:
        left.pop(name, None)
        if name in earlier:
            left[name] = earlier[name]
    if left == earlier:
        _restore(file, before, home)
    else:
        _write(file, json.dumps(left, indent=2) + "\n", home)


def _restore(file: Path, before: str | None, home: Path):
    if before is None:
        file.unlink()
    else:
        _write(file, before, home)


def problem(dialect: SettingsFile, home: Path, hooks: dict | str) -> str:
    """Return why the hook in the file would not gate a new session; "" if it would."""
    file = home / dialect.settings_file
    try:
        now = read(dialect, home)
        if now is None:
            return f"{file} is gone, and Handrail's hook with it."
        if dialect.owns_file:
            return "" if now == hooks else f"{file} does not hold Handrail's hook as it was set."
        found = _parsed(now, file)
    except Problem as refused:
        return refused.detail
    for name, wanted in dialect.switches.items():
        if found.get(name) != _switched(found.get(name), wanted):
            return f"{file} no longer keeps hooks switched on ({name})."
    if missing := [event for event, group in hooks.items() if not json_hooks.holds(found, event, group)]:
        return f"{file} does not hold Handrail's hook for {', '.join(missing)} as it was set."
    return ""


def _write(file: Path, text: str, home: Path):
    """Replace the file atomically. Written by root, it gets the owner of the home."""
    owner = home.stat()
    for folder in reversed([each for each in file.parents if each != home and each.is_relative_to(home)]):
        if not folder.exists():
            folder.mkdir()
            if os.geteuid() == 0:
                os.chown(folder, owner.st_uid, owner.st_gid, follow_symlinks=False)
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
    replace_file(file, text.encode(), mode=mode, owner=(owner.st_uid, owner.st_gid))
