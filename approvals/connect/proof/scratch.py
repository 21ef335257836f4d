"""A scratch copy of a person's connected settings, whose hook asks a desk on loopback.

It holds Handrail's hook as it stands in the person's files, with the settings that switch hooks on and off. Nothing
else is copied: no key, no other hook, no MCP server.
"""

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from approvals.agents import part
from approvals.agents.dialect import Dialect
from approvals.agents.programs import SCRIPTED

PATIENCE = 2  # seconds for which the copied gate tries to reach its desk
NESTED = "nested"
SWITCHES = ("disableAllHooks", "hooksConfig", "hooks")
COMMENT = re.compile(r"^[ \t]*//.*$", re.MULTILINE)


@dataclass(frozen=True)
class Connected:
    """Where a person's agent is connected: the home and folder that it reads, and the hook's connection file."""

    home: Path
    folder: Path
    connection: Path


class Scratch:
    """A home and a folder below `root`. The gate asks at `gate_url`, reports go to `reports_url`."""

    def __init__(self, root: Path, gate_url: str, reports_url: str):
        self.home, self.folder = root / "home", root / "folder"
        self.connections, self._persons = {}, Path()
        for role, url in (("gate", gate_url), ("report", reports_url)):
            self.connections[role] = file = root / f"{role}.json"
            told = {"address": url, "token": "none", "patience_s": PATIENCE}
            file.touch(0o600)
            file.write_text(json.dumps(told))
        self.home.mkdir()
        self.folder.mkdir()
        # A repository within the folder, whose sessions read other settings.
        for name in ("objects", "refs"):
            (self.folder / NESTED / ".git" / name).mkdir(parents=True)
        (self.folder / NESTED / ".git/HEAD").write_text("ref: refs/heads/main\n")

    def fill(self, dialect: Dialect, person: Connected):
        """Copy the person's settings. Problem 422, 503."""
        self._persons, scripted = person.folder, SCRIPTED[dialect.name]
        in_folder = {name: person.folder / name for name in scripted.reads_in_folder}
        self._merge(in_folder, self.folder, person.connection)
        names = scripted.reads
        if dialect.owns_file:
            text = _text(person.home / dialect.settings_file)
            self._write(self.home / dialect.settings_file, text, person.connection)
        elif dialect.settings_file:
            names = (dialect.settings_file, *names)
        self._merge({name: person.home / name for name in names}, self.home, person.connection)
        for name, content in scripted.settings.items():
            file = self.home / name
            self._write(file, json.dumps((json.loads(_text(file) or "{}")) | content), person.connection)
        if trust := part(dialect.name, "trust"):
            theirs, copied = (person.home, person.folder), (self.home, self.folder)
            trust.copy(theirs, copied, ours=(str(person.connection), str(self.home.parent)))

    def _merge(self, files: dict[str, Path], to: Path, connection: Path):
        for name, source in files.items():
            if found := _switches(_text(source), connection):
                self._write(to / name, json.dumps(found, indent=1), connection)

    def _write(self, file: Path, text: str, connection: Path):
        """Write the text with connection files of this scratch place instead of the person's."""
        if not text:
            return
        for form in (str, lambda path: json.dumps(str(path))[1:-1]):  # as it is, and within JSON
            text = text.replace(f"below={form(self._persons)}", f"below={form(self.folder)}")
        own = str(connection)
        for role in ("gate", "report"):
            text = text.replace(f"{own} {role}", f"{self.connections[role]} {role}")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace(own, str(self.connections["gate"])))


def _text(file: Path) -> str:
    """Return the file's text, "" if it cannot be read."""
    with suppress(OSError, UnicodeDecodeError):
        return file.read_text("utf-8")
    return ""


def _switches(text: str, connection: Path) -> dict:
    """Return the settings that decide whether Handrail's hook runs, and of all hooks only that one."""
    try:
        found = json.loads(COMMENT.sub("", text))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    kept = {name: found[name] for name in SWITCHES if name in found}
    hooks = kept.pop("hooks", None)
    groups = hooks.items() if isinstance(hooks, dict) else ()
    ours = {event: [each for each in found if str(connection) in json.dumps(each)] for event, found in groups}
    if ours := {event: found for event, found in ours.items() if found}:
        kept["hooks"] = ours
    return kept


def variables() -> dict[str, str]:
    """Return what the agent's program gets of this process's environment; no key is among it."""
    return {name: os.environ[name] for name in ("PATH", "LANG", "TERM", "TMPDIR") if name in os.environ}
