"""What a change is besides its lines: types, modes, owners and extended attributes. For a person, and for a patch."""

from collections.abc import Iterator
from typing import NamedTuple

from .diff import SPECIAL_BITS, Change
from .objects import FILE, FOLDER, SYMLINK, Entry

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
_ORDINARY = (0o644, 0o755, 0o664, 0o775)  # modes of new files that need no mention beside git's two


class Fact(NamedTuple):
    """One thing about a change.

    `what`: type, mode, owner, attribute, content. `name` is an attribute's. `old` and `new` are what it was and is, ""
    where there was nothing; of an attribute only `new`: added, removed or changed. `in_git`: a patch can express it.
    """

    what: str
    old: str
    new: str
    name: str = ""
    in_git: bool = False

    def __str__(self) -> str:
        words = f"{self.what} {self.name}".strip()
        return f"{words} {self.old} -> {self.new}" if self.old and self.new else f"{words} {self.old or self.new}"


def facts(change: Change, *, owners: bool = True) -> list[Fact]:
    """Return what a review says of a change besides its lines, most telling first."""
    owner = _owners(change) if owners else ()
    return [*_types(change), *_modes(change), *_attributes(change), *owner, *_kept(change)]


def attributes(change: Change) -> dict[str, str]:
    """Return {name of an extended attribute: added, removed or changed}."""
    old, new = (side.xattrs if side is not None else {} for side in (change.old, change.new))
    told = {}
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            how = ADDED if name not in old else REMOVED if name not in new else CHANGED
            told[name.decode("utf-8", "backslashreplace")] = how
    return told


def _types(change: Change) -> Iterator[Fact]:
    old, new = change.old, change.new
    if old is not None and new is not None and old.kind != new.kind:
        yield Fact("type", old.type, new.type, in_git=_has_git(old) and _has_git(new))
    elif (side := new or old).kind != FILE:
        yield Fact("type", "" if new else side.type, side.type if new else "", in_git=_has_git(side))


def _has_git(entry: Entry) -> bool:
    return entry.kind in (FILE, SYMLINK)


def _modes(change: Change) -> Iterator[Fact]:
    old, new = change.old, change.new
    if new is None or new.kind == SYMLINK:
        return
    if old is not None and old.kind == new.kind:
        if old.mode != new.mode:
            known = new.kind == FILE and {old.mode, new.mode} <= set(_ORDINARY) and (old.mode ^ new.mode) & 0o100
            yield Fact("mode", f"{old.mode:03o}", f"{new.mode:03o}", in_git=bool(known))
    elif new.mode & SPECIAL_BITS or (new.kind == FILE and new.mode & 0o111):
        yield Fact("mode", "", f"{new.mode:03o}", in_git=new.mode in _ORDINARY)
    elif new.kind == FILE and new.mode not in _ORDINARY:
        yield Fact("mode", "", f"{new.mode:03o}")


def _attributes(change: Change) -> Iterator[Fact]:
    for name, how in attributes(change).items():
        if change.new is not None:  # those of an entry that is gone went with it
            yield Fact("attribute", "", how, name)


def _owners(change: Change) -> Iterator[Fact]:
    old, new = change.old, change.new
    if old is not None and new is not None and (old.uid, old.gid) != (new.uid, new.gid):
        yield Fact("owner", f"{old.uid}:{old.gid}", f"{new.uid}:{new.gid}")


def _kept(change: Change) -> Iterator[Fact]:
    """Yield a fact for a file or folder whose content a snapshot does not hold, so that no line of it is known."""
    for side in (change.old, change.new):
        if side is not None and not side.kept and side.kind in (FILE, FOLDER):
            yield Fact("content", "", "left out by the environment" if side.is_ignored else "not stored")
            return
