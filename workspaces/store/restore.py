"""Bringing a live tree back to a snapshot, and proving that it is there."""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from .attributes import Attributes, Rules, set_xattrs
from .beneath import split_path, stat_beneath
from .catalog import Catalog
from .diff import pairs
from .errors import StoreError
from .journal import (
    APPLYING,
    CLEANING,
    STAGING,
    TakenBack,
    as_path,
    as_text,
    carry_out,
    finish,
    read_journal,
    write_journal,
)
from .objects import FILE, FOLDER, KIND_OF_MODE, Entry, Folder
from .plan import Plan, Step, chooser
from .scan import Progress, Report, Scan
from .staging import Stage
from .trees import sync_tree

_STAGE_PREFIX = ".handrail-restore-"


class Restored(NamedTuple):
    """What a restore did: entries that came, changed in place and went; `entries` is the size of the tree now."""

    created: int
    changed: int
    removed: int
    entries: int


class Proof(NamedTuple):
    """How a live tree compares with a snapshot; `differ` are the paths that are not the same."""

    entries: int
    differ: list[bytes]


def restore_tree(
    catalog: Catalog, scan: Scan, tree_id: bytes, target: Path, tree_fd: int, journal: Path,
    paths: Iterable[bytes] | None, keep: Iterable[bytes], progress: Report | None,
) -> Restored:  # fmt: skip
    """Make the live tree equal to a snapshot. `scan` has not run yet; it tells what differs."""
    if read_journal(journal) is not None:
        raise StoreError(f"an earlier restore was cut off; recover {journal} first")
    want_root = catalog.folder(tree_id)
    rules = Rules(os.geteuid(), os.fstat(tree_fd).st_uid)
    live_root = scan.sink.folder(scan.run(tree_fd)).root()
    keep = tuple(b"/".join(split_path(path)) for path in keep)
    chosen = None if paths is None else [b"/".join(split_path(path)) for path in paths]
    plan = Plan(scan.sink.folder, catalog.folder, chooser(chosen), rules.same, keep)
    plan.build(live_root, want_root.root())
    done = Restored(plan.created, plan.changed, plan.removed, want_root.entries_below)
    if plan.steps:
        _carry_plan(catalog, scan, plan, rules, target, tree_fd, journal, _progress(plan, want_root, progress))
    return done


def _progress(plan: Plan, want_root: Folder, report: Report | None):
    total = plan.created + plan.changed
    seen = [0, 0]

    def tick(count: int, size: int) -> None:
        seen[0] += count
        seen[1] += size
        if report:
            report(Progress(seen[0], seen[1], total, None))

    return tick


def _carry_plan(catalog, scan, plan, rules, target, tree_fd, journal, tick) -> None:
    place = os.fsencode(os.path.realpath(target))
    with _stage_folder(place, tree_fd, journal) as (stage, stage_fd):
        try:
            steps = _build(catalog, scan, plan, rules, tree_fd, stage_fd, tick)
            sync_tree(stage_fd)
            write_journal(journal, APPLYING, place, stage, steps)
        except BaseException:
            write_journal(journal, CLEANING, place, stage, [])
            finish(journal, stage)
            raise
        try:
            carry_out(tree_fd, stage_fd, steps)
        except TakenBack:
            write_journal(journal, CLEANING, place, stage, [])
            finish(journal, stage)
            raise
        except OSError as error:
            raise StoreError(f"the restore was cut off and must be recovered: {error}") from error
        sync_tree(tree_fd)
        write_journal(journal, CLEANING, place, stage, [])
        finish(journal, stage)


@contextmanager
def _stage_folder(target: bytes, tree_fd: int, journal: Path) -> Iterator[tuple[dict, int]]:
    """Make the stage on the tree's own file system, beside it where that is possible, else inside it."""
    name = os.fsencode(f"{_STAGE_PREFIX}{os.urandom(16).hex()}")
    device = os.fstat(tree_fd).st_dev
    for parent in (os.path.dirname(target), target):
        if os.stat(parent).st_dev == device and os.access(parent, os.W_OK | os.X_OK):
            break
    else:
        raise StoreError(f"nothing can be written beside {os.fsdecode(target)} or in it")
    stage = {"path": as_text(os.path.join(parent, name)), "inode": None, "uid": os.geteuid()}
    write_journal(journal, STAGING, target, stage, [])  # first, so that no crash can leave a stage that nobody knows
    fd = -1
    try:
        os.mkdir(as_path(stage["path"]), 0o700)
        fd = os.open(as_path(stage["path"]), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stage["inode"] = os.fstat(fd).st_ino
        _take_nothing_over(fd)
        yield stage, fd
    except BaseException:
        if fd < 0:
            finish(journal, stage)
        raise
    finally:
        if fd >= 0:
            os.close(fd)


def _take_nothing_over(fd: int) -> None:
    """Free the stage of the group and the access lists that its own folder hands down to what is made in it."""
    os.chown(fd, -1, os.getegid())
    os.chmod(fd, 0o700)
    set_xattrs(fd, ())


def _build(catalog, scan, plan: Plan, rules: Rules, tree_fd: int, stage_fd: int, tick) -> list[dict]:
    changing = {step.path for step in plan.steps if not step.adjust}
    links = {
        group: [path for path in paths if not _covered(path, changing)] for group, paths in scan.link_groups().items()
    }
    stage = Stage(catalog, stage_fd, tree_fd, rules, plan.wanted, links, tick)
    staged = {}
    for number, step in enumerate(plan.steps):
        if step.want is not None and not step.adjust:
            staged[number] = b"%d" % number
            stage.put(staged[number], step.path, step.want)
    stage.build()
    journaled = list(_unlocks(plan.steps, rules))
    for number, step in enumerate(plan.steps):
        journaled += _journal_steps(number, step, tree_fd, stage_fd, rules)
    return journaled


def _covered(path: bytes, changing: set[bytes]) -> bool:
    parts = path.split(b"/")
    return any(b"/".join(parts[:count]) in changing for count in range(1, len(parts) + 1))


def _journal_steps(number: int, step: Step, tree_fd: int, stage_fd: int, rules: Rules) -> Iterator[dict]:
    path = as_text(step.path)
    if step.adjust:
        found = stat_beneath(tree_fd, step.path)
        if KIND_OF_MODE.get(stat.S_IFMT(found.st_mode)) != step.live.kind:
            raise StoreError(f"{os.fsdecode(step.path)!r} became something else while the restore was prepared")
        inode = found.st_ino
        was = Rules(rules.euid, step.live.uid).attributes(step.live)
        yield _adjustment(path, inode, rules.attributes(step.want), was)
    elif step.want is None:
        yield {"do": "remove", "path": path, "staged": f"{number}"}
    else:
        inode = os.stat(f"{number}", dir_fd=stage_fd, follow_symlinks=False).st_ino
        yield {"do": "place", "path": path, "staged": f"{number}", "inode": inode}
        wished = rules.attributes(step.want)
        if rules.euid != 0 and step.want.kind == FOLDER and wished.mode & 0o200 == 0:
            # It could not be moved with its own mode, so that is set only where it has arrived.
            os.chmod(f"{number}", wished.mode | 0o700, dir_fd=stage_fd)
            yield _adjustment(path, inode, wished, wished._replace(mode=wished.mode | 0o700))


def _adjustment(path: str, inode: int, to: Attributes, was: Attributes) -> dict:
    return {"do": "adjust", "path": path, "inode": inode, "to": to.as_list(), "from": was.as_list()}


def _unlocks(steps: list[Step], rules: Rules) -> Iterator[dict]:
    """Folders that their owner has locked are opened for the time of the restore; root need not ask."""
    if rules.euid == 0:
        return
    for step in sorted(steps, key=lambda step: step.path):
        # A folder that moves must itself be writable: its `..` changes.
        needed = 0o300 if step.adjust else 0o200
        if step.live is not None and step.live.kind == FOLDER and step.live.mode & needed != needed:
            yield {"do": "unlock", "path": as_text(step.path), "mode": step.live.mode}


def prove(catalog: Catalog, scan: Scan, tree_id: bytes, tree_fd: int) -> Proof:
    """Compare a live tree with a snapshot, entry by entry."""
    rules = Rules(os.geteuid(), os.fstat(tree_fd).st_uid)
    want_root = catalog.folder(tree_id)
    live = scan.sink.folder(scan.run(tree_fd)).root()
    want = want_root.root()
    differ = [] if rules.same(live, want) else [b""]
    for path, found, wished in pairs(scan.sink.folder, live.content, want.content):
        if not _proven(found, wished, rules):
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
