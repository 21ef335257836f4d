"""Say of one path in a workspace whether an envelope masks or protects it, as `tree_scan.py` says of a whole tree."""

import os
import posixpath

from .sensitive_names import takes_effect
from .tree_scan import BARE, GIT_PROTECTED, _kind_in_git, is_secret


def parts_of(path: bytes) -> list[str]:
    """Return the names on a path from the workspace's root, in lower case, without `.`, `..` and empty ones."""
    return [name for name in posixpath.normpath("/" + os.fsdecode(path)).lower().split("/") if name]


def is_secret_path(path: bytes) -> bool:
    """Return whether the file or folder, or a folder it is in, holds secrets."""
    outer, parts = "", parts_of(path)
    for at, name in enumerate(parts):
        if outer == ".git" or (name == ".git" and at < len(parts) - 1):
            return False  # what git itself keeps
        if is_secret(outer, name, True) or (at == len(parts) - 1 and is_secret(outer, name, False)):
            return True
        outer = name
    return False


def is_protected_path(path: bytes) -> bool:
    """Return whether the file or folder, or a folder it is in, takes effect by itself."""
    kind, outer, parts = "plain", "", parts_of(path)
    for at, name in enumerate(parts):
        if kind != "plain":
            if name in GIT_PROTECTED and kind != "nest":
                return True
            kind = _kind_in_git(kind, name, bare=False)
            if not kind:
                return False
        elif name == ".git" and at < len(parts) - 1:
            kind = "git"
        elif takes_effect(name, outer):
            return True
        outer = name
    return False


def of_a_repository(path: bytes) -> list[tuple[bytes, str]]:
    """Return (folder, name) of the parts of a path that matter if their folder is, or becomes, a bare repository."""
    names = [name for name in path.split(b"/") if name not in (b"", b".")]
    mine = [(b"/".join(names[:at]), os.fsdecode(name)) for at, name in enumerate(names)]
    known = GIT_PROTECTED | {name.lower() for name in BARE}
    return [(folder, name) for folder, name in mine if name.lower() in known]
