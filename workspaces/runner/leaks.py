"""Looks for the values of secrets in what a snapshot is about to keep, and in a home at the end of a run."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from django.db import transaction

from dashboard import clock
from dashboard.models import Actor
from workspaces import lifecycle, places, secrets
from workspaces.disguises import disguises
from workspaces.models import HandedSecret, SecretFinding
from workspaces.store import StoreError

AT_ONCE = 32  # forms in one search: with more than the processor compares in one step it is twenty times slower
SHOWN = 20  # findings that are written down at once
NAMED = 3  # findings that a sentence names
HOME_BYTES = 4 << 30  # of a home are read at most
PIECE = 4 << 20
OVERLAP = 1 << 16  # longer than any form


class SecretFound(StoreError):
    """A snapshot was not kept, because it would keep a secret's value."""


class Search:
    """All forms of many values at once; `names(data)` says which values are in the bytes."""

    def __init__(self, rows: Iterable[tuple[HandedSecret, str]]):
        self.rows: list[HandedSecret] = []
        self._of: list[int] = []  # form: index of its row
        forms: list[bytes] = []
        for handed, value in rows:
            for form in disguises(value.encode()):
                forms.append(form)
                self._of.append(len(self.rows))
            self.rows.append(handed)
        self._parts = [
            (at, BytesAhoCorasick(forms[at : at + AT_ONCE], matchkind=MatchKind.LeftmostLongest))
            for at in range(0, len(forms), AT_ONCE)
        ]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def found(self, data: bytes) -> list[HandedSecret]:
        hits = set()
        for at, part in self._parts:
            if matches := part.find_matches_as_indexes(data):
                hits |= {self._of[at + form] for form, _start, _end in matches}
        return [self.rows[index] for index in sorted(hits)] if hits else []


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
    rows = secrets.handed_rows(workspace)
    if lost := [handed.name for handed, value in rows if value is None]:
        raise StoreError(
            f"it cannot be searched for {', '.join(sorted(set(lost))[:NAMED])}: the keys in keys/ring do not fit (see "
            "docs/secrets.md)"
        )
    search = Search(rows)
    return Inspector(workspace, search) if search else None


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


def look_at_home(workspace, since, *, by: Actor):
    """Report values in files of the home that were written since a moment; it is in no snapshot, so nothing stops."""
    search = Search([(handed, value) for handed, value in secrets.handed_rows(workspace) if value is not None])
    home = places.folder_of(workspace.pk) / "home"
    if not search or workspace.source.get("path") or not home.is_dir():
        return
    hits, is_complete = _look_below(home, since.timestamp(), search)
    if hits or not is_complete:
        found = [{"path": f"/home/agent/{_shown(path)}", "name": handed.name} for path, handed in hits[:SHOWN]]
        data = {"found": found, "more": max(0, len(hits) - SHOWN), "complete": is_complete}
        lifecycle.record(workspace, by, "secret.in_home", data)


def _look_below(home: Path, since: float, search: Search) -> tuple[list, bool]:
    """((path, row) of each hit, whether all was read). Nothing of it runs any more; links are not followed."""
    hits, left = {}, HOME_BYTES
    root = os.fsencode(home)
    for at, folders, files, fd in os.fwalk(root, follow_symlinks=False):
        folders.sort()
        for name in sorted(files):
            path = os.path.relpath(os.path.join(at, name), root)
            try:
                opened = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
            except OSError:
                continue
            with open(opened, "rb", buffering=0) as file:
                found = os.fstat(opened)
                if not stat.S_ISREG(found.st_mode) or found.st_ctime < since - 1:
                    continue
                before = b""
                while left > 0 and (piece := file.read(PIECE)):
                    left -= len(piece)
                    hits |= {(path, handed): None for handed in search.found(before + piece)}
                    before = piece[-OVERLAP:]
    return list(hits), left > 0


def _shown(path: bytes) -> str:
    return path.decode("utf-8", "backslashreplace")
