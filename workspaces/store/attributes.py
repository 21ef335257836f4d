"""Owner, mode, extended attributes and times of an entry on disk."""

import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .objects import Entry

SPECIAL = stat.S_ISUID | stat.S_ISGID
_CAPABILITY = b"security.capability"
_NEVER = (b"security.selinux",)  # an SELinux label belongs to the location, not to the file


class Attributes(NamedTuple):
    """The attributes to set on an entry once its content is in place. A `uid` of None leaves the owner unchanged."""

    mode: int
    uid: int | None
    gid: int | None
    mtime_ns: int
    xattrs: tuple[tuple[bytes, bytes], ...] = ()

    def as_list(self) -> list:
        pairs = [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.xattrs]
        return [self.mode, self.uid, self.gid, self.mtime_ns, pairs]

    @classmethod
    def from_list(cls, fields: list) -> "Attributes":
        pairs = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in fields[4])
        return cls(*fields[:4], pairs)


class Rules(NamedTuple):
    """Which attributes a restore may set, decided once for a tree from the effective uid and the tree's owner.

    `moved` is (uid, gid, new uid, new gid): entries of the owner of the snapshot's root get the new owner.
    """

    euid: int
    root_uid: int
    moved: tuple[int, int, int, int] | None = None

    def owner(self, entry: "Entry") -> tuple[int, int]:
        if self.moved is None:
            return entry.uid, entry.gid
        uid, gid, new_uid, new_gid = self.moved
        return (new_uid if entry.uid == uid else entry.uid), (new_gid if entry.gid == gid else entry.gid)

    def attributes(self, entry: "Entry") -> Attributes:
        """Return the recorded attributes of an entry, without setuid, setgid and capabilities where they are unsafe."""
        uid, gid = self.owner(entry)
        safe = uid == self.root_uid and self.euid in (0, uid)
        mode = entry.mode if safe or entry.kind == 2 else entry.mode & ~SPECIAL
        xattrs = (
            ()
            if not entry.extras
            else tuple(
                (name, value)
                for name, value in entry.xattrs.items()
                if name not in _NEVER and (name != _CAPABILITY or (safe and self.euid == 0))
            )
        )
        return Attributes(mode, uid if self.euid == 0 else None, gid, entry.mtime_ns, xattrs)

    def same(self, live: "Entry", want: "Entry") -> bool:
        """Return True if a live entry has the attributes that a restore would set."""
        wished = self.attributes(want)
        if (live.mode, live.mtime_ns) != (wished.mode, wished.mtime_ns):
            return False
        if self.euid == 0 and (live.uid, live.gid) != (wished.uid, wished.gid):
            return False
        found = {name: value for name, value in live.xattrs.items() if name not in _NEVER}
        return found == dict(wished.xattrs)


def set_on(fd: int, wanted: Attributes, *, path: str | None = None) -> None:
    """Set the attributes of an open file or folder. `path` replaces a descriptor that was opened with O_PATH."""
    at: int | str = path or fd
    if wanted.uid is not None:
        os.chown(at, wanted.uid, wanted.gid)
    else:
        _try_group(at, wanted.gid)
    os.chmod(at, wanted.mode)
    set_xattrs(at, wanted.xattrs)
    os.utime(at, ns=(wanted.mtime_ns, wanted.mtime_ns))


def set_on_new(fd: int, wanted: Attributes, made: tuple[int, int, int]) -> None:
    """Set the attributes of an entry just created with `made` (uid, gid, mode), skipping those already right."""
    if wanted.uid is not None:
        if (wanted.uid, wanted.gid) != made[:2]:
            os.chown(fd, wanted.uid, wanted.gid)
    elif wanted.gid not in (None, made[1]):
        _try_group(fd, wanted.gid)
    if wanted.mode != made[2]:
        os.chmod(fd, wanted.mode)
    if wanted.xattrs:
        set_xattrs(fd, wanted.xattrs)
    os.utime(fd, ns=(wanted.mtime_ns, wanted.mtime_ns))


def _try_group(at: int | str, gid: int | None) -> None:
    if gid is not None:
        try:
            os.chown(at, -1, gid)
        except OSError as error:
            # An unprivileged user can only set groups that it belongs to, in a user namespace only groups that it has.
            if error.errno not in (errno.EPERM, errno.EINVAL):
                raise


def set_xattrs(at: int | str, pairs: tuple[tuple[bytes, bytes], ...], *, follow: bool = True) -> None:
    """Make the extended attributes equal to `pairs`, as far as the file system and permissions allow."""
    options = {} if isinstance(at, int) else {"follow_symlinks": follow}
    try:
        present = {os.fsencode(name) for name in os.listxattr(at, **options)}
    except OSError:
        present = set()
    wanted = dict(pairs)
    for name in present - wanted.keys() - set(_NEVER):
        try:
            os.removexattr(at, name, **options)
        except OSError:
            pass  # the proof after the restore reports it
    for name, value in wanted.items():
        try:
            os.setxattr(at, name, value, **options)
        except OSError:
            pass  # reported by the proof too
