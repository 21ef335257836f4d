"""Claude Code's hook in a connected folder: merged into .claude/settings.local.json, which repositories do not commit.

What was there before is kept in the connection file, so that `take_out` can restore it.
"""

import json
from pathlib import Path

from approvals.agents.claude_code import folder_line, own_settings, settings, user_settings
from approvals.agents.claude_code.own_settings import LOCAL, SHARED
from approvals.agents.folder_git import is_own
from approvals.agents.folder_hook import AllowRules, FolderHook
from dashboard.problems import Problem, invalid


class InFolder(FolderHook):
    """The hook of one folder, and for sessions below it also in the settings of its user.

    On a machine gated by `connect --system` neither is there: they would ask a second time.
    """

    settings_file = LOCAL

    def check(self, folder: Path) -> str | None:
        before = settings.read(folder / LOCAL)
        if around := own_settings.code_around_hooks(folder):
            raise invalid(f"{around} Remove it there, then connect.")
        return before

    def line(self, connection: Path, role: str, folder: Path) -> str:
        return folder_line.line(connection, role, folder)

    def put_in(self, folder: Path, connection: Path) -> str:
        file = folder / LOCAL
        if settings.is_system_gated():
            take_out_of(file, connection, json.loads(connection.read_text()))
            user_settings.take_out(connection)
            return ""
        text = settings.with_hooks(settings.read(file), settings.entries(connection, folder), ours=str(connection))
        try:
            settings.write(file, text, folder.stat())
        except OSError as error:
            raise invalid(f"{file} cannot be written ({error.strerror}), so the hook cannot be put there.") from None
        return user_settings.put_in(connection, folder) or (
            f"Sessions that start anywhere below {folder} are gated, in nested repositories too: the hook is in "
            f"{Path.home() / user_settings.FILE.settings_file} as well. In other folders it lets every call pass."
        )

    def take_out(self, folder: Path, connection: Path):
        take_out_of(folder / LOCAL, connection, json.loads(connection.read_text()))
        user_settings.take_out(connection)

    def problem(self, folder: Path, connection: Path) -> str:
        in_folder = settings.problem(folder, settings.entries(connection, folder))
        return in_folder or user_settings.problem(connection, folder)

    def allow_rules(self, folder: Path) -> AllowRules:
        """Return the allow rules that Claude Code reads. A file of unknown origin counts as committed."""
        own = _allowed(Path.home() / ".claude/settings.json")
        committed = _allowed(folder / SHARED)
        local = _allowed(folder / LOCAL)
        (own if local and is_own(folder, LOCAL) else committed).extend(local)
        return AllowRules(list(dict.fromkeys(own)), [rule for rule in dict.fromkeys(committed) if rule not in own])

    def other_hook(self, folder: Path) -> str:
        return own_settings.other_hook(folder)


def take_out_of(file: Path, connection: Path, connected: dict):
    """Remove the hook from the settings file: byte for byte as before if nothing else in it changed."""
    owner = file.parent.parent.stat()
    if not file.is_file() or file.is_symlink():
        return
    before = connected["before"]
    try:
        if (text := settings.read(file)) == before:
            return
        left = settings.without_hooks(text, ours=str(connection))
    except Problem:
        return  # no longer valid JSON: Claude Code runs no hook of it, and overwriting it would lose the user's work
    left |= {name: value for name, value in json.loads(before or "{}").items() if name == settings.SWITCHED_OFF}
    if before is not None and json.loads(before) == left:
        settings.write(file, before, owner)
    elif left or before is not None:
        settings.write(file, json.dumps(left, indent=2) + "\n", owner)
    else:
        file.unlink()
        if connected["made_folder"] and not any(file.parent.iterdir()):
            file.parent.rmdir()


def _allowed(file: Path) -> list[str]:
    try:
        rules = json.loads(file.read_text("utf-8"))["permissions"]["allow"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []  # no such file, or no allow rules in it
    return [rule for rule in rules if isinstance(rule, str)] if isinstance(rules, list) else []


HOOK = InFolder()
