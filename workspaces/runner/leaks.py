"""Looks for the values of secrets in what a snapshot is about to keep, and in a home at the end of a run."""

import os
import stat
from collections.abc import Iterable
from contextlib import closing
from typing import BinaryIO

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from django.db import transaction

from dashboard import clock
from dashboard.keyring import Unreadable
from dashboard.models import Actor
from workspaces import lifecycle, secrets
from workspaces.disguises import disguises
from workspaces.drivers.base import DriverError, Look
from workspaces.models import HandedSecret, SecretFinding
from workspaces.store import StoreError

# With more or longer ones than the processor compares in one step a search is ten times slower.
AT_ONCE, PART = 32, 12
SHOWN = 20  # findings that are written down at once
NAMED = 3  # findings that a sentence names
HOME_BYTES = 4 << 30  # of a home are read at most
PIECE = 4 << 20
OVERLAP = 1 << 16  # longer than any form


class SecretFound(StoreError):
    """A snapshot was not kept, because it would keep a secret's value."""


class Search:
    """All forms of many values at once: by a part of each, and only where one turns up by the whole."""

    def __init__(self, rows: Iterable[tuple[HandedSecret, str]]):
        self._forms = [(handed, form) for handed, value in rows for form in disguises(value.encode())]
        parts = sorted({_telling(form) for _, form in self._forms})
        self._searches = [
            BytesAhoCorasick(parts[at : at + AT_ONCE], matchkind=MatchKind.LeftmostLongest)
            for at in range(0, len(parts), AT_ONCE)
        ]

    def __bool__(self) -> bool:
        return bool(self._searches)

    def found(self, data: bytes) -> list[HandedSecret]:
        """Whose values are in the bytes."""
        if not any(search.find_matches_as_indexes(data) for search in self._searches):
            return []
        return list(dict.fromkeys(handed for handed, form in self._forms if form in data))


def _telling(form: bytes) -> bytes:
    """The part that is least like anything else: `-----BEGIN` would be found in every key of a test."""
    starts = range(max(1, len(form) - PART + 1))
    return max((form[at : at + PART] for at in starts), key=lambda part: len(set(part)))


class Inspector:
    """What Store.snapshot shows new content to; `agree` is its last question before it commits."""

    def __init__(self, workspace, search: Search):
        self.workspace, self.search = workspace, search
        self.hits: dict[tuple[bytes, HandedSecret], None] = {}
        kept = SecretFinding.objects.filter(workspace=workspace, kept_at__isnull=False)
        self._kept = set(kept.values_list("handed_id", "path_sha256"))

    def __call__(self, path: bytes, data: bytes) -> None:
        for handed in self.search.found(path) + self.search.found(data):
            if (handed.pk, secrets.path_hash(path)) not in self._kept:
                self.hits[path, handed] = None

    def agree(self) -> None:
        if self.hits:
            note(self.workspace, list(self.hits))
            raise SecretFound(self.words())

    def words(self) -> str:
        named = [f"{_shown(path)} holds the secret {handed.name}" for path, handed in list(self.hits)[:NAMED]]
        more = f" and {len(self.hits) - NAMED} more" if len(self.hits) > NAMED else ""
        return (
            f"{', '.join(named)}{more}. Take it out there and take the snapshot again, or a lead says on the "
            "workspace's page that it is kept all the same"
        )


def inspector_of(workspace) -> Inspector | None:
    """None for a workspace whose programs were never given a secret. StoreError when one cannot be looked for."""
    search = _search_for(workspace)
    return Inspector(workspace, search) if search else None


def look_of(workspace) -> Look | None:
    """What a driver shows each file of a set-up layer to: DriverError for one that holds a secret's value."""
    search = _search_for(workspace)

    def look(path: str, file: BinaryIO):
        before = os.fsencode(path)
        while True:
            if found := search.found(before):
                raise DriverError(
                    f"What the set-up installed is not kept: {path} holds the secret {found[0].name}. Let the script "
                    "take it out again."
                )
            if not (piece := file.read(PIECE)):
                return
            before = before[-OVERLAP:] + piece

    return look if search else None


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
    """Write down where values were found, for the page; nothing twice."""
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
    """A snapshot was kept: what was in the way is gone."""
    secrets.open_findings(workspace).delete()


def look_at_home(workspace, tree, since, *, by: Actor):
    """Report values in files of the home that were written since a moment; it is in no snapshot, so nothing stops."""
    search = Search([(handed, value) for handed, value in secrets.handed_rows(workspace) if value is not None])
    if not search or workspace.source.get("path"):
        return
    with tree.files("home") as files:
        hits, is_complete = _look_below(files, since.timestamp(), search)
    if hits or not is_complete:
        found = [{"path": f"/home/agent/{_shown(path)}", "name": handed.name} for path, handed in hits[:SHOWN]]
        data = {"found": found, "more": max(0, len(hits) - SHOWN), "complete": is_complete}
        lifecycle.record(workspace, by, "secret.in_home", data)


def _look_below(files, since: float, search: Search) -> tuple[list, bool]:
    """((path, row) of each hit, whether all was read). Nothing of it runs any more; links are not followed."""
    hits, left, folders = {}, HOME_BYTES, [b""]
    while folders:
        at = folders.pop()
        for name, found in sorted(_listed(files, at), reverse=True):
            path = at + b"/" + name if at else name
            if stat.S_ISDIR(found.st_mode):
                folders.append(path)
            elif stat.S_ISREG(found.st_mode) and found.st_ctime >= since - 1:
                seen, left = _look_into(files, path, search, left)
                hits |= {(path, handed): None for handed in seen}
    return list(hits), left > 0


def _listed(files, folder: bytes) -> list:
    try:
        return list(files.entries(folder))
    except OSError:
        return []


def _look_into(files, path: bytes, search: Search, left: int) -> tuple[list, int]:
    """(whose values are in a file, how many bytes may still be read after it)"""
    seen, before, offset = [], b"", 0
    try:
        with closing(files.open(path)) as file:
            while left > 0 and (piece := file.pread(PIECE, offset)):
                offset, left = offset + len(piece), left - len(piece)
                seen += search.found(before + piece)
                before = piece[-OVERLAP:]
    except OSError:
        pass  # it may not be read, or is gone
    return seen, left


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
