"""The changed files of a page as a tree: folders that fold, with counts, and a folder that is gone as one row."""

from dataclasses import dataclass, field

from workspaces.changes.comparisons import digest_of
from workspaces.store.diff import REMOVED

LEAST_GONE = 3  # files of a folder that is gone, to be shown as one row
OPEN_UP_TO = 40  # files in a folder that is open when the page comes


@dataclass
class GoneFolder:
    """A folder that is gone with all of its files."""

    path: bytes
    rows: list

    kind = REMOVED
    facts = ()
    old_path = None

    @property
    def additions(self) -> int | None:
        return None if self.deletions is None else 0

    @property
    def deletions(self) -> int | None:
        """The lines that went; None if a file was not counted."""
        counted = [row.deletions for row in self.rows]
        return None if None in counted else sum(counted)

    def is_seen(self, seen: frozenset[str]) -> bool:
        return all(digest_of(row) in seen for row in self.rows)


@dataclass
class Folder:
    """A folder of the tree. `name`: its path from the folder that it stands in; `files`: in it and below."""

    name: bytes
    entries: list = field(default_factory=list)  # Folder, or (address, name, change, was seen)
    files: int = 0
    additions: int = 0
    deletions: int = 0
    seen: int = 0

    @property
    def is_open(self) -> bool:
        return self.files <= OPEN_UP_TO


def with_gone(written, gone_folders) -> list:
    """Put a GoneFolder in the place of the removed files of each of these folders, if they are at least LEAST_GONE."""
    groups, of = {}, {}
    for row in written:
        if row.kind == REMOVED and (folder := _around(row.path, gone_folders)):
            groups.setdefault(folder, GoneFolder(folder, [])).rows.append(row)
            of[row.path] = groups[folder]
    found, done = [], set()
    for row in written:
        group = of.get(row.path)
        if group is None or len(group.rows) < LEAST_GONE:
            found.append(row)
        elif group.path not in done:
            done.add(group.path)
            found.append(group)
    return found


def _around(path: bytes, folders) -> bytes | None:
    """Return the one of these folders that the path is below; None if it is below none."""
    parts = path.split(b"/")
    names = (b"/".join(parts[:count]) for count in range(1, len(parts)))
    return next((name for name in names if name in folders), None)


def below(written, folder: bytes) -> list:
    return [row for row in written if row.path.startswith(folder + b"/")]


def tree_of(files) -> Folder:
    """Return the tree of (address, change or GoneFolder, was seen), in their order; a chain of folders is one."""
    root = Folder(b"")
    for address, item, is_seen in files:
        *folders, name = item.path.split(b"/")
        chain = [root]
        for part in folders:
            last = chain[-1].entries[-1] if chain[-1].entries else None
            if not (isinstance(last, Folder) and last.name == part):
                last = Folder(part)
                chain[-1].entries.append(last)
            chain.append(last)
        count = len(item.rows) if isinstance(item, GoneFolder) else 1
        for folder in chain:
            folder.files += count
            folder.additions += item.additions or 0
            folder.deletions += item.deletions or 0
            folder.seen += count if is_seen else 0
        chain[-1].entries.append((address, name, item, is_seen))
    _join_chains(root)
    return root


def _join_chains(folder: Folder):
    for at, entry in enumerate(folder.entries):
        while isinstance(entry, Folder) and len(entry.entries) == 1 and isinstance(entry.entries[0], Folder):
            only = entry.entries[0]
            only.name = entry.name + b"/" + only.name
            folder.entries[at] = entry = only
        if isinstance(entry, Folder):
            _join_chains(entry)
