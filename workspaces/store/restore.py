"""Restore a live tree to a snapshot, and compare the two."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from .attributes import Rules
from .diff import pairs
from .errors import StoreError
from .index.catalog import Catalog
from .objects import FILE, FOLDER, Entry
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


def restore_tree(
    catalog: Catalog, scan: Scan, tree_id: bytes, live: "Live", journal: object,
    paths: Iterable[bytes] | None, keep: Iterable[bytes], owner: Owner | None, progress: Report | None,
) -> Restored:  # fmt: skip
    """Make the live tree equal to a snapshot; see Store.restore. `scan` must not have run yet.

    Raise StoreError if an earlier restore was interrupted and not recovered.
    """
    if live.unfinished(journal):
        raise StoreError(f"an earlier restore was interrupted; recover {journal} first")
    want_root = catalog.folder(tree_id)
    rules = _rules(live, want_root.root(), owner)
    live_root = scan.sink.folder(scan.run(live.root)).root()
    keep = tuple(b"/".join(split_path(path)) for path in keep)
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


def _rules(live: "Live", want: Entry, owner: Owner | None) -> Rules:
    if owner is None:
        return Rules(live.euid, live.owner[0])
    return Rules(live.euid, owner[0], (want.uid, want.gid, *owner))


def prove(catalog: Catalog, scan: Scan, tree_id: bytes, live: "Live", owner: Owner | None) -> Proof:
    """Compare a live tree with a snapshot, entry by entry."""
    want_root = catalog.folder(tree_id)
    rules = _rules(live, want_root.root(), owner)
    found = scan.sink.folder(scan.run(live.root)).root()
    want = want_root.root()
    differ = [] if rules.same(found, want) else [b""]
    for path, there, wished in pairs(scan.sink.folder, found.content, want.content):
        if not _proven(there, wished, rules):
            differ.append(path)
    return Proof(want_root.entries_below, sorted(differ))


def _proven(live: Entry | None, want: Entry | None, rules: Rules) -> bool:
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
