"""Find and read the transcripts that agents left in a home folder: read only, bounded, and no symlink is followed.

Whatever stands in them was written by an agent and what it read: it is shown and counted, and nothing is decided by it.
"""

import os
import pwd
import sqlite3
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path

from approvals.agents.lines import Line
from approvals.agents.transcript_values import row_of
from approvals.agents.transcripts import DATABASES, JSON_LINES
from approvals.past.calls import PastCall

LABELS = {each.NAME: each.LABEL for each in (*JSON_LINES, *DATABASES)}
DAY, HOUR = 86400, 3600
MAX_FILES = 5_000  # the newest ones
MAX_LINE = 2 * 1024**2  # bytes
MAX_BYTES = 4 * 1024**3  # of all files together
MAX_CALLS = 100_000  # different ones
READ_SECONDS = 60.0
MAX_DEPTH = 6


@dataclass
class Past:
    """The calls of some days: `counts` is how often each different call came, `hours` those with a call."""

    calls: dict = field(default_factory=dict)  # {key: PastCall}
    counts: dict = field(default_factory=dict)  # {key: int}
    agents: dict = field(default_factory=dict)  # {agent: calls}
    hours: set = field(default_factory=set)
    files: int = 0
    broken: int = 0  # lines that were too long or made no sense
    skipped: int = 0  # files that are symlinks, of somebody else, or beyond the limits
    cut: bool = False  # a limit ended the reading

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def add(self, call: PastCall):
        key = call.key
        self.calls.setdefault(key, call)
        self.counts[key] = self.counts.get(key, 0) + 1
        self.agents[call.agent] = self.agents.get(call.agent, 0) + 1
        self.hours.add(int(call.at // HOUR))


class Reader:
    """Reads the transcripts of one home folder. `folders`: only sessions that began in or below one of them count."""

    def __init__(self, home: Path, *, days: int = 30, folders: list[str] = (), past: Past | None = None):
        self.home, self.folders = home.resolve(), [each for folder in folders for each in _spellings(folder)]
        self.now = time.time()
        self.since = self.now - days * DAY
        self.until = time.monotonic() + READ_SECONDS
        self.past, self.seen, self.bytes = past or Past(), set(), 0
        self.owners = {os.geteuid(), self.home.stat().st_uid}

    def read(self) -> Past:
        """Read the newest files first, until a limit is reached."""
        found = sorted(self._files(), key=lambda file: file[0], reverse=True)
        self.past.cut |= len(found) > MAX_FILES
        for _, agent, path in found[:MAX_FILES]:
            if self._is_full():
                self.past.cut = True
                break
            self._read_file(agent, path)
        return self.past

    def stamps(self) -> list[tuple[str, int, int]]:
        """Return (path, time of change in ns, size) of each transcript: equal as long as nothing was written."""
        return sorted((path, changed, os.lstat(path).st_size) for changed, _, path in self._files())

    def _is_full(self) -> bool:
        past = self.past
        return self.bytes > MAX_BYTES or len(past.calls) >= MAX_CALLS or time.monotonic() > self.until

    def _files(self):
        """Yield (time of change in ns, agent, path) of each file that may hold calls of these days."""
        for agent in JSON_LINES:
            if (folder := self._inside(agent.FOLDER)) is None:
                continue
            for at, folders, names, handle in os.fwalk(folder, follow_symlinks=False):
                if at[len(str(folder)) :].count("/") >= MAX_DEPTH:
                    folders.clear()
                for name in filter(agent.is_transcript, names):
                    if changed := self._changed(name, handle):
                        yield changed, agent, os.path.join(at, name)
        for agent in DATABASES:
            base = str(folder / agent.FILE) if (folder := self._inside(agent.FOLDER)) else ""
            if os.path.lexists(base) and (changed := self._changed(base)):
                yield changed, agent, base

    def _inside(self, name: str) -> Path | None:
        """Return a folder of the home; None if it is missing, or a symlink leads out of the home."""
        try:
            real = (self.home / name).resolve()
            if not real.is_dir():
                return None
        except (OSError, RuntimeError):  # not readable, or symlinks in a circle
            self.past.skipped += 1
            return None
        if not real.is_relative_to(self.home):
            self.past.skipped += 1
            return None
        return real

    def _changed(self, name: str, handle: int | None = None) -> int:
        """Return when a regular file of an expected owner was changed, in ns; 0 for any other and for older ones."""
        try:
            info = os.stat(name, dir_fd=handle, follow_symlinks=False)
        except OSError:
            return 0
        if not stat.S_ISREG(info.st_mode) or info.st_uid not in self.owners:
            self.past.skipped += 1
            return 0
        return info.st_mtime_ns if info.st_mtime >= self.since else 0

    def _read_file(self, agent, path: str):
        self.past.files += 1
        try:
            if agent in DATABASES:
                self._read_database(agent, path)
            else:
                self._read_lines(agent, path)
        except (OSError, sqlite3.Error):
            self.past.skipped += 1

    def _read_lines(self, agent, path: str):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or info.st_uid not in self.owners:
                raise PermissionError(path)
            state, root, cwd = {}, "", ""
            for row in self._rows(file):
                cwd = agent.folder_of(row) or cwd
                root = root or cwd
                for line in agent.read(row, state) or ():
                    self._take(agent, line, cwd, root)

    def _read_database(self, agent, path: str):
        limits = {"most": MAX_CALLS, "longest": MAX_LINE, "until": self.until}
        for line, folder in agent.calls(path, since=self.since, **limits):
            self.past.broken += folder is None
            if line:
                self._take(agent, line, folder, folder)

    def _rows(self, file):
        """Yield the object of each line; lines that are too long or no objects are counted."""
        while line := file.readline(MAX_LINE):
            self.bytes += len(line)
            if self._is_full():
                self.past.cut = True
                return
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                self.past.broken += 1
                self._skip_line(file)
                continue
            if (row := row_of(line)) is not None:
                yield row
            elif line.strip():
                self.past.broken += 1

    def _skip_line(self, file):
        while (line := file.readline(MAX_LINE)) and not line.endswith(b"\n") and not self._is_full():
            self.bytes += len(line)

    def _take(self, agent, line: Line, cwd: str, root: str):
        """Count a call once, although resumed sessions carry the earlier ones along."""
        asked = agent.asked(line) if line.kind == "call" and line.tool else None
        if asked is None or line.at is None:
            return
        tool, arguments, folder = asked
        call = PastCall(agent.NAME, tool, arguments, folder or cwd, root, line.at.timestamp(), line.call_id)
        if not self.since <= call.at <= self.now + DAY or not self._belongs(call.root):
            return
        if call.call_id and (call.agent, call.call_id) in self.seen:
            return
        self.seen.add((call.agent, call.call_id))
        self.past.add(call)

    def _belongs(self, root: str) -> bool:
        return not self.folders or any(f"{root}/".startswith(f"{folder}/") for folder in self.folders)


def home_for(folder: str | None) -> Path:
    """Return the home whose transcripts tell of a folder: the caller's own, for root that of the folder's owner."""
    if folder and os.geteuid() == 0 and (owner := os.stat(folder).st_uid) != 0:
        return Path(pwd.getpwuid(owner).pw_dir)
    return Path.home()


def _spellings(folder: str) -> list[str]:
    """Return a folder as it is written and with its symlinks resolved."""
    return list(dict.fromkeys(each.rstrip("/") for each in (os.path.abspath(folder), os.path.realpath(folder))))
