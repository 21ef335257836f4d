"""The filter of git-lfs's files for workspaces without git-lfs: `clean` and `smudge`, as git calls them.

clean: content in, its pointer out; the content is kept in .git/lfs/objects, where git-lfs looks for it too.
smudge: a pointer in; the content out if it is kept there, else the pointer. With `--from FOLDER`, what that repository
keeps is kept here first. With `--only-look`, clean keeps nothing.
bring FOLDER: all that the repository keeps there is kept here.
Standard library only, Python 3.9; it runs inside of workspaces.
"""

import os
import re
import subprocess
import sys

POINTER_BYTES = 1024
PIECE = 1 << 20
FIRST_LINE = "version https://git-lfs.github.com/spec/v1"
POINTER = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:(?P<oid>[0-9a-f]{64})\nsize (?P<size>[0-9]{1,18})\n?"
)


def pointer(oid, size):
    return f"{FIRST_LINE}\noid sha256:{oid}\nsize {size}\n".encode()


def place_of(git_folder, oid):
    """Return where git-lfs keeps the content below a repository's .git."""
    return os.path.join(git_folder, "lfs", "objects", oid[:2], oid[2:4], oid)


def new_sha256():
    try:
        from _sha2 import sha256  # hashlib would load OpenSSL, which a container's Python does not have
    except ImportError:
        from _sha256 import sha256
    return sha256()


def git_folder():
    asked = ["git", "rev-parse", "--git-common-dir"]
    return subprocess.run(asked, stdout=subprocess.PIPE, check=True).stdout.decode("utf-8", "surrogateescape").strip()


def clean(source, target, keep):
    head = source.read(POINTER_BYTES + 1)
    if not head or POINTER.fullmatch(head):
        target.write(head)
        return
    folder = os.path.join(git_folder(), "lfs", "tmp") if keep else ""
    if keep:
        os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"handrail-{os.getpid()}") if keep else os.devnull
    digest, size, piece = new_sha256(), 0, head
    try:
        with open(path, "wb") as kept:
            while piece:
                digest.update(piece)
                size += len(piece)
                kept.write(piece)
                piece = source.read(PIECE)
        if keep:
            place = place_of(os.path.dirname(os.path.dirname(folder)), digest.hexdigest())
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.replace(path, place)
    except BaseException:
        if keep and os.path.exists(path):
            os.unlink(path)
        raise
    target.write(pointer(digest.hexdigest(), size))


def smudge(source, target, other):
    head = source.read(POINTER_BYTES + 1)
    found = POINTER.fullmatch(head)
    if found:
        place, size = place_of(git_folder(), found["oid"].decode()), int(found["size"])
        if other and not has(place, size):
            take(place_of(other, found["oid"].decode()), place, size)
        if has(place, size):
            with open(place, "rb") as kept:
                copy(kept, target)
            return
    target.write(head)
    copy(source, target)


def has(place, size):
    return os.path.isfile(place) and os.path.getsize(place) == size


def take(other, place, size):
    if has(other, size):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(other, "rb") as kept, open(f"{place}.{os.getpid()}", "wb") as file:
            copy(kept, file)
        os.replace(f"{place}.{os.getpid()}", place)


def bring(other):
    here = git_folder()
    for folder, _, names in os.walk(os.path.join(other, "lfs", "objects")):
        for oid in names:
            size = os.path.getsize(os.path.join(folder, oid))
            if not has(place_of(here, oid), size):
                take(os.path.join(folder, oid), place_of(here, oid), size)


def copy(source, target):
    while piece := source.read(PIECE):
        target.write(piece)


def main(arguments):
    source, target = sys.stdin.buffer, sys.stdout.buffer
    if arguments[:1] == ["clean"]:
        clean(source, target, keep="--only-look" not in arguments)
    elif arguments[:1] == ["smudge"]:
        smudge(source, target, arguments[2] if arguments[1:2] == ["--from"] else "")
    elif arguments[:1] == ["bring"]:
        bring(arguments[1])
    else:
        sys.exit("usage: lfs_filter.py clean [--only-look] | smudge [--from FOLDER] | bring FOLDER")
    target.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
