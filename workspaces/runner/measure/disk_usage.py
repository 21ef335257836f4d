"""What is on the disk below some folders: the sum, each entry, and the largest ones."""

import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

MAX_DEPTH = 200
LARGEST_TIMEOUT_S = 20.0


def disk_usage(*folders: Path) -> int:
    """Return the bytes on disk of everything below some folders; a file with several hard links counts once."""
    return sum(found.st_blocks * 512 for _, _, found in entries_below(*folders))


def entries_below(*folders: Path) -> Iterator[tuple[int, os.DirEntry, os.stat_result]]:
    """Yield (open folder, entry, its stat) of everything below some folders, down to MAX_DEPTH; follow no link.

    A file with several hard links is yielded once. What is gone meanwhile, or not to be read, is left out.
    """
    seen: set = set()
    for folder in folders:
        yield from _entries_below(os.fsencode(folder), None, 0, seen)


def _entries_below(name: bytes, above: int | None, depth: int, seen: set):
    try:
        fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except OSError:
        return
    try:
        with os.scandir(fd) as entries:
            for entry in entries:
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                is_folder = stat.S_ISDIR(found.st_mode)
                if found.st_nlink > 1 and not is_folder:
                    if (found.st_dev, found.st_ino) in seen:
                        continue
                    seen.add((found.st_dev, found.st_ino))
                yield fd, entry, found
                if is_folder and depth < MAX_DEPTH:
                    yield from _entries_below(os.fsencode(entry.name), fd, depth + 1, seen)
    finally:
        os.close(fd)


def largest(tree, most: int = 20) -> list[tuple[bytes, int]]:
    """Return (path, bytes on disk) of the `most` largest entries down to the second level, largest first.

    A repository's `.git` is one entry: nobody removes single files of it.

    Stops after LARGEST_TIMEOUT_S seconds; entries it did not reach are not counted.
    """
    until, totals = time.monotonic() + LARGEST_TIMEOUT_S, {}
    with tree.files() as files:
        todo = [(b"", 0)]
        while todo and time.monotonic() < until:
            at, depth = todo.pop()
            try:
                entries = list(files.entries(at))
            except OSError:
                continue  # gone meanwhile, or not to be read
            for name, info in entries:
                path = at + b"/" + name if at else name
                parts = path.split(b"/")
                for shown in {parts[0], parts[0] if parts[0] == b".git" else b"/".join(parts[:2])}:
                    totals[shown] = totals.get(shown, 0) + info.st_blocks * 512
                if stat.S_ISDIR(info.st_mode) and depth < MAX_DEPTH:
                    todo.append((path, depth + 1))
    return sorted(totals.items(), key=lambda row: (-row[1], row[0]))[:most]
