"""An independent comparer: what the system says of two trees, sharing nothing with the engine.

It describes each entry with plain os calls; two trees are the same when their descriptions are.
"""

import os
import stat


def holes(path, size):
    """Return the runs of data of a file as (start, end)."""
    runs, at = [], 0
    with open(path, "rb") as file:
        while at < size:
            try:
                start = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            at = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            runs.append((start, at))
    return runs


def xattrs_of(path):
    try:
        return {
            name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)
        }
    except OSError:
        return {}


def whole(file):
    return file.read()


def describe_one(path, content=whole):
    found = os.lstat(path)
    told = {
        "type": stat.S_IFMT(found.st_mode),
        "mode": stat.S_IMODE(found.st_mode),
        "owner": (found.st_uid, found.st_gid),
        "mtime": found.st_mtime_ns,
        "xattrs": xattrs_of(path),
    }
    if stat.S_ISREG(found.st_mode):
        with open(path, "rb") as file:
            told["content"] = content(file)
        told["holes"] = holes(path, found.st_size) if found.st_blocks * 512 < found.st_size else None
    elif stat.S_ISLNK(found.st_mode):
        told["target"] = os.readlink(path)
    return told


def describe(root, *, without=(), content=whole):
    """Return {path: what the system says}, and the sets of paths that are one file; `content(file)` may shorten it."""
    root = os.fsencode(root)
    entries, inodes = {b"": describe_one(root, content)}, {}
    stack = [b""]
    while stack:
        folder = stack.pop()
        for name in os.listdir(os.path.join(root, folder)):
            path = os.path.join(folder, name) if folder else name
            if path in without:
                continue
            full = os.path.join(root, path)
            entries[path] = describe_one(full, content)
            found = os.lstat(full)
            if stat.S_ISDIR(found.st_mode):
                stack.append(path)
            elif found.st_nlink > 1:
                inodes.setdefault(found.st_ino, set()).add(path)
    return entries, {frozenset(paths) for paths in inodes.values() if len(paths) > 1}


def differing(a, b):
    """Return the paths at which two trees differ, and the groups of hard links that only one of them has."""
    (left, left_links), (right, right_links) = describe(a), describe(b)
    paths = sorted(path for path in left.keys() | right.keys() if left.get(path) != right.get(path))
    return paths, left_links ^ right_links
