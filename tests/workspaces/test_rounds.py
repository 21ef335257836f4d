"""Round after round of edits, pause and resume: every byte that went to sleep wakes again.

HANDRAIL_TEST_ROUNDS says how many rounds (2), HANDRAIL_TEST_TREE names a folder to begin with instead of a small tree.
"""

import hashlib
import os
import random
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.workspaces.drivers.runs import IMAGES, why_not
from tests.workspaces.store.compare_trees import describe
from tests.workspaces.test_life import tree_of

ROUNDS = max(2, int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2")))
EDITS = 100
KEPT = 20  # trees of earlier rounds that are remembered
LARGEST = 50  # entries of a folder that an edit may remove, so that a large tree stays one


pytestmark = [] if ROUNDS == 2 else [pytest.mark.timeout(0)]  # a long run takes as long as it takes


@pytest.fixture(params=["sandbox", "docker"])
def begun(desk, request, require, tmp_path) -> tuple[str, Path]:
    """A workspace with a tree to edit: (key, the folder of its tree)."""
    if request.param == "docker" and (why := why_not("docker", with_image=True)):
        require("docker", why)
    wish = {"image": IMAGES["docker"]} if request.param == "docker" else {}
    key = desk.create(driver=request.param, labels={"for": "rounds"}, **wish)["key"]
    desk.call("PUT", f"/workspaces/{key}/files/mark-{key}", b"", 201)
    tree = tree_of(desk.product, f"mark-{key}")
    source = os.environ.get("HANDRAIL_TEST_TREE")
    if source is None:
        source = tmp_path / "small"
        for folder in range(20):
            (source / f"d{folder}/below").mkdir(parents=True)
            for number in range(12):
                (source / f"d{folder}/below/{number}.txt").write_text(f"{folder} {number}\n" * (number + 1))
    owner = os.stat(tree).st_uid
    subprocess.run(["cp", "-a", f"{source}/.", tree], check=True)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-hR", f"{owner}:{owner}", tree], check=True)
    yield key, tree
    for made in (key, f"{key}-fork"):
        desk.call("DELETE", f"/workspaces/{made}", expect=None)


def test_a_sleeping_workspace_wakes_as_it_was(desk, begun):
    key, tree = begun
    seed = int(os.environ.get("HANDRAIL_TEST_SEED") or time.time_ns() % 10**6)
    chance, was, after, took = random.Random(seed), {}, {}, {"pause": [], "resume": [], "round": []}
    for number in range(ROUNDS):
        begin = time.monotonic()
        edit(tree, chance)
        before = digests(tree, after)
        with timed(took["pause"]):
            desk.post(f"/workspaces/{key}/pause", expect=202)
            slept = rested(desk, key)
        assert slept["state"] == "paused"
        was[slept["head_snapshot"]] = before
        with timed(took["resume"]):
            desk.post(f"/workspaces/{key}/resume", expect=202)
            woken = rested(desk, key)
        assert (woken["state"], woken["proof"]["differ"]) == ("ready", 0), f"seed {seed}, round {number}: {woken}"
        after.clear()
        assert differing(before, digests(tree, read=after)) == [], (
            f"seed {seed}, round {number}: not what went to sleep"
        )
        took["round"].append(time.monotonic() - begin)
        if number % 10 == 9:
            print(f"{number + 1} rounds, {took['round'][-1]:.1f} s the last one", flush=True)
        if len(was) > KEPT:  # in a long run a sample, or there is no room for them
            del was[chance.choice(sorted(was))]
    # Any round can be gone back to, and forked.
    back = chance.choice(sorted(was))
    desk.post(f"/workspaces/{key}/snapshots/{back}/restore", expect=202)
    rested(desk, key)
    assert differing(was[back], digests(tree)) == [], f"seed {seed}: snapshot {back} came back different"
    fork = desk.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork", "snapshot": back}).json["key"]
    assert rested(desk, fork)["state"] == "ready"
    desk.call("PUT", f"/workspaces/{fork}/files/fork-{key}", b"", 201)
    forked = tree_of(desk.product, f"fork-{key}")
    (forked / f"fork-{key}").unlink()
    assert differing(without_owners(was[back]), without_owners(digests(forked))) == [], f"seed {seed}: fork differs"
    print(f"seed {seed}: {ROUNDS} rounds of {EDITS} edits on {len(was[back][0]):,} entries; ", end="")
    words = [f"{name} {sorted(all_)[len(all_) // 2]:.2f} s (longest {max(all_):.2f} s)" for name, all_ in took.items()]
    print(", ".join(words), flush=True)
    shutil.rmtree(forked, ignore_errors=True)


@contextmanager
def timed(seconds: list):
    begin = time.monotonic()
    yield
    seconds.append(time.monotonic() - begin)


def rested(desk, key) -> dict:
    """The workspace once nothing is in flight: with a large tree on a busy machine that takes minutes."""
    while (found := desk.get(f"/workspaces/{key}?wait=5").json)["busy"] is not None:
        pass
    return found


def digests(tree, known=None, *, read=None) -> tuple:
    """The tree as the independent comparer describes it, with digests for contents; its root's time is nobody's.

    Every byte is read, but for files that have not been touched since they were read into `read` and given as `known`:
    a digest of those that should be wrong makes a false alarm, and hides nothing.
    """

    def content(file):
        found = os.fstat(file.fileno())
        which = found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
        digest = (known or {}).get(which) or hashlib.sha256(file.read()).digest()
        if read is not None:
            read[which] = digest
        return digest

    entries, links = describe(tree, without=(b".handrail",), content=content)
    entries[b""].pop("mtime")
    return entries, links


def differing(old, new) -> list:
    """(path, what of it, before, after) of whatever is not the same."""
    found = []
    for path in sorted(old[0].keys() | new[0].keys()):
        was, now = old[0].get(path, {}), new[0].get(path, {})
        found += [(path, name, was.get(name), now.get(name)) for name in was | now if was.get(name) != now.get(name)]
    return found + [("hard links", *sorted(map(sorted, group))) for group in [old[1] ^ new[1]] if group]


def without_owners(described) -> tuple:
    entries, links = described
    return {path: {k: v for k, v in told.items() if k != "owner"} for path, told in entries.items()}, links


def edit(tree: Path, chance: random.Random):
    """A hundred edits of any kind, by whoever owns the tree."""
    files, folders = [], [tree]
    for at, below, names in os.walk(tree):
        if ".handrail" in below:  # a driver's, not one of the files
            below.remove(".handrail")
        folders += [Path(at, name) for name in below if not os.path.islink(Path(at, name))]
        files += [Path(at, name) for name in names]
    owner, made = os.stat(tree).st_uid, 0
    while made < EDITS:
        file, name = chance.choice(files), chance.choice(folders) / f"n{chance.randrange(10**12)}"
        if not (os.path.lexists(file) and name.parent.is_dir()):
            continue
        made += edit_one(tree, file, name, chance, files, folders)
        if os.path.lexists(name):
            os.lchown(name, owner, owner)  # whoever works in it makes files of its own


def edit_one(tree: Path, file: Path, name: Path, chance: random.Random, files: list, folders: list) -> bool:
    """One edit, of a file or making something of this name; whether there was one."""
    kind = chance.choice(["write", "same", "append", "delete", "rename", "mode", "link", "hard", "folder", "drop"])
    if kind in ("same", "append", "mode", "hard") and (file.is_symlink() or not file.is_file()):
        return False
    if kind == "write":
        name.write_bytes(chance.randbytes(chance.randrange(5000)))
        files.append(name)
    elif kind == "same":  # as long as before, and with its time put back
        info = file.stat()
        file.write_bytes(chance.randbytes(info.st_size))
        os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
    elif kind == "append":
        with open(file, "ab") as opened:
            opened.write(chance.randbytes(100))
    elif kind == "delete":
        file.unlink()
    elif kind == "rename":
        file.rename(name)
        files.append(name)
    elif kind == "mode":
        modes = [mode for mode in (0o600, 0o644, 0o755, 0o444) if mode != file.stat().st_mode & 0o7777]
        file.chmod(chance.choice(modes))
    elif kind == "link":
        name.symlink_to(chance.choice(["nowhere", "../..", "."]))
    elif kind == "hard":
        os.link(file, name)
        files.append(name)
    elif kind == "folder":
        name.mkdir()
        folders.append(name)
    elif chance.random() < 0.1 and file.parent != tree and entries_in(file.parent) <= LARGEST:
        shutil.rmtree(file.parent)
    else:
        return False
    return True


def entries_in(folder: Path) -> int:
    return sum(len(below) + len(names) for _, below, names in os.walk(folder))
