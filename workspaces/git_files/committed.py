"""Turn the files of a tree into what git keeps of them, for patches that name git's own blobs.

A file's line ends are those of its blob once its attributes and `core.autocrlf` are applied, as `git add` does it. The
index tells which of the two forms a file has in its commit, so that a blob that was committed otherwise is met as well.
No filter runs: what git-lfs keeps elsewhere is taken as it is in the files, as is everything if the patterns take too
long.
"""

import re
import struct
import zlib
from contextlib import suppress
from functools import cached_property

from workspaces.git_files import index as git_index
from workspaces.git_files.attributes import Attributes, Value
from workspaces.git_files.objects import MAX_WORK, Objects
from workspaces.git_files.settings import TRUE, settings_of
from workspaces.git_files.work import Work
from workspaces.store import Store, StoreError
from workspaces.store.kept_files import KeptFiles
from workspaces.store.objects import FILE
from workspaces.store.text import Form

SMALL_BYTES = 1 << 20  # of a configuration and of a file of attributes
INDEX_BYTES = 64 << 20
MAX_INDEXED = 500_000
UNREADABLE = (StoreError, OSError, ValueError, IndexError, struct.error, zlib.error, RecursionError)
ATTRIBUTES = frozenset({"text", "crlf", "eol", "ident", "working-tree-encoding"})
SECONDS = 10.0  # for the attributes of a tree, and for its blobs: an agent can write both
_ODD = bytes(byte for byte in range(32) if byte not in b"\b\t\n\r\f\x1b") + b"\x7f"
_IDENT = re.compile(rb"\$Id:[^$\n]*\$")
_ENCODINGS = {"utf-16": "utf-16", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "utf-16le-bom": "utf-16"}


class Committed(Form):
    """The form that git gives the files of two trees of one repository."""

    def __init__(self, store: Store, a: str, b: str):
        self.trees = _Tree(store, a), _Tree(store, b)
        self.algorithm = "sha256" if self.trees[1].settings.get("extensions.objectformat") == "sha256" else "sha1"

    def sides(self, path: bytes, before: bytes | None, after: bytes | None) -> tuple[bytes | None, bytes | None]:
        """Return both contents of a path as git keeps them; None where there is no file."""
        return self._kept(0, path, before), self._kept(1, path, after)

    def alters(self, path: bytes) -> bool:
        return any(tree.rules(path) for tree in self.trees)

    def renewed(self, changed: set[bytes]) -> list[bytes]:
        """Return files that are the same while the index has another blob, as after `git add --renormalize`."""
        old, new = self.trees
        if old.has_index_of(new):
            return []
        indexed = [tree.index for tree in self.trees]
        return sorted(
            path
            for path, sha in indexed[1].items()
            if path not in changed
            and (before := indexed[0].get(path)) is not None
            and before != sha
            and self.alters(path)
            and old.has_file(path)
            and new.has_file(path)
        )

    def _kept(self, which: int, path: bytes, data: bytes | None) -> bytes | None:
        tree = self.trees[which]
        rules = tree.rules(path)
        if not data or not (rules or b"\r\n" in data):
            return data
        clean, sha = _clean(data, rules), tree.index.get(path)
        if sha is None:
            return clean
        known = sha.hex().encode()
        found = next((form for form in (data, clean) if self.name(form) == known), None)
        if found is not None:
            return found
        blob = tree.blob(sha)
        if _without_ends(blob) == _without_ends(data):
            return blob
        # git leaves the line ends of a file as they are if it has such ends in the index, and text is only guessed
        keeps = rules.get("text") == "auto" and b"\r\n" in blob and not _looks_binary(blob)
        return _clean(data, rules | {"text": False}) if keeps else clean


class _Tree:
    """The attributes, settings and index of one tree."""

    def __init__(self, store: Store, tree: str):
        self._store, self._id = store, tree
        self.settings = settings_of(self._read(b".git/config") or b"")
        if self.settings.get("extensions.worktreeconfig") in TRUE:
            self.settings |= settings_of(self._read(b".git/config.worktree") or b"")
        self._attributes = Attributes(self._read, ATTRIBUTES, SECONDS)
        self._work = Work(MAX_WORK, SECONDS)
        self._objects = Objects(KeptFiles(store, tree), self._work)

    @property
    def is_repository(self) -> bool:
        """Whether it has a repository; that of a linked worktree is elsewhere, and then the attributes alone tell."""
        return self._entry(b".git") is not None

    def rules(self, path: bytes) -> dict[str, Value]:
        """Return {text: True or "auto"; ident: True; encoding: name} of a path, without what is not so."""
        said = self._attributes.of(path)
        found = {"text": _text(said, self.settings.get("core.autocrlf", "false")), "ident": said.get("ident") is True}
        found["encoding"] = _ENCODINGS.get(str(said.get("working-tree-encoding")).lower(), False)
        return {name: value for name, value in found.items() if value}

    @cached_property
    def index(self) -> dict[bytes, bytes]:
        """The paths of the index with the names of their blobs; none if it cannot be read."""
        data = self._read(b".git/index", INDEX_BYTES) or b""
        try:
            return {path: entry.sha for path, entry in git_index.entries(data, MAX_INDEXED)}
        except git_index.Unreadable:
            return {}

    def blob(self, sha: bytes) -> bytes:
        """Return a blob's content; b"" if it cannot be read here, or the blobs so far took too much work."""
        with suppress(*UNREADABLE), self._work.running():
            self._work.take()
            return self._objects.read(sha)[1]
        return b""

    def has_index_of(self, other: "_Tree") -> bool:
        """Return whether both indexes are the same file, or one is not there."""
        mine, theirs = (tree._entry(b".git/index") for tree in (self, other))
        return mine is None or theirs is None or mine.content == theirs.content

    def has_file(self, path: bytes) -> bool:
        entry = self._entry(path)
        return entry is not None and entry.kind == FILE and entry.kept

    def _entry(self, path: bytes):
        try:
            return self._store.entry(self._id, path)
        except StoreError:
            return None

    def _read(self, path: bytes, limit: int = SMALL_BYTES) -> bytes | None:
        """Return a regular file's bytes; git follows no symlink to attributes either."""
        entry = self._entry(path)
        if entry is None or entry.kind != FILE or not entry.kept or entry.size > limit:
            return None
        try:
            return self._store.read(self._id, path)
        except StoreError:
            return None


def form_of(store: Store, a: str, b: str) -> Form:
    """Return how a patch between two trees has their files: as git keeps them if both are one repository's."""
    made = Committed(store, a, b)
    return made if all(tree.is_repository for tree in made.trees) else Form()


def _without_ends(data: bytes) -> bytes:
    return _IDENT.sub(b"$Id$", data.replace(b"\r\n", b"\n"))


def _text(said: dict[str, Value], autocrlf: str) -> Value:
    """Return whether git changes the line ends: True, "auto" where it thinks that the content is text, or False."""
    text = next((said[name] for name in ("text", "crlf") if said.get(name) in (True, False, "input", "auto")), None)
    if text is False:
        return False
    if text == "auto":
        return "auto"
    if text is not None or said.get("eol") in ("lf", "crlf"):
        return True
    return "auto" if autocrlf == "input" or autocrlf in TRUE else False


def _clean(data: bytes, rules: dict[str, Value]) -> bytes:
    """Return what git makes of a file's content when it is added."""
    if encoding := rules.get("encoding"):
        try:
            data = data.decode(encoding).encode()
        except UnicodeError:
            return data
    text = rules.get("text")
    if text is True or (text == "auto" and not _looks_binary(data)):
        data = data.replace(b"\r\n", b"\n")
    return _IDENT.sub(b"$Id$", data) if rules.get("ident") else data


def _looks_binary(data: bytes) -> bool:
    """Return what git thinks where attributes say text=auto."""
    ends, returns = data.count(b"\r\n"), data.count(b"\r")
    if b"\0" in data or returns != ends:
        return True
    plain = len(data.translate(None, _ODD))
    odd = len(data) - plain - data.endswith(b"\x1a")
    return (plain - returns - data.count(b"\n")) >> 7 < odd
