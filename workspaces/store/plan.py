"""Plan a restore: the steps for the entries that differ between the live tree and the snapshot."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .attributes import Rules
from .depth import raise_limits_at
from .diff import TYPE_BITS, ReadFolder, below
from .journal import as_text
from .objects import FILE, FOLDER, Entry


class Step(NamedTuple):
    """One change to the live tree at `path`.

    Place: put `want` there, replacing `live` if it exists. Remove: `want` is None.
    Adjust (`adjust` is True): keep the entry; set the owner, mode, attributes and times of `want`.
    """

    path: bytes
    live: Entry | None
    want: Entry | None
    adjust: bool = False


class Plan:
    """The steps of one restore. `chosen` selects paths (see `chooser`); paths in `keep` are not changed."""

    def __init__(
        self,
        read_live: ReadFolder,
        read_want: ReadFolder,
        chosen: Callable[[bytes], bool | None] | None,
        same_attributes: Callable[[Entry, Entry], bool],
        keep: tuple[bytes, ...] = (),
    ):
        self.read_live, self.read_want, self.chosen = read_live, read_want, chosen or (lambda path: True)
        self.same_attributes, self.keep = same_attributes, keep
        self._all = chosen is None and not keep  # then no path has to be checked
        self.steps: list[Step] = []
        self.created = self.changed = self.removed = 0
        self._replaced: set[bytes] | None = None

    def build(self, live: Entry, want: Entry) -> "Plan":
        """Plan the changes from one root to the other; return self."""
        self._both(b"", live, want)
        return self

    def drafts(self, rules: Rules) -> Iterator[dict]:
        """Yield the steps in journal form without inode numbers, which `swap` adds where the tree is."""
        yield from self._unlocks(rules)
        for number, step in enumerate(self.steps):
            path = as_text(step.path)
            if step.adjust:
                was = Rules(rules.euid, step.live.uid).attributes(step.live)
                to = rules.attributes(step.want).as_list()
                yield {"do": "adjust", "path": path, "type": TYPE_BITS[step.live.kind], "to": to, "from": was.as_list()}
            elif step.want is None:
                yield {"do": "remove", "path": path, "staged": f"{number}"}
            else:
                wished = rules.attributes(step.want)
                locked = rules.euid != 0 and step.want.kind == FOLDER and wished.mode & 0o200 == 0
                draft = {"do": "place", "path": path, "staged": f"{number}"}
                yield draft | ({"locked": wished.as_list()} if locked else {})

    def _unlocks(self, rules: Rules) -> Iterator[dict]:
        """Yield steps that make folders their owner cannot change writable during the restore; root needs none."""
        if rules.euid == 0:
            return
        for step in sorted(self.steps, key=lambda step: step.path):
            # A folder can only be moved if it is writable: its `..` changes.
            needed = 0o300 if step.adjust else 0o200
            if step.live is not None and step.live.kind == FOLDER and step.live.mode & needed != needed:
                yield {"do": "unlock", "path": as_text(step.path), "mode": step.live.mode}

    def covers(self, path: bytes) -> bool:
        """Return True if a step replaces or removes the path or a folder above it."""
        if self._replaced is None:
            self._replaced = {step.path for step in self.steps if not step.adjust}
        parts = path.split(b"/")
        return any(b"/".join(parts[:count]) in self._replaced for count in range(1, len(parts) + 1))

    def kept(self, path: bytes) -> bool:
        return any(path == keep or path.startswith(keep + b"/") for keep in self.keep)

    def _keeps_inside(self, path: bytes) -> bool:
        return any(keep.startswith(path + b"/") for keep in self.keep)

    def _visit(self, path: bytes, live: Entry | None, want: Entry | None) -> bool:
        """Plan one path. Return True if its parent folder is modified."""
        choice = self.chosen(path)
        if choice is None or self.kept(path):
            return False
        if choice is False:  # an ancestor of a chosen path
            return self._on_the_way(path, live, want)
        if want is None:
            return self._gone(path, live)
        if not want.kept or (live is not None and not live.kept and live.kind in (FILE, FOLDER)):
            return False  # the bytes are not stored, so the live entry stays
        if live is None:
            return self._place(path, None, want)
        return self._both(path, live, want)

    def _on_the_way(self, path: bytes, live: Entry | None, want: Entry | None) -> bool:
        if want is not None and want.kind != FOLDER:
            want = None  # the chosen paths below are not in the snapshot
        if live is None:
            return self._place(path, None, want) if want is not None else False
        if live.kind != FOLDER or not live.kept:
            return False
        self._children(path, live, want, touch=False)
        return False

    def _gone(self, path: bytes, live: Entry) -> bool:
        if not live.kept and live.kind in (FILE, FOLDER):
            return False
        if live.kind == FOLDER and (self._keeps_inside(path) or self._holds_unkept(path, live)):
            self._children(path, live, None, touch=False)
            return False
        self.removed += sum(1 for _ in below(self.read_live, path, live))
        self.steps.append(Step(path, live, None))
        return True

    def _holds_unkept(self, path: bytes, live: Entry) -> bool:
        return any(not entry.kept and entry.kind in (FILE, FOLDER) for _, entry in below(self.read_live, path, live))

    def _place(self, path: bytes, live: Entry | None, want: Entry) -> bool:
        if live is None:
            self.created += self._size(path, want)
        else:
            self.changed += 1
        self.steps.append(Step(path, live, want))
        return True

    def _size(self, path: bytes, want: Entry) -> int:
        if not self._all:
            return sum(1 for at, entry in below(self.read_want, path, want) if self.wanted(at, entry))
        return 1 + (self.read_want(want.content).entries_below if want.kind == FOLDER else 0)

    def wanted(self, path: bytes, entry: Entry) -> bool:
        """Return True if an entry below a placed folder is to be created."""
        return entry.kept and (self._all or (not self.kept(path) and self.chosen(path) is not None))

    def _both(self, path: bytes, live: Entry, want: Entry) -> bool:
        if live.kind == want.kind == FOLDER:
            touched = live.content != want.content and self._children(path, live, want, touch=True)
            if touched or not self.same_attributes(live, want):
                self.changed += not touched
                self.steps.append(Step(path, live, want, adjust=True))
            return False
        if live.kind == FOLDER and (self._keeps_inside(path) or self._holds_unkept(path, live)):
            return False
        if live.kind == want.kind and live.content == want.content and live.link == want.link:
            if self.same_attributes(live, want):
                return False
            if live.kind == FILE and not live.link:
                self.changed += 1
                self.steps.append(Step(path, live, want, adjust=True))
                return False
        return self._place(path, live, want)

    def _children(self, path: bytes, live: Entry, want: Entry | None, *, touch: bool) -> bool:
        raise_limits_at(path)
        prefix = path + b"/" if path else b""
        old = {entry.name: entry for entry in self.read_live(live.content)}
        new = {entry.name: entry for entry in self.read_want(want.content)} if want is not None and want.kept else {}
        touched = False
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                touched |= self._visit(prefix + name, old.get(name), new.get(name))
        return touched


def chooser(paths: Iterable[bytes]) -> Callable[[bytes], bool | None]:
    """Return a function of a path: True if it is in `paths` or below one, False for an ancestor of one, else None.

    It looks up the path and its ancestors, so its time depends on their number and not on that of `paths`.
    """
    chosen = frozenset(paths)
    above = {one[:at] for one in chosen for at in _ends_of_ancestors(one)}

    def choose(path: bytes) -> bool | None:
        if b"" in chosen or path in chosen or any(path[:at] in chosen for at in _ends_of_ancestors(path)):
            return True
        return False if path in above else None

    return choose


def _ends_of_ancestors(path: bytes) -> Iterator[int]:
    """Yield where the names of the folders above the path end in it, the nearest first."""
    end = path.rfind(b"/")
    while end > 0:
        yield end
        end = path.rfind(b"/", 0, end)
