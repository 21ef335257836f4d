"""Files and folders of one point of a workspace as a zip, written while it is read.

Names in it are relative, valid text and unique. A symlink is kept as a link if it leads to something in the zip's own
folder; other links, sockets, devices and what cannot be read are left out, and a file at its end names them.
"""

import posixpath
import stat
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dashboard.door.entering import is_agent
from dashboard.problems import Problem, invalid, not_found
from workspaces.changes import downloads, guarded, history
from workspaces.store import StoreError

MAX_ENTRIES = 50_000
MAX_PATHS = 500  # chosen files and folders
LEFT_OUT = "handrail-left-out.txt"
FIRST_YEAR, LAST_YEAR = 1980, 2107  # that a zip can hold


class _Files:
    """The files of one point. Its methods ask no database, so that another thread can read them."""

    def __init__(self, workspace, at, store=None, tree: str = ""):
        self.workspace, self.at, self.store, self.tree = workspace, at, store, tree

    @classmethod
    def of(cls, workspace, at) -> "_Files":
        if at == history.LIVE:
            return cls(workspace, at)
        return cls(workspace, at, history.store_of(workspace), history.tree_at(workspace, at))

    def hidden(self) -> Callable[[bytes], bool]:
        """Return a function that tells which paths are left out for this reader."""
        store, tree = self.store, self.tree
        if self.at == history.LIVE and is_agent():
            store, tree = history.store_of(self.workspace), history.tree_at(self.workspace, self.at)
        return guarded.hidden_from_reader(store, tree)

    def listing(self, path: bytes) -> list:
        if self.at == history.LIVE:
            return history.listing(self.workspace, self.at, path) or []
        return [history.item_of(entry) for entry in self.store.ls(self.tree, path)]

    def stream(self, path: bytes) -> Iterator[bytes]:
        if self.at == history.LIVE:
            return history.stream_file(self.workspace, self.at, path)
        return self.store.stream(self.tree, path)


@dataclass
class _Zip:
    files: _Files
    is_hidden: Callable[[bytes], bool]  # whether a path is not for the reader
    base: bytes  # the folder that names are relative to
    archive: zipfile.ZipFile
    names: set = field(default_factory=set)
    left_out: list = field(default_factory=list)  # "NAME: why"


def of_folder(workspace, at, folder: bytes) -> Iterator[bytes]:
    """Return the bytes of a zip of a folder's contents. Problem 404, 409 for what is no folder."""
    items = history.listing(workspace, at, folder)
    if items is None:
        raise invalid("Only a folder can be downloaded as a zip; name files with path.")
    entries = [(posixpath.join(folder, item.name), item) for item in items]
    return _stream(_Files.of(workspace, at), folder, entries)


def of_tree(store, tree: str, came_from: list[bytes]) -> Iterator[bytes]:
    """Return the bytes of a zip of a whole tree of the store, whose entries had these paths in their workspace."""
    entries = [(entry.name, history.item_of(entry)) for entry in store.ls(tree)]
    outer = {path.rpartition(b"/")[2]: path.rpartition(b"/")[0] for path in came_from}
    is_hidden = guarded.hidden_from_reader()

    def was_hidden(path: bytes) -> bool:
        return is_hidden(posixpath.join(outer.get(path.split(b"/")[0], b""), path))

    return _stream(_Files(None, None, store, tree), b"", entries, was_hidden)


def of_paths(workspace, at, folder: bytes, paths: list[bytes]) -> Iterator[bytes]:
    """Return the bytes of a zip of these files and folders below a folder. Problem 404 if one does not exist, 422."""
    if not 0 < len(paths) <= MAX_PATHS:
        raise invalid(f"Name 1 to {MAX_PATHS} files or folders.")
    chosen = {path.strip(b"/"): None for path in paths}
    listed: dict[bytes, dict] = {}
    for path in chosen:
        parent, _, name = path.rpartition(b"/")
        if not path or not _is_below(path, folder):
            raise invalid("Each path has to lie in the folder.")
        if parent not in listed:
            listed[parent] = {item.name: item for item in history.listing(workspace, at, parent) or ()}
        if name not in listed[parent]:
            raise not_found("file")
        chosen[path] = listed[parent][name]
    outermost = {path: item for path, item in chosen.items() if not any(_is_inside(path, other) for other in chosen)}
    return _stream(_Files.of(workspace, at), folder, list(outermost.items()))


def file_name(workspace, at, folder: bytes) -> str:
    """Return what a browser saves the zip as: workspace, point and folder."""
    name = "-".join(filter(None, [workspace.key, str(at), _text(folder.rpartition(b"/")[2])]))
    return f"{name}.zip"


def _is_below(path: bytes, folder: bytes) -> bool:
    return (not folder or path.startswith(folder + b"/")) and b".." not in path.split(b"/") and b"\0" not in path


def _is_inside(path: bytes, other: bytes) -> bool:
    return path != other and path.startswith(other + b"/")


def _stream(files: _Files, base: bytes, entries: list, is_hidden=None) -> Iterator[bytes]:
    is_hidden = is_hidden or files.hidden()  # here: the other thread does not know the reader

    def write(out):
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
            made = _Zip(files, is_hidden, base, archive)
            _add_all(made, entries)
            if made.left_out:
                archive.writestr(LEFT_OUT, "Not in this zip:\n" + "".join(f"{line}\n" for line in made.left_out))

    return downloads.piped(write)


def _add_all(made: _Zip, entries: list):
    waiting = sorted(entries, reverse=True, key=lambda entry: entry[0])
    while waiting:
        path, item = waiting.pop()
        if len(made.names) >= MAX_ENTRIES:
            made.left_out.append(f"everything from {_text(path)} on: a zip has at most {MAX_ENTRIES:,} entries")
            return
        if made.is_hidden(path):
            made.left_out.append(f"{_text(path)}: {guarded.WORDS}")
        elif item.type == "folder":
            waiting += _open_folder(made, path, item)
        elif item.type == "file":
            _add_file(made, path, item)
        elif item.type == "symlink":
            _add_link(made, path, item)
        else:
            made.left_out.append(f"{_text(path)}: a {item.type}")


def _open_folder(made: _Zip, path: bytes, item) -> list:
    """Add a folder and return its entries, the last name first."""
    try:
        found = made.files.listing(path)
    except (Problem, StoreError) as error:
        made.left_out.append(f"{_text(path)}: {error}")
        return []
    made.archive.writestr(_info(made, path, item, stat.S_IFDIR, "/"), b"")
    children = [(posixpath.join(path, child.name), child) for child in found]
    return sorted(children, reverse=True, key=lambda entry: entry[0])


def _add_file(made: _Zip, path: bytes, item):
    try:
        pieces = made.files.stream(path)
    except (Problem, StoreError) as error:
        made.left_out.append(f"{_text(path)}: {error}")
        return
    info = _info(made, path, item, stat.S_IFREG)
    with made.archive.open(info, "w", force_zip64=item.size > 2**31) as entry:
        for piece in pieces:
            entry.write(piece)


def _add_link(made: _Zip, path: bytes, item):
    """Add a relative link whose target lies below the zip's folder."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), item.target))
    if item.target.startswith(b"/") or target.startswith(b"..") or not _is_below(target, made.base):
        made.left_out.append(f"{_text(path)}: a symbolic link to {_text(item.target)}, outside of this folder")
        return
    made.archive.writestr(_info(made, path, item, stat.S_IFLNK), item.target)


def _info(made: _Zip, path: bytes, item, kind: int, end: str = "") -> zipfile.ZipInfo:
    name = _name(made, path)
    made.names.add(name)
    moment = time.gmtime(min(max(item.mtime, 0), 2**32))
    date = moment[:6] if FIRST_YEAR <= moment.tm_year <= LAST_YEAR else (FIRST_YEAR, 1, 1, 0, 0, 0)
    info = zipfile.ZipInfo(name + end, date)
    info.create_system = 3  # Unix: the mode is in external_attr
    info.external_attr = (kind | (0o777 if kind == stat.S_IFLNK else item.mode & 0o777)) << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def _name(made: _Zip, path: bytes) -> str:
    """Return a name of an entry that no program takes for another place, and that no other entry has."""
    inside = path[len(made.base) + 1 if made.base else 0 :]
    name = _text(inside).replace("\\", "_")
    while name in made.names or name == LEFT_OUT:
        name += "_"
    return name


def _text(path: bytes) -> str:
    """Return a path as text: bytes that are not UTF-8, and what is not printable, as escapes without a backslash."""
    text = path.decode("utf-8", "surrogateescape")
    return "".join(each if each.isprintable() else f"%{ord(each) & 0xFFFF:02X}" for each in text)
