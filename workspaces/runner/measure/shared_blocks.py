"""Which blocks on the disk the workspaces of one family share, so that their sum counts each of them once.

A family is a workspace and its forks on one host. Where the file system has reflinks, a fork's files are clones of its
origin's, and both use the same blocks. Each block counts for the oldest of the family that uses it. The others have in
`vitals["shared"]` what they share with whom: [{id, key, bytes}]. A family is measured while one of it is up.
"""

import errno
import fcntl
import os
import stat
import struct
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from django.conf import settings
from django.db import transaction

from workspaces.host import paths
from workspaces.models import State, Workspace
from workspaces.runner.measure.disk_usage import entries_below
from workspaces.store.lending import LEAST, clone

INTERVAL_S = 300.0  # seconds between two measurements of a family
PAUSE_FACTOR = 50  # pause between two measurements, as a multiple of the last one's duration
Blocks = list[tuple[int, int]]  # (first byte, byte behind the last) on the device, in order, none of them twice
_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQLLLL")  # start, length, flags, mapped extents, room for extents, reserved
_EXTENT = struct.Struct("=QQQ16xL12x")  # logical, physical, length, flags
_ROOM = 64  # extents at once
_LAST, _UNKNOWN, _ENCODED, _SHARED = 0x1, 0x2, 0x8, 0x2000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Sharing:
    """Measures the families of this host, each when it is due."""

    def __init__(self):
        self._due: dict = {}  # when each family may be measured again, by its members
        self._has_reflinks: bool | None = None

    def round(self, runs) -> None:
        """Measure one of the families that are due, of those with a member among these Runs."""
        if not runs or not self._is_possible():
            return
        families = [tuple(family) for family in families_of(runs)]
        self._due = {family: self._due.get(family, 0.0) for family in families}
        begun = time.monotonic()
        for family in families:
            if self._due[family] <= begun:
                self._measure(family)
                self._due[family] = time.monotonic() + max(INTERVAL_S, PAUSE_FACTOR * (time.monotonic() - begun))
                return

    def _is_possible(self) -> bool:
        if self._has_reflinks is None:
            self._has_reflinks = has_reflinks(settings.HANDRAIL_HOME)
        return self._has_reflinks

    def _measure(self, family) -> None:
        rows = {row.pk: row for row in Workspace.objects.filter(pk__in=family)}
        members = [rows[pk] for pk in family if pk in rows]
        found = shared_between({row.pk: shared_blocks(*_folders(row)) for row in members})
        for row in members:
            told = [{"id": str(pk), "key": rows[pk].key, "bytes": size} for pk, size in found[row.pk].items()]
            _note(row.pk, told)


def _folders(workspace) -> list[Path]:
    return [paths.tree_of(workspace), paths.folder_of(workspace.pk) / "home"]


def _note(pk, told: list[dict]) -> None:
    with transaction.atomic():
        row = Workspace.objects.locked().filter(pk=pk).first()
        if row is not None and row.vitals.get("shared", []) != told:
            vitals = {name: value for name, value in row.vitals.items() if name != "shared"}
            Workspace.objects.filter(pk=pk).update(vitals=vitals | ({"shared": told} if told else {}))


def families_of(runs) -> list[list]:
    """Return the families of the workspaces of some Runs of one host: their ids, the oldest first; none of only one.

    Forks of a workspace that is gone are a family too. Connected folders are not counted, so they are in none.
    """
    above = dict(Workspace.objects.exclude(forked_from=None).values_list("pk", "forked_from"))

    def first_of(pk):
        while pk in above:
            pk = above[pk]
        return pk

    firsts = {first_of(run.workspace_id) for run in runs}
    here = Workspace.objects.filter(runner=runs[0].runner, purged_at=None).exclude(state=State.ARCHIVED)
    families = defaultdict(list)
    for pk in here.not_connected_folders().order_by("created_at", "pk").values_list("pk", flat=True):
        if (first := first_of(pk)) in firsts:
            families[first].append(pk)
    return [family for family in families.values() if len(family) > 1]


def has_reflinks(folder: Path) -> bool:
    """Return whether two files in this folder can share blocks."""
    with tempfile.TemporaryFile(dir=folder) as source, tempfile.TemporaryFile(dir=folder) as target:
        source.write(bytes(LEAST))
        source.flush()
        return clone(source.fileno(), target.fileno())


def shared_blocks(*folders: Path) -> Blocks:
    """Return the blocks of the files below these folders that other files use too, each of them once.

    Files that cannot be opened and blocks that the file system compresses are left out.
    """
    device = os.stat(settings.HANDRAIL_HOME).st_dev
    found: Blocks = []
    for folder, entry, about in entries_below(*folders):
        if stat.S_ISREG(about.st_mode) and about.st_size >= LEAST and about.st_blocks and about.st_dev == device:
            try:
                fd = os.open(entry.name, _READ, dir_fd=folder)
            except OSError:
                continue
            try:
                found += _extents(fd)
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.ENOTTY, errno.EBADF):
                    raise
            finally:
                os.close(fd)
    return _merged(found)


def _extents(fd: int) -> Iterator[tuple[int, int]]:
    """Yield (first byte on the device, byte behind the last) of each shared extent of an open file."""
    start, flags = 0, 0
    while not flags & _LAST:
        asked = bytearray(_HEAD.size + _ROOM * _EXTENT.size)
        _HEAD.pack_into(asked, 0, start, 2**64 - 1 - start, 0, 0, _ROOM, 0)
        fcntl.ioctl(fd, _FIEMAP, asked)
        count = _HEAD.unpack_from(asked)[3]
        if not count:
            return
        for number in range(count):
            logical, physical, length, flags = _EXTENT.unpack_from(asked, _HEAD.size + number * _EXTENT.size)
            if flags & _SHARED and not flags & (_UNKNOWN | _ENCODED):
                yield physical, physical + length
        start = logical + length


def _merged(blocks: Blocks) -> Blocks:
    merged: Blocks = []
    for start, end in sorted(blocks):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def shared_between(blocks: Mapping) -> dict:
    """Return, for each key, {an earlier key: bytes} of the blocks that count for that one.

    Each block counts for the first key in the order of `blocks` that has it.
    """
    counted, shared = {}, {}
    for key, rest in blocks.items():
        shared[key] = {}
        for earlier, own in counted.items():
            both, rest = _split(rest, own)
            if both:
                shared[key][earlier] = both
        counted[key] = rest
    return shared


def _split(blocks: Blocks, others: Blocks) -> tuple[int, Blocks]:
    """Return how many bytes of `blocks` are in `others`, and those of `blocks` that are not."""
    both, rest, at = 0, [], 0
    for start, end in blocks:
        while at < len(others) and others[at][1] <= start:
            at += 1
        look = at
        while look < len(others) and others[look][0] < end:
            if others[look][0] > start:
                rest.append((start, others[look][0]))
                start = others[look][0]
            behind = min(end, others[look][1])
            both, start = both + behind - start, behind
            look += 1
        if start < end:
            rest.append((start, end))
    return both, rest
