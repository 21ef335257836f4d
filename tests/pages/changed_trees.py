"""Pairs of file trees that differ in types, names, modes, attributes, newlines and links, and what differs in them."""

import os
import random
import stat
import subprocess
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

NAMES = [b"a", b"b", b"two words", b" edge ", b"new\nline", b"caf\xc3\xa9", b"bad\xff", b'quo"te', b"#n", b"-x"]
NAMES += [b"back\\slash", b"tab\t", b"n" * 250, b"a b => c", b"gate", b"\xe2\x80\xaertl"]
TEXTS = [
    b"",
    b"\n",
    b"a",
    b"a\n",
    b"a\nb\nc",
    b"a\nb\nc\n",
    b"a\r\nb\r\n",
    b"x\n" * 40,
    b"\0\1",
    b"b\0\n",
    b"a\nb\nd\n",
]
TARGETS = [b"elsewhere", b"../up", b"no\xfe"]  # git apply refuses to put a folder where a link leads to itself
MODES = [0o644, 0o755, 0o600, 0o4755, 0o2755, 0o664]

files = st.tuples(st.just("file"), st.sampled_from(TEXTS), st.sampled_from(MODES), st.sampled_from([None, b"1", b"2"]))
links = st.tuples(st.just("link"), st.sampled_from(TARGETS))
others = st.sampled_from([("fifo",), ("socket",)])
leaves = st.one_of(files, files, files, links, others)
trees = st.recursive(
    st.dictionaries(st.sampled_from(NAMES), leaves, max_size=5),
    lambda inner: st.dictionaries(
        st.sampled_from(NAMES),
        st.one_of(leaves, st.tuples(st.just("folder"), inner, st.sampled_from([0o755, 0o755, 0o700, 0o1777]))),
        max_size=5,
    ),
    max_leaves=12,
)

ANY_TREES = settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to make an example smaller takes minutes
    suppress_health_check=list(HealthCheck),
)


def build(root: bytes, tree: dict, git_only: bool = False):
    """Write a tree; `git_only`: only what git has a form for, so without empty folders."""
    os.mkdir(root)
    for name, (kind, *told) in tree.items():
        path = root + b"/" + name
        if kind == "folder":
            build(path, told[0], git_only)
            os.chmod(path, told[1])
            if git_only and not os.listdir(path):
                os.rmdir(path)
        elif kind == "file":
            Path(os.fsdecode(path)).write_bytes(told[0])
            os.chmod(path, told[1])
            if told[2] and not git_only:
                os.setxattr(path, b"user.mark", told[2])
        elif kind == "link":
            os.symlink(told[0], path)
        elif not git_only:
            os.mknod(path, 0o644 | (stat.S_IFIFO if kind == "fifo" else stat.S_IFSOCK))


def flat(tree: dict, prefix: bytes = b"") -> dict:
    """Return {path: what is there}; of a folder its mode, and whether something is in it."""
    found = {}
    for name, (kind, *told) in tree.items():
        path = prefix + name
        if kind == "folder":
            found[path] = ("folder", told[1], bool(told[0]))
            found |= flat(told[0], path + b"/")
        else:
            found[path] = (kind, *told)
    return found


def expected(old: dict, new: dict) -> set[bytes]:
    """Return the paths that differ. A plain folder that comes or goes is named by what is in it."""
    before, after, named = flat(old), flat(new), set()
    for path in before.keys() | after.keys():
        was, now = before.get(path), after.get(path)
        if was and now and was[0] == now[0] == "folder":
            if was[1] != now[1]:
                named.add(path)
        elif was != now:
            only = was or now
            is_plain = None in (was, now) and only[0] == "folder" and only[2] and not only[1] & 0o7000
            if not is_plain:
                named.add(path)
    return named


def numstat(old: Path, new: Path) -> dict[bytes, tuple]:
    """Return {path: (additions, deletions)} as git counts them without a search for renames; None of binary files."""
    command = ["git", "diff", "--no-index", "--numstat", "--no-renames", "-z", old.name, new.name]
    told = subprocess.run(command, cwd=old.parent, stdout=subprocess.PIPE, check=False).stdout.split(b"\0")
    counts = {}
    for head, before, after in zip(told[0::3], told[1::3], told[2::3], strict=False):
        path = (after if after != b"/dev/null" else before).partition(b"/")[2]
        counts[path] = tuple(None if number == b"-" else int(number) for number in head.split(b"\t")[:2])
    return counts


def changed(tree: dict, dice: random.Random) -> dict:
    """Return the tree with some of its entries renamed, replaced by another type, moved into a folder or edited."""
    found = {}
    for name, entry in tree.items():
        act = dice.randrange(8)
        if act == 0:
            found[dice.choice(NAMES)] = entry
        elif act == 1:
            found[name] = ("folder", {dice.choice(NAMES): entry}, 0o755)
        elif act == 2:
            found[name] = ("file", dice.choice(TEXTS), dice.choice(MODES), None)
        elif act == 3 and entry[0] == "file":
            found[name] = (*entry[:2], dice.choice(MODES), dice.choice([None, b"1"]))
        elif act == 4:
            found[name] = ("link", dice.choice(TARGETS))
        elif act != 5:
            found[name] = ("folder", changed(entry[1], dice), entry[2]) if entry[0] == "folder" else entry
    return found


EMPTY_FOLDER = ("folder", {}, 0o755)
SCRIPT = ("file", b"#!/bin/sh\nexit 1\n", 0o755, None)
WITH_KEEP = ("folder", {b".keep": ("file", b"", 0o644, None)}, 0o755)
