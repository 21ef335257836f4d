"""Search for secret values in what a snapshot or a setup layer would keep, and in the home at the end of a Run."""

import os
import stat
from collections.abc import Iterable
from contextlib import closing
from typing import BinaryIO

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from django.db import transaction

from dashboard.database import clock
from dashboard.keys.keyring import Unreadable
from dashboard.keys.secret_forms import encoded_forms
from dashboard.models import Actor
from workspaces import lifecycle, secrets
from workspaces.drivers.base import DriverError, InspectFile
from workspaces.models import HandedSecret, SecretFinding
from workspaces.store import StoreError

# Patterns per automaton, and bytes per pattern: beyond what SIMD compares in one step a search is ten times slower.
PATTERNS_PER_AUTOMATON, MAX_PATTERN_BYTES = 32, 12
SHOWN = 20  # findings saved at once
NAMED = 3  # findings named in a message
HOME_BYTES = 4 << 30  # most bytes of a home that are read
PIECE = 4 << 20
OVERLAP = 1 << 16  # longer than any encoded form of a value


class SecretFound(StoreError):
    """A snapshot was not taken, because it would contain a secret's value."""


class Search:
    """Search for all encoded forms of many values at once: first for a part of each, then for whole forms on a hit."""

    def __init__(self, rows: Iterable[tuple[HandedSecret, str]]):
        self._forms = [(handed, form) for handed, value in rows for form in encoded_forms(value.encode())]
        parts = sorted({_telling(form) for _, form in self._forms})
        self._searches = [
            BytesAhoCorasick(parts[at : at + PATTERNS_PER_AUTOMATON], matchkind=MatchKind.LeftmostLongest)
            for at in range(0, len(parts), PATTERNS_PER_AUTOMATON)
        ]

    def __bool__(self) -> bool:
        return bool(self._searches)

    def secrets_in(self, data: bytes) -> list[HandedSecret]:
        """Return the secrets whose values are in the bytes."""
        if not any(search.find_matches_as_indexes(data) for search in self._searches):
            return []
        return list(dict.fromkeys(handed for handed, form in self._forms if form in data))


def _telling(form: bytes) -> bytes:
    """Return the most distinctive part of a form; `-----BEGIN`, for one, would match every private key."""
    starts = range(max(1, len(form) - MAX_PATTERN_BYTES + 1))
    return max((form[at : at + MAX_PATTERN_BYTES] for at in starts), key=lambda part: len(set(part)))


class Inspector:
    """Callbacks for Store.snapshot: called with new content; `before_commit` raises SecretFound before the commit."""

    def __init__(self, workspace, search: Search):
        self.workspace, self.search = workspace, search
        self.hits: dict[tuple[bytes, HandedSecret], None] = {}
        kept = SecretFinding.objects.filter(workspace=workspace, kept_at__isnull=False)
        self._kept = set(kept.values_list("handed_id", "path_sha256"))

    def __call__(self, path: bytes, data: bytes) -> None:
        for handed in self.search.secrets_in(path) + self.search.secrets_in(data):
            if (handed.pk, secrets.path_hash(path)) not in self._kept:
                self.hits[path, handed] = None

    def before_commit(self) -> None:
        if self.hits:
            note(self.workspace, list(self.hits))
            raise SecretFound(self.message())

    def message(self) -> str:
        named = [f"{_shown(path)} holds the secret {handed.name}" for path, handed in list(self.hits)[:NAMED]]
        more = f" and {len(self.hits) - NAMED} more" if len(self.hits) > NAMED else ""
        return (
            f"{', '.join(named)}{more}. Take it out there and take the snapshot again, or a lead says on the "
            "workspace's page that it is kept all the same"
        )


class StrictInspector(Inspector):
    """An Inspector of files that others get: nothing found is kept all the same, and every place is named."""

    def __init__(self, workspace, search: Search):
        self.workspace, self.search = workspace, search
        self.hits: dict[tuple[bytes, HandedSecret], None] = {}
        self._kept = frozenset()

    def before_commit(self) -> None:
        if self.hits:
            named = [f"{_shown(path)} holds the secret {handed.name}" for path, handed in list(self.hits)[:SHOWN]]
            more = f" and {len(self.hits) - SHOWN} more" if len(self.hits) > SHOWN else ""
            raise SecretFound(f"{', '.join(named)}{more}. Take it out there and try again")


def strict_inspector_of(workspace) -> StrictInspector:
    """Return the StrictInspector of a workspace. Raise StoreError if a value is unreadable."""
    return StrictInspector(workspace, _search_for(workspace))


def inspector_of(workspace) -> Inspector | None:
    """Return the Inspector of a workspace, or None if its programs were never given a secret.

    Raise StoreError if a value is unreadable.
    """
    search = _search_for(workspace)
    return Inspector(workspace, search) if search else None


def file_inspector(workspace) -> InspectFile | None:
    """Return a callback for each file of a setup layer, which raises DriverError on a secret's value; None without.

    Raise StoreError if a value is unreadable.
    """
    search = _search_for(workspace)

    def inspect(path: str, file: BinaryIO):
        before = os.fsencode(path)
        while True:
            if found := search.secrets_in(before):
                raise DriverError(
                    f"Setup's installed files were not saved: {path} holds the secret {found[0].name}. Let the script "
                    "take it out again."
                )
            if not (piece := file.read(PIECE)):
                return
            before = before[-OVERLAP:] + piece

    return inspect if search else None


def _search_for(workspace) -> Search:
    try:
        rows = secrets.handed_rows(workspace)
    except Unreadable as error:
        raise StoreError(f"it cannot be searched for secrets. {error}") from error
    if lost := [handed.name for handed, value in rows if value is None]:
        raise StoreError(
            f"it cannot be searched for {', '.join(sorted(set(lost))[:NAMED])}: the keys in keys/ring do not fit (see "
            "docs/secrets.md)"
        )
    return Search(rows)


def note(workspace, hits: list[tuple[bytes, HandedSecret]]):
    """Save where values were found, for the page, without duplicates."""
    with transaction.atomic():
        now = clock.now()
        for path, handed in hits[:SHOWN]:
            shown, hashed = _shown(path), secrets.path_hash(path)
            SecretFinding.objects.get_or_create(
                handed=handed,
                path_sha256=hashed,
                defaults={"workspace": workspace, "path": shown, "found_at": now},
            )


def forget(workspace):
    """Delete the open findings after a snapshot was taken: it would have failed if the values were still there."""
    secrets.open_findings(workspace).delete()


def scan_home(workspace, tree, since, *, by: Actor):
    """Record secret values in files of the home changed since `since`. Blocks nothing: a home is in no snapshot."""
    search = Search([(handed, value) for handed, value in secrets.handed_rows(workspace) if value is not None])
    if not search or workspace.own_folder:
        return
    with tree.files("home") as files:
        hits, is_complete = _scan_tree(files, since.timestamp(), search)
    if hits or not is_complete:
        found = [{"path": f"/home/agent/{_shown(path)}", "name": handed.name} for path, handed in hits[:SHOWN]]
        data = {"found": found, "more": max(0, len(hits) - SHOWN), "complete": is_complete}
        lifecycle.record(workspace, by, "secret.in_home", data)


def _scan_tree(files, since: float, search: Search) -> tuple[list, bool]:
    """Return ([(path, HandedSecret)], whether everything was read). Symlinks are not followed.

    No program of the workspace runs any more.
    """
    hits, left, folders = {}, HOME_BYTES, [b""]
    while folders:
        at = folders.pop()
        for name, found in sorted(_listed(files, at), reverse=True):
            path = at + b"/" + name if at else name
            if stat.S_ISDIR(found.st_mode):
                folders.append(path)
            elif stat.S_ISREG(found.st_mode) and found.st_ctime >= since - 1:
                seen, left = _scan_file(files, path, search, left)
                hits |= {(path, handed): None for handed in seen}
    return list(hits), left > 0


def _listed(files, folder: bytes) -> list:
    try:
        return list(files.entries(folder))
    except OSError:
        return []


def _scan_file(files, path: bytes, search: Search, left: int) -> tuple[list, int]:
    """Return (the secrets whose values are in a file, how many bytes may still be read after it)."""
    seen, before, offset = [], b"", 0
    try:
        with closing(files.open(path)) as file:
            while left > 0 and (piece := file.pread(PIECE, offset)):
                offset, left = offset + len(piece), left - len(piece)
                seen += search.secrets_in(before + piece)
                before = piece[-OVERLAP:]
    except OSError:
        pass  # unreadable or gone
    return seen, left


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
