"""Claude Code's hook in its user's own settings, for sessions below a connected folder that do not read the folder's.

A session that starts in a nested repository, a submodule, or a subfolder of a folder without git reads the settings of
that place, and one with `--setting-sources user` the user's alone. The hooks are the same as in the folder's file, so
that Claude Code runs each of them once; elsewhere the hook's program lets every call pass.
"""

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from approvals.agents import home_settings
from approvals.agents.claude_code import settings as claude_settings
from dashboard.files.atomic_write import replace_file
from dashboard.keys.key_files import make_private
from dashboard.problems import Problem

NOT_EVERYWHERE = (
    "A session that starts in a repository or folder inside this one, or with --setting-sources user, has no gate"
)


@dataclass(frozen=True)
class UserSettings:
    """What `home_settings` needs to know of the file."""

    settings_file: str = ".claude/settings.json"
    owns_file: bool = False
    switches: dict = field(default_factory=dict)


FILE = UserSettings()


def put_in(connection: Path, folder: Path) -> str:
    """Add the folder's hook to the settings of its user; return why that is not possible, "" if it is done."""
    refused = _put_in(connection, folder)
    told = json.loads(connection.read_text()) | {"in_home": not refused}
    replace_file(connection, json.dumps(told, indent=1).encode())
    return refused or _switched_off()


def _put_in(connection: Path, folder: Path) -> str:
    home = Path.home()
    if folder.stat().st_uid != os.geteuid():
        return f"{NOT_EVERYWHERE}: the folder belongs to another user. Connect it as that user."
    try:
        if not _note().exists():
            make_private(_note().parent)
            told = {"home": str(home), "before": home_settings.read(FILE, home)}
            replace_file(_note(), json.dumps(told, indent=1).encode())
        home_settings.put_in(FILE, _home(), claude_settings.entries(connection, folder), ours=str(connection))
    except (Problem, OSError) as refused:
        return f"{NOT_EVERYWHERE}: {getattr(refused, 'detail', '') or refused}"
    return ""


def take_out(connection: Path):
    """Remove the folder's hook from the settings of its user: byte for byte as before with the last folder's."""
    if not _note().exists():
        return
    told = json.loads(_note().read_text())
    with suppress(Problem):  # no longer JSON: overwriting it would lose the user's work
        home_settings.take_out(FILE, _home(), ours=str(connection), before=told["before"])
    if not _is_used():
        _note().unlink()


def problem(connection: Path, folder: Path) -> str:
    """Return why a session below the folder would not be gated; "" if it would, or if `put_in` said that it cannot."""
    is_there = json.loads(connection.read_text()).get("in_home")
    if is_there is False:
        return ""
    if is_there is None or not _note().exists():
        return f"{NOT_EVERYWHERE}. Put the hook back."
    if found := home_settings.problem(FILE, _home(), claude_settings.entries(connection, folder)):
        return f"{NOT_EVERYWHERE}: {found}"
    return _switched_off()


def _switched_off() -> str:
    text = home_settings.read(FILE, _home()) or "{}"
    if json.loads(text).get(claude_settings.SWITCHED_OFF) is True:
        return f"{NOT_EVERYWHERE}: {_home() / FILE.settings_file} switches hooks off ({claude_settings.SWITCHED_OFF})."
    return ""


def _is_used() -> bool:
    """Return whether the hook of another connected folder is in the file."""
    with suppress(Problem):
        return str(_note().parent) in (home_settings.read(FILE, _home()) or "")
    return True


def _note() -> Path:
    """Return the file that tells what the user's settings were before the first folder was connected."""
    return settings.HANDRAIL_HOME / "connections" / "claude-code.json"


def _home() -> Path:
    return Path(json.loads(_note().read_text())["home"])
