"""Restore a live tree to a snapshot, and compare the two."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from . import blocks, mount_point
from .attributes import Rules
from .diff import pairs
from .errors import StoreError
from .file_reader import LEFT_OUT
from .index.catalog import Catalog
from .made import Made
from .objects import FILE, FOLDER, Entry, Folder, decode_folder
from .plan import Plan, chooser
from .progress import Report, Watch
from .safe_open import split_path
from .scan import Scan

if TYPE_CHECKING:
    from .tree import LocalLive as Live

Owner = tuple[int, int]


class Restored(NamedTuple):
    """The result of a restore: counts of created, changed and removed entries; `entries` is the snapshot's total."""

    created: int
    changed: int
    removed: int
    entries: int


class Proof(NamedTuple):
    """The result of comparing a live tree with a snapshot; `differ` lists the paths that are not equal."""

    entries: int
    differ: list[bytes]


class Sketch:
    """A sink that keeps only the folder objects of a scan in memory, to compare a live tree with stored ones."""

    def __init__(self, catalog: Catalog):
        self._catalog = catalog
        self._fresh: dict[bytes, bytes] = {}

    def add(self, data: bytes, *, kind: int = blocks.DATA, content: bytes | None = None) -> bytes:
        content = content or blake3(data).digest()
        if kind == blocks.META:
            self._fresh[content] = data
        return content

    def folder(self, content: bytes) -> Folder:
        return decode_folder(self.blob(content))

    def blob(self, content: bytes) -> bytes:
        fresh = self._fresh.get(content)
        return fresh if fresh is not None else self._catalog.blob(content)


def restore_tree(
    catalog: Catalog, scan: Scan, tree_id: bytes, live: "Live", journal: object,
    paths: Iterable[bytes] | None, keep: Iterable[bytes], owner: Owner | None, progress: Report | None,
) -> Restored:  # fmt: skip
    """Make the live tree equal to a snapshot; see Store.restore. `scan` must not have run yet.

    Raise StoreError if an earlier restore was interrupted and not recovered.
    """
    try:
        if live.unfinished(journal):
            raise StoreError(f"an earlier restore was interrupted; recover {journal} first")
        live.made = Made(tree_id)
        want_root = catalog.folder(tree_id)
        rules = _rules(live, want_root.root(), owner)
        live_root = scan.sink.folder(scan.run(live.root)).root()
    finally:
        scan.forget()  # nothing of it is stored, so the next snapshot of a watched tree looks at the same again
    keep = tuple(b"/".join(split_path(path)) for path in keep)
    if scan.has_mount_point and not _has_own_file(catalog, want_root.root()):
        keep += (mount_point.PATH,)
    chosen = None if paths is None else chooser(b"/".join(split_path(path)) for path in paths)
    plan = Plan(scan.sink.folder, catalog.folder, chosen, rules.same, keep)
    plan.build(live_root, want_root.root())
    done = Restored(plan.created, plan.changed, plan.removed, want_root.entries_below)
    if plan.steps:
        links = {
            group: [path for path in paths if not plan.covers(path)] for group, paths in scan.link_groups().items()
        }
        tick = Watch(progress, scan.cancel, plan.created + plan.changed).tick
        live.carry_out(catalog, plan, rules, links, journal, tick)
    return done


def _has_own_file(catalog: Catalog, root: Entry) -> bool:
    """Return whether the snapshot has a file where a driver has its mount point in the live tree."""
    at: Entry | None = root
    for name in mount_point.PATH.split(b"/"):
        at = catalog.folder(at.content).find(name) if at is not None and at.kind == FOLDER and at.kept else None
    return at is not None


def _rules(live: "Live", want: Entry, owner: Owner | None) -> Rules:
    if owner is None:
        return Rules(live.euid, live.owner[0])
    return Rules(live.euid, owner[0], (want.uid, want.gid, *owner))


def compare(catalog: Catalog, scan: Scan, tree_id: bytes, live: "Live", owner: Owner | None) -> Proof:
    """Compare a live tree with a snapshot, entry by entry."""
    want_root = catalog.folder(tree_id)
    rules = _rules(live, want_root.root(), owner)
    found = scan.sink.folder(scan.run(live.root)).root()
    want = want_root.root()
    left_out = {path for path, reason in scan.skipped if reason == LEFT_OUT}
    differ = [] if rules.same(found, want) else [b""]
    for path, there, wished in pairs(scan.sink.folder, found.content, want.content):
        if path not in left_out and not _is_same(there, wished, rules):
            differ.append(path)
    return Proof(want_root.entries_below, sorted(differ))


def _is_same(live: Entry | None, want: Entry | None, rules: Rules) -> bool:
    if live is None or want is None:
        kept = (live or want).kept
        return not kept
    if not want.kept and live.kind == want.kind:
        return True
    if live.kind != want.kind or live.kept != want.kept:
        return False
    if live.kind != FOLDER and (live.content, live.size) != (want.content, want.size):
        return False
    return (live.kind != FILE or live.link == want.link) and rules.same(live, want)
