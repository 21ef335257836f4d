"""Round after round of edits, pause and resume: every byte that went to sleep wakes again.

HANDRAIL_TEST_ROUNDS says how many rounds (2), HANDRAIL_TEST_TREE names a folder to begin with instead of a small tree.
"""

import hashlib
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.store.compare_trees import describe
from tests.workspaces.test_life import tree_of

ROUNDS = max(2, int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2")))
EDITS = 100


pytestmark = [] if ROUNDS == 2 else [pytest.mark.timeout(0)]  # a long run takes as long as it takes


@pytest.fixture
def begun(desk, tmp_path) -> tuple[str, Path]:
    """A workspace with a tree to edit: (key, the folder of its tree)."""
    key = desk.create(labels={"for": "rounds"})["key"]
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
    return key, tree


def test_what_sleeps_wakes_as_it_was(desk, begun):
    key, tree = begun
    seed = int(os.environ.get("HANDRAIL_TEST_SEED") or time.time_ns() % 10**6)
    chance, was, seconds = random.Random(seed), {}, []
    for number in range(ROUNDS):
        edit(tree, chance)
        before = digests(tree)
        desk.post(f"/workspaces/{key}/pause", expect=202)
        slept = rested(desk, key)
        assert slept["state"] == "paused"
        was[slept["head_snapshot"]] = before
        assert differing(before, digests(tree)) == [], f"seed {seed}, round {number}: changed while it fell asleep"
        begin = time.monotonic()
        desk.post(f"/workspaces/{key}/resume", expect=202)
        woken = rested(desk, key)
        seconds.append(time.monotonic() - begin)
        assert (woken["state"], woken["proof"]["differ"]) == ("ready", 0), f"seed {seed}, round {number}: {woken}"
        assert differing(before, digests(tree)) == [], f"seed {seed}, round {number}: not what went to sleep"
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
    print(f"resume {sorted(seconds)[len(seconds) // 2]:.2f} s (median), {max(seconds):.2f} s (longest)")
    shutil.rmtree(forked, ignore_errors=True)


def rested(desk, key) -> dict:
    """The workspace once nothing is in flight: with a large tree on a busy machine that takes minutes."""
    while (found := desk.get(f"/workspaces/{key}?wait=5").json)["busy"] is not None:
        pass
    return found


def digests(tree) -> tuple:
    """The tree as the independent comparer describes it, with digests for contents; its root's time is nobody's."""
    entries, links = describe(tree, content=lambda data: hashlib.sha256(data).digest())
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
        folders += [Path(at, name) for name in below if not os.path.islink(Path(at, name))]
        files += [Path(at, name) for name in names]
    fresh, owner = iter(range(10**6)), os.stat(tree).st_uid
    for _ in range(EDITS):
        file = chance.choice(files)
        name = chance.choice(folders) / f"n{chance.randrange(10**9)}-{next(fresh)}"
        if not (os.path.lexists(file) and name.parent.is_dir()):
            continue
        kind = chance.choice(["write", "same", "append", "delete", "rename", "mode", "link", "hard", "folder", "drop"])
        plain = file.is_file() and not file.is_symlink()
        if kind == "write":
            name.write_bytes(chance.randbytes(chance.randrange(5000)))
            files.append(name)
        elif kind == "same" and plain:  # as long as before, and with its time put back
            info = file.stat()
            file.write_bytes(chance.randbytes(info.st_size))
            os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
        elif kind == "append" and plain:
            with open(file, "ab") as opened:
                opened.write(chance.randbytes(100))
        elif kind == "delete":
            file.unlink()
        elif kind == "rename":
            file.rename(name)
            files.append(name)
        elif kind == "mode" and plain:
            file.chmod(chance.choice([0o600, 0o644, 0o755, 0o444]))
        elif kind == "link":
            name.symlink_to(chance.choice(["nowhere", "../..", "."]))
        elif kind == "hard" and plain:
            os.link(file, name)
            files.append(name)
        elif kind == "folder":
            name.mkdir()
            folders.append(name)
        elif kind == "drop" and chance.random() < 0.1:
            shutil.rmtree(file.parent) if file.parent != tree else file.unlink()
        if os.path.lexists(name):
            os.lchown(name, owner, owner)  # whoever works in it makes files of its own
