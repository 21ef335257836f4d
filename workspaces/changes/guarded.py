"""What an agent gets of a workspace's files over the API, by the two lists of the envelope.

Secret paths are never handed to an agent. What an agent's change would do to a secret or protected path needs a person.
Whoever reads the files of a workspace asks here; that the reader is an agent is known from the door.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterator

from dashboard.door.entering import is_agent
from dashboard.problems import Problem
from workspaces.envelope.path_kinds import is_protected_path, is_secret_path, of_a_repository
from workspaces.envelope.tree_scan import BARE
from workspaces.store import Store
from workspaces.store.objects import FOLDER, Entry

CODE = "secret_path"  # of the Problem
NOTES = b".handrail/notes.md"  # which agents write as they work
WORDS = "holds secrets, which agents don't get"


def refuse_secret(path: bytes):
    """Problem 403 (code secret_path) if an agent asks for what a secret path holds."""
    if is_agent() and is_secret_path(path):
        raise Problem(403, f"{os.fsdecode(path).encode('utf-8', 'replace').decode()} {WORDS}.", code=CODE)


def refuse_secrets_in(store: Store, tree: str):
    """Problem 403 (code secret_path) if an agent asks for all of a tree that has a secret path."""
    if is_agent() and any_in(store, tree, b"", is_secret_path):
        raise Problem(403, f"A file in it {WORDS}. A zip of the files leaves it out.", code=CODE)


def refuse_linked(store: Store, tree: str, path: bytes):
    """Problem 403 (code secret_path) if an agent asks for a file, or a folder with one, that is a secret file as well.

    Two hard links are one file.
    """
    inside = path.strip(b"/")
    for linked in linked_to_secrets(store, tree) if is_agent() else ():
        if linked == inside or linked.startswith(inside + b"/"):
            raise Problem(403, f"{os.fsdecode(linked).encode('utf-8', 'replace').decode()} {WORDS}.", code=CODE)


def hidden_from_reader(store: Store | None = None, *trees: str) -> Callable[[bytes], bool]:
    """Return a function that tells which paths are left out for this reader; other threads may call it."""
    if not is_agent():
        return lambda path: False
    linked = {path for tree in trees for path in linked_to_secrets(store, tree)}
    return lambda path: is_secret_path(path) or path in linked


def secrets_in(store: Store, tree: str) -> set[bytes]:
    """Return the secret paths of a tree, and those of files that have a secret path too."""
    named = {path for path, _ in _descendants(store, tree, b"") if is_secret_path(path)}
    return named | linked_to_secrets(store, tree)


def linked_to_secrets(store: Store, tree: str) -> set[bytes]:
    """Return the paths of files that have a secret path too, as another hard link."""
    groups = defaultdict(list)
    for path, entry in _descendants(store, tree, b""):
        if entry.link:
            groups[entry.link].append(path)
    return {path for paths in groups.values() if any(map(is_secret_path, paths)) for path in paths}


def needs_a_person(path: bytes) -> bool:
    """Return whether an agent's change of this path needs a person, as far as its names tell."""
    return path != NOTES and (is_protected_path(path) or is_secret_path(path))


def is_in_bare_repository(path: bytes, names_in: Callable[[bytes], set[bytes]]) -> bool:
    """Return whether git would obey the file since its folder is a bare repository, or becomes one by it."""
    bare = {name.encode() for name in BARE}
    for folder, name in of_a_repository(path):
        if bare <= names_in(folder) | {name.encode("utf-8", "surrogateescape")}:
            return True
    return False


def any_in(store: Store, tree: str, folder: bytes, wanted: Callable[[bytes], bool]) -> bool:
    """Return whether a path below a folder of a tree is wanted."""
    return any(wanted(path) for path, _ in _descendants(store, tree, folder))


def _descendants(store: Store, tree: str, folder: bytes) -> Iterator[tuple[bytes, Entry]]:
    waiting = [folder]
    while waiting:
        outer = waiting.pop()
        for entry in store.ls(tree, outer):
            path = outer + b"/" + entry.name if outer else entry.name
            yield path, entry
            if entry.kind == FOLDER:
                waiting.append(path)
