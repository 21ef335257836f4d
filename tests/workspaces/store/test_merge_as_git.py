"""Merges of random trees are those of git: the same tree, or a conflict in both, with the same marks in the texts."""

import random
import re
import subprocess

import pytest

from tests.workspaces.store.test_merge import Trees
from workspaces.store.merge import TEXT, merge

CASES = 100
NAMES = ("a.txt", "b.py", "c", "d/e.txt", "d/f/g.c", "h/i", "j/k/l.md", "m")
# Without the rename of whole folders, which needs a history to be right as often as not.
GIT = ["git", "-c", "merge.directoryRenames=false", "-c", "core.quotePath=false"]


class Author:
    """Makes a tree, and changes it as people do."""

    def __init__(self, seed: int, renames: bool):
        self.random, self.renames, self.count = random.Random(seed), renames, 0

    def line(self) -> bytes:
        self.count += 1
        return b"%d %x\n" % (self.count, self.random.getrandbits(40))

    def text(self) -> bytes:
        return b"".join(self.line() for _ in range(self.random.randint(12, 30)))

    def tree(self) -> dict:
        files = {name: self.text() for name in self.random.sample(NAMES, 6)}
        return files | {"bin": b"\0" + self.text(), "link": "c", "tool": (self.text(), 0o755)}

    def change(self, files: dict) -> dict:
        files = dict(files)
        for _ in range(self.random.randint(1, 4)):
            path = self.random.choice(sorted(files))
            does = [self.edit, self.edit, self.edit, self.remove, self.add, self.mode, self.link, self.folder]
            self.random.choice(does + [self.rename] * 4 * self.renames)(files, path)
        return files

    def edit(self, files: dict, path: str):
        if isinstance(files[path], str):
            return
        data, *mode = files[path] if isinstance(files[path], tuple) else (files[path],)
        lines = data.splitlines(keepends=True)
        at = self.random.randrange(len(lines)) if lines else 0
        how = self.random.choice(["change", "insert", "delete", "end"])
        lines[at : at + (how in ("change", "delete"))] = [] if how == "delete" else [self.line()]
        data = b"".join(lines)
        files[path] = (data[:-1] if how == "end" else data, *mode) if mode else data[:-1] if how == "end" else data

    def remove(self, files: dict, path: str):
        del files[path]
        files.setdefault("last", b"last\n")

    def add(self, files: dict, path: str):
        files[self.random.choice(["new.txt", "d/new", f"n{self.count}"])] = self.text()

    def mode(self, files: dict, path: str):
        if isinstance(files[path], bytes):
            files[path] = (files[path], 0o755)

    def link(self, files: dict, path: str):
        files[path] = self.random.choice("xyz")

    def folder(self, files: dict, path: str):
        files[f"{path}/in"] = files.pop(path)

    def rename(self, files: dict, path: str):
        files[self.random.choice([f"to{self.random.randrange(4)}", "d/moved", f"r/{path}"])] = files.pop(path)
        if self.random.random() < 0.5:
            self.edit(files, self.random.choice(sorted(files)))


def fits(files: dict) -> bool:
    """Return whether no file has the name of a folder."""
    return not any(other.startswith(f"{path}/") for path in files for other in files)


def cases(renames: bool) -> list[tuple[dict, dict, dict]]:
    found, seed = [], 0
    while len(found) < CASES:
        author = Author(seed, renames)
        base = author.tree()
        three = (base, author.change(base), author.change(base))
        found += [three] if all(map(fits, three)) else []
        seed += 1
    return found


def imported(three: tuple[dict, dict, dict], number: int):
    """Yield the lines of `git fast-import` for a commit and two others on it."""
    for side, (name, files) in enumerate(zip(("base", "here", "coming"), three, strict=True)):
        yield b"commit refs/heads/%s%d\nmark :%d\n" % (name.encode(), number, 3 * number + side + 1)
        yield b"committer x <x> 0 +0000\ndata 0\n"
        yield b"from :%d\n" % (3 * number + 1) if side else b""
        yield b"deleteall\n"
        for path, what in files.items():
            data, mode = what if isinstance(what, tuple) else (what, 0o644)
            mode, data = (b"120000", data.encode()) if isinstance(data, str) else (b"100%o" % mode, data)
            yield b"M %s inline %s\ndata %d\n%s\n" % (mode, path.encode(), len(data), data)


class Repository:
    """A bare repository with the cases as commits."""

    def __init__(self, folder, found: list[tuple]):
        self.folder = folder
        self.git("init", "-q", "--bare", folder, at=None)
        stream = b"".join(part for number, three in enumerate(found) for part in imported(three, number))
        self.git("fast-import", "--quiet", given=stream)

    def git(self, *args, at="", given=b"", check=True):
        at = [] if at is None else ["-C", str(self.folder)]
        return subprocess.run([*GIT, *at, *map(str, args)], input=given, capture_output=True, check=check)

    def merge(self, number: int) -> tuple[bool, dict]:
        """Return whether there was no conflict, and the merged tree as `Trees.get` does."""
        args = ("merge-tree", "--write-tree", "--no-messages", "-z", f"here{number}", f"coming{number}")
        done = self.git(*args, check=False)
        assert done.returncode in (0, 1), done.stderr
        tree = done.stdout.split(b"\0")[0].decode()
        listed = [line.split(b"\t") for line in self.git("ls-tree", "-r", "-z", tree).stdout.split(b"\0")[:-1]]
        asked = b"".join(about.split()[2] + b"\n" for about, _ in listed)
        answered = self.git("cat-file", "--batch", given=asked).stdout
        files = {}
        for about, path in listed:
            head, _, answered = answered.partition(b"\n")
            size = int(head.split()[2])
            data, answered = answered[:size], answered[size + 1 :]
            modes = {b"100755": (data, 0o755), b"120000": data.decode("utf-8", "replace")}
            files[path.decode()] = modes.get(about.split()[0], data)
        return done.returncode == 0, files


def unnamed(data) -> bytes:
    """Return a text whose markers name no side."""
    text = data[0] if isinstance(data, tuple) else data
    return re.sub(rb"(?m)^(<<<<<<<|>>>>>>>) .*$", rb"\1", text)


@pytest.mark.parametrize("renames", [False, True])
def test_random_trees_are_merged_as_git_merges_them(store, tmp_path, renames):
    found = cases(renames)
    trees, repository = Trees(store, tmp_path), Repository(tmp_path / "bare", found)
    ids = trees.put(*(files for three in found for files in three))
    clean = 0
    for number, three in enumerate(found):
        done = merge(store, *ids[3 * number : 3 * number + 3], hold=0)
        is_clean, files = repository.merge(number)
        told = f"case {number}: {three}"
        assert (not done.conflicts) == is_clean, told
        merged = trees.get(done.tree)
        if is_clean:
            assert merged == files, told
            clean += 1
        for conflict in done.conflicts:
            path = conflict.path.decode()
            if conflict.why == TEXT and {each.why for each in done.conflicts} == {TEXT}:
                assert unnamed(merged[path]) == unnamed(files[path]), told
    assert 20 < clean < 80
