"""A patch of a repository's files is the one that git would write: its blobs, its line ends, and so its tree."""

import os
import random
import subprocess

import pytest

from workspaces.changes.comparisons import Changes
from workspaces.store import LocalTree, Store

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]
NAMES = ["a.txt", "b.crlf", "c.auto", "d.bin", "sub/e.txt", "sub/deep/f.crlf", "g x.txt", "ü.auto", "none"]
ATTRIBUTES = [
    "",
    "* text=auto\n",
    "* text=auto eol=crlf\n*.bin binary\n",
    "*.crlf eol=crlf\n*.txt text\n",
    "*.txt text eol=lf\n*.bin -text\n*.auto text=auto ident\n",
    "[attr]plain text eol=crlf\n*.txt plain\nsub/** -text\n",
    '"g x.txt" text\n*.auto !text\nnone crlf=input\n',
]
SUB = ["", "*.txt -text\n", "e.txt text=auto\n/f.crlf text\n", "* !text !eol\n"]
AUTOCRLF = ["false", "input", "true"]


def git(folder, *args, feed=None):
    done = subprocess.run([*GIT, *args], cwd=folder, input=feed, capture_output=True, check=True)
    return done.stdout.decode().strip()


def text_of(pick) -> bytes:
    ends = pick.choice([[b"\n"], [b"\r\n"], [b"\n", b"\r\n"], [b"\r\n", b"\n", b"\r"]])
    lines = [b"line %d" % pick.randrange(9) + pick.choice(ends) for _ in range(pick.randrange(1, 8))]
    more = pick.choice([b"", b"", b"no end", b"\0\1\r\n", b"$Id: 1 $\r\n", b"\x01\x02\x03\x04" * 9])
    return b"".join(lines) + more


def write(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def base_of(folder, pick, algorithm="sha1"):
    """A repository whose commit has any blobs, some of which git would not add so."""
    git(folder.parent, "init", "-q", "-b", "trunk", f"--object-format={algorithm}", folder)
    write(folder, ".gitattributes", pick.choice(ATTRIBUTES).encode())
    write(folder, "sub/.gitattributes", pick.choice(SUB).encode())
    for name in pick.sample(NAMES, 7):
        write(folder, name, text_of(pick))
    git(folder, "add", "-A")
    for name in pick.sample(NAMES, pick.choice([0, 2])):
        blob = git(folder, "hash-object", "-w", "--no-filters", "--stdin", feed=text_of(pick))
        git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    git(folder, "commit", "-qm", "base")
    return folder


def change(folder, pick):
    """Change files, attributes among them."""
    for name in pick.sample(NAMES, 4):
        path = folder / name
        if pick.random() < 0.2 and path.exists():
            path.unlink()
        elif pick.random() < 0.2 and path.exists():
            path.rename(folder / f"moved {pick.choice(['x.txt', 'x.bin', 'x.crlf'])}")
        elif pick.random() < 0.5 and path.exists():
            path.write_bytes(path.read_bytes() + b"more" + pick.choice([b"\n", b"\r\n"]))
        else:
            write(folder, name, text_of(pick))
    if pick.random() < 0.4:
        write(folder, ".gitattributes", pick.choice(ATTRIBUTES).encode())
    if pick.random() < 0.2:
        write(folder, "sub/.gitattributes", pick.choice(SUB).encode())


def clone(source, folder, autocrlf):
    git(source.parent, "clone", "-q", "-c", f"core.autocrlf={autocrlf}", source, folder)
    return folder


def applied(base, folder, autocrlf, patch, *how):
    """Apply a patch in a clone of the base; the tree of its index, or what git said."""
    place = clone(base, folder, autocrlf)
    git(place, "reset", "-q", "--hard")
    done = subprocess.run([*GIT, "apply", *how, "-"], cwd=place, input=patch, capture_output=True)
    if done.returncode:
        return done.stderr.decode()
    if not how:
        git(place, "add", "-A")
    return git(place, "write-tree")


def blobs_of(folder, tree) -> dict[str, str]:
    rows = git(folder, "ls-tree", "-r", "-z", tree).split("\0")
    return dict(reversed(row.split("\t", 1)) for row in rows if row)


def patch_between(store, a, b) -> bytes:
    return b"".join(Changes(store, (a, b)).patch(with_ignored=True))


@pytest.mark.parametrize("seed", range(8))
def test_a_patch_makes_the_tree_of_the_commit(seed, tmp_path):
    pick = random.Random(seed)
    autocrlf = pick.choice(AUTOCRLF)
    base = base_of(tmp_path / "base", pick, pick.choice(["sha1", "sha256"]))
    work = clone(base, tmp_path / "work", autocrlf)
    store = Store.create(tmp_path / "store")
    before = store.snapshot(LocalTree(work)).tree
    change(work, pick)
    unstaged = store.snapshot(LocalTree(work)).tree
    git(work, "add", "-A")
    staged = git(work, "write-tree")
    if pick.random() < 0.5:
        git(work, "add", "--renormalize", ".")
    git(work, "commit", "-q", "--allow-empty", "-m", "work")
    after = store.snapshot(LocalTree(work)).tree
    tree = git(work, "rev-parse", "HEAD^{tree}")
    own = subprocess.run([*GIT, "diff", "--binary", "HEAD~", "HEAD"], cwd=work, capture_output=True, check=True).stdout
    patch = patch_between(store, before, after)
    cached = applied(base, tmp_path / "cached", autocrlf, patch, "--cached")
    assert blobs_of(tmp_path / "cached", cached) == blobs_of(work, tree), (patch, own)
    for number, how in enumerate((["--index"], ["-3"], [])):
        expected = applied(base, tmp_path / f"own{number}", autocrlf, own, *how)
        if len(expected) == len(tree):  # else git's own patch does not apply either: a blob is not as git would add it
            assert applied(base, tmp_path / f"ours{number}", autocrlf, patch, *how) == expected, (how, patch, own)
    early = applied(base, tmp_path / "early", autocrlf, patch_between(store, before, unstaged), "--cached")
    changed = {os.fsdecode(row.path) for row in Changes(store, (before, unstaged)).rows}
    told, kept = (blobs_of(place, tree) for place, tree in ((tmp_path / "early", early), (work, staged)))
    assert {path: told.get(path) for path in changed} == {path: kept.get(path) for path in changed}


@pytest.mark.parametrize("kind", ["clone", "linked worktree"])
def test_a_patch_of_windows_files_is_applied_to_the_index(kind, tmp_path):
    base = tmp_path / "base"
    git(tmp_path, "init", "-q", "-b", "trunk", base)
    write(base, ".gitattributes", b"*.bat eol=crlf\n*.rc text working-tree-encoding=UTF-16LE-BOM eol=crlf\n")
    write(base, "run.bat", b"echo one\r\necho two\r\n")
    write(base, "app.rc", '\ufeff1 ICON "ü"\r\nEND\r\n'.encode("utf-16-le"))
    git(base, "add", ".")
    git(base, "commit", "-qm", "base")
    work = tmp_path / "work"
    if kind == "clone":
        clone(base, work, "false")
    else:
        git(base, "worktree", "add", "-q", "-b", "side", work)
    store = Store.create(tmp_path / "store")
    before = store.snapshot(LocalTree(work)).tree
    write(work, "run.bat", b"echo one\r\necho 2\r\n")
    write(work, "new.bat", b"echo new\r\n")
    write(work, "app.rc", '\ufeff1 ICON "ö"\r\nEND\r\n'.encode("utf-16-le"))
    after = store.snapshot(LocalTree(work)).tree
    git(work, "add", "-A")
    patch = patch_between(store, before, after)
    assert b"\r" not in patch
    assert '+1 ICON "ö"'.encode() in patch
    for number, how in enumerate((["--index"], ["-3"], [])):
        assert applied(base, tmp_path / f"ours{number}", "false", patch, *how) == git(work, "write-tree")
    assert (tmp_path / "ours0" / "run.bat").read_bytes() == b"echo one\r\necho 2\r\n"
