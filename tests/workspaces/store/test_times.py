"""Times, sizes and owners at the ends of what file systems hold are kept and given back by every path."""

import errno
import io
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest

from tests.workspaces.store.guests import Guest
from workspaces.changes.history import item_of
from workspaces.store import LocalTree, StoreError, import_archive
from workspaces.store.errors import path_of
from workspaces.store.file_reader import Reader
from workspaces.store.folded import fold, turns, unfold
from workspaces.store.guest.protocol import STAT, TIMES, Stat
from workspaces.store.objects import MOST_BYTES

SECOND = 10**9
EXT4 = (-(2**31) * SECOND, 15032385535 * SECOND + 999_999_999)  # 1901-12-13, 2446-05-10
XFS = (-(2**31) * SECOND, 16299260424 * SECOND + 709_551_615)  # its end: 2486-07-02
ENDS = {
    "first of ext4": EXT4[0],
    "before 1970": -1,
    "1970": 0,
    "1970 and a bit": 1,
    "last of 32 bits": 2**31 * SECOND - 1,
    "last of 64 bits": 2**63 - 1,
    "after the last of 64 bits": 2**63,
    "2300": 10413792000 * SECOND + 1,
    "last of ext4": EXT4[1],
}
FAR = {
    "last of XFS": XFS[1],
    "year 30000": 884541340800 * SECOND + 7,
    "before 1677": -(2**63) - 1,
    "year -5000": -220_000_000_000 * SECOND - 3,
}


@pytest.fixture
def far():
    """A folder on a file system that holds 64 bits of seconds."""
    try:
        folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
    except OSError:
        pytest.skip("there is no /dev/shm")
    try:
        probe = folder / "probe"
        probe.touch()
        os.utime(probe, ns=(FAR["year 30000"],) * 2)
        if probe.stat().st_mtime_ns != FAR["year 30000"]:
            pytest.skip("/dev/shm does not hold far years")
        probe.unlink()
        yield folder
    finally:
        shutil.rmtree(folder)


def fill(root: Path, times: dict) -> dict:
    """Make a file, a folder, a symlink and a FIFO of each time; return the times that the file system gave them."""
    for name in times:
        (root / f"folder {name}").mkdir()
        (root / f"file {name}").write_text(name)
        (root / f"link {name}").symlink_to("nowhere")
        os.mkfifo(root / f"pipe {name}")
    for name, ns in times.items():
        for kind in ("folder", "file", "link", "pipe"):
            os.utime(root / f"{kind} {name}", ns=(ns, ns), follow_symlinks=False)
    return times_of(root)


def times_of(root: Path) -> dict:
    return {entry.name: entry.lstat().st_mtime_ns for entry in root.iterdir()}


def test_each_end_is_kept_and_given_back(store, tmp_path, tree_of):
    root = tmp_path / "ends"
    root.mkdir()
    noted = fill(root, ENDS)
    taken = store.snapshot(tree_of(root))
    assert {os.fsdecode(entry.name): entry.mtime_ns for entry in store.ls(taken.tree)} == noted
    for entry in list(root.iterdir()):
        os.utime(entry, ns=(5, 5), follow_symlinks=False)
    (root / "file 2300").unlink()
    store.restore(taken.tree, tree_of(root), journal=tmp_path / "journal")
    assert times_of(root) == noted
    assert noted["file 2300"] == ENDS["2300"]


def test_a_guest_and_the_host_give_the_same_id_twice(store, tmp_path, settle):
    root = tmp_path / "ends"
    root.mkdir()
    fill(root, ENDS)
    settle()
    first, again = store.snapshot(LocalTree(root)), store.snapshot(LocalTree(root))
    guest = Guest(root)
    try:
        seen = [store.snapshot(guest.tree()).tree, store.snapshot(guest.tree()).tree]
    finally:
        guest.close()
    assert {first.tree, again.tree, *seen} == {first.tree}


def test_years_that_only_some_file_systems_hold_are_kept_too(store, far, tmp_path):
    noted = fill(far, FAR)
    assert [noted[f"file {name}"] for name in FAR] == list(FAR.values())
    taken = store.snapshot(LocalTree(far))
    (far / "file year 30000").unlink()
    store.restore(taken.tree, LocalTree(far), journal=tmp_path / "journal")
    assert times_of(far) == noted
    assert store.compare(taken.tree, LocalTree(far), full=True).differ == []


def test_an_archive_carries_each_end(store, tmp_path):
    root, back = tmp_path / "ends", tmp_path / "back"
    root.mkdir()
    back.mkdir()
    noted = fill(root, ENDS)
    out = io.BytesIO()
    store.archive(store.snapshot(LocalTree(root)).tree, out)
    out.seek(0)
    import_archive(out, back)
    assert times_of(back) == noted


def test_a_time_that_a_file_system_does_not_hold_is_named_by_a_comparison(store, far, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (far / "late").write_text("x")
    os.utime(far / "late", ns=(FAR["year 30000"],) * 2)
    taken = store.snapshot(LocalTree(far))
    store.restore(taken.tree, LocalTree(root), journal=tmp_path / "journal")
    is_kept = (root / "late").stat().st_mtime_ns == FAR["year 30000"]
    assert (b"late" in store.compare(taken.tree, LocalTree(root), full=True).differ) == (not is_kept)


def test_each_end_has_a_date_in_a_listing(store, far, tmp_path):
    fill(far, ENDS | FAR)
    for entry in store.ls(store.snapshot(LocalTree(far)).tree):
        assert item_of(entry).as_json()["modified_at"][10] == "T"


def test_sizes_that_add_up_beyond_64_bits_are_kept(store, far, tmp_path):
    for name in "abc":
        try:
            with open(far / name, "wb") as file:
                file.truncate(2**63 - 1 - 4096)
        except OSError as error:
            if error.errno != errno.EFBIG:
                raise
            pytest.skip("no file of 8 EiB here")
    taken = store.snapshot(LocalTree(far))
    assert (taken.entries, taken.bytes) == (3, MOST_BYTES)
    (far / "b").unlink()
    store.restore(taken.tree, LocalTree(far), journal=tmp_path / "journal")
    assert (far / "b").stat().st_size == 2**63 - 1 - 4096


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_last_owner_is_kept(store, tmp_path, tree_of):
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_text("x")
    os.chown(root / "file", 2**32 - 2, 2**32 - 2)
    taken = store.snapshot(tree_of(root))
    (root / "file").unlink()
    store.restore(taken.tree, tree_of(root), journal=tmp_path / "journal")
    assert ((root / "file").stat().st_uid, (root / "file").stat().st_gid) == (2**32 - 2, 2**32 - 2)


@pytest.mark.parametrize("ns", [*ENDS.values(), *FAR.values(), *TIMES])
def test_a_time_is_the_same_after_it_was_folded_and_sent(ns):
    assert unfold(fold(ns), turns(ns)) == ns
    stat = Stat(1, 2**63 - 1, ns, 2**63 + 5, 0o100644, 2**32 - 2, 0, 1, 1)
    assert Stat.unpacked(STAT.unpack(stat.pack()))[:3] == stat[:3]
    assert Stat.unpacked(STAT.unpack(stat.pack())).st_dev == 1


def test_an_error_at_one_file_names_it(store, work, monkeypatch):
    def fails(self, at, name, path, found):
        raise OverflowError("too large")

    monkeypatch.setattr(Reader, "_file", fails)
    with pytest.raises(OverflowError) as raised:
        store.snapshot(LocalTree(work))
    assert path_of(raised.value) in (" at 'README.md'", " at 'src/main.py'", " at 'src/deep/data.bin'")


def test_an_archive_with_a_senseless_time_is_refused_by_name(tmp_path):
    for time in ("1e5", "nan", "9" * 40):
        out = io.BytesIO()
        info = tarfile.TarInfo("odd.txt")
        info.pax_headers = {"mtime": time}
        out.write(info.tobuf(tarfile.PAX_FORMAT) + bytes(1024))
        out.seek(0)
        (tmp_path / time[:3]).mkdir()
        with pytest.raises(StoreError, match=r"odd\.txt"):
            import_archive(out, tmp_path / time[:3])
