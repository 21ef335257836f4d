"""A tree leaves as an archive and comes back; an archive from a stranger cannot do harm."""

import gzip
import io
import os
import subprocess
import tarfile

import pytest
import zstandard

from workspaces.store import Limits, LocalTree, StoreError, import_archive
from workspaces.store.unpack import Refused


def archived(store, tree_id):
    out = io.BytesIO()
    store.archive(tree_id, out)
    out.seek(0)
    return out


@pytest.fixture
def rich(work):
    os.setxattr(work / "README.md", "user.note", b"\xff\x00binary")
    os.utime(work / "README.md", ns=(5, 1_234_567_890_123_456_789))
    os.utime(work / "src" / "main.py", ns=(5, -1_500_000_001))
    os.link(work / "README.md", work / "src" / "second name")
    os.mkfifo(work / "pipe", 0o640)
    (work / "empty file").touch()
    with open(work / "sparse", "wb") as file:
        file.truncate(64 << 20)
        file.seek(10 << 20)
        file.write(b"middle" * 1000)
    with open(os.path.join(os.fsencode(work), b"\xff\nname"), "wb") as file:
        file.write(b"x")
    (work / ("n" * 255)).write_text("long")
    (work / "empty").chmod(0o700)
    (work / "large").write_bytes(os.urandom(3 << 20))
    return work


def test_what_leaves_comes_back_as_it_was(store, rich, tmp_path):
    taken = store.snapshot(LocalTree(rich))
    (tmp_path / "back").mkdir()
    done = import_archive(archived(store, taken.tree), tmp_path / "back")
    assert done.entries == taken.entries
    os.chmod(tmp_path / "back", rich.stat().st_mode & 0o7777)
    os.utime(tmp_path / "back", ns=(0, rich.stat().st_mtime_ns))
    assert store.compare(taken.tree, LocalTree(tmp_path / "back"), full=True).differ == []
    assert (tmp_path / "back" / "sparse").stat().st_blocks < 1000


def test_gnu_tar_reads_the_archive(store, rich, tmp_path):
    taken = store.snapshot(LocalTree(rich))
    (tmp_path / "a.tar.zst").write_bytes(archived(store, taken.tree).getvalue())
    (tmp_path / "back").mkdir()
    command = ["tar", "--zstd", "--xattrs", "-xpf", tmp_path / "a.tar.zst", "-C", tmp_path / "back"]
    subprocess.run(command, capture_output=True, check=True)  # it warns of a time before 1970
    os.utime(tmp_path / "back", ns=(0, rich.stat().st_mtime_ns))
    os.chmod(tmp_path / "back", rich.stat().st_mode & 0o7777)
    assert store.compare(taken.tree, LocalTree(tmp_path / "back"), full=True).differ == []


def tar_of(*members, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def member(name, data=b"", type=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = type, link, mode
    return info, data


@pytest.fixture
def fresh(tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "fresh").mkdir()
    return tmp_path / "fresh"


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress], ids=["tar", "gz", "zst"])
def test_each_format_is_taken(fresh, pack):
    data = pack(tar_of(member("a/b", b"content", mode=0o4755), member("./c", b"more")))
    done = import_archive(io.BytesIO(data), fresh)
    assert ((fresh / "a" / "b").read_bytes(), (fresh / "c").read_bytes()) == (b"content", b"more")
    assert (fresh / "a" / "b").stat().st_mode & 0o7777 == 0o755
    assert (done.entries, done.bytes) == (2, 11)


SYM, LNK, DIR = tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
HOSTILE = {
    "steps up": [member("../outside/x", b"x")],
    "steps up inside": [member("a/../../outside/x", b"x")],
    "absolute": [member("/etc/handrail-test", b"x")],
    "link out": [member("l", type=SYM, link="../outside")],
    "link to an absolute place": [member("l", type=SYM, link="/etc/passwd")],
    "link through a link": [
        member("a/b/up", type=SYM, link="../.."),
        member("esc", type=SYM, link="a/b/up/../outside"),
    ],
    "write through a link": [member("d", type=DIR), member("l", type=SYM, link="d"), member("l/x", b"x")],
    "hard link out": [member("h", type=LNK, link="../outside/x")],
    "hard link to a link": [member("l", type=SYM, link="f"), member("h", type=LNK, link="nothing")],
    "character device": [member("dev", type=tarfile.CHRTYPE)],
    "block device": [member("dev", type=tarfile.BLKTYPE)],
    "duplicate": [member("a", b"1"), member("a", b"2")],
    "file, then folder": [member("a", b"1"), member("a", type=DIR)],
    "link, then file": [member("a", type=SYM, link="b"), member("a", b"2")],
    "below a file": [member("a", b"1"), member("a/b", b"2")],
    "differ in case": [member("Readme", b"1"), member("README", b"2")],
    "folders that differ in case": [member("Dir/a", b"1"), member("dir/b", b"2")],
    "too deep": [member("d/" * 2001 + "x", b"1")],
    "long path of links": [
        *(member("/".join("d" * 200 for _ in range(n)), type=DIR) for n in range(1, 12)),
        member("l", type=SYM, link="/".join("d" * 200 for _ in range(11)) + "/../" * 12),
    ],
}


@pytest.mark.parametrize("members", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_archive_is_refused_and_leaves_nothing(fresh, tmp_path, members):
    data = tar_of(member("good", b"good"), *members)
    with pytest.raises(Refused):
        import_archive(io.BytesIO(data), fresh)
    assert (os.listdir(fresh), os.listdir(tmp_path / "outside")) == ([], [])
    assert not os.path.exists("/etc/handrail-test")


def test_bombs_are_stopped_by_their_limits(fresh):
    bomb = zstandard.compress(tar_of(member("zeros", bytes(64 << 20))))
    with pytest.raises(Refused, match="more bytes than is allowed"):
        import_archive(io.BytesIO(bomb), fresh, Limits(bytes=1 << 20))
    many = tar_of(*(member(f"f{number}") for number in range(200)))
    with pytest.raises(Refused, match="more than 100 entries"):
        import_archive(io.BytesIO(many), fresh, Limits(entries=100))
    assert os.listdir(fresh) == []


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gz", "zst"])
def test_a_compressed_archive_that_is_cut_off_is_refused(fresh, pack):
    # Without the two empty blocks at its end, so that what is left could be taken for a shorter archive.
    plain = tar_of(member("a", os.urandom(5120)))[: 512 + 5120]
    whole = pack(plain)
    import_archive(io.BytesIO(whole), fresh)
    (fresh / "a").unlink()
    for missing in (1, 2, 3, 8):
        with pytest.raises(Refused, match="not a whole tar archive"):
            import_archive(io.BytesIO(whole[:-missing]), fresh)
        assert os.listdir(fresh) == []


def test_frames_of_zstd_are_read_one_after_another(fresh):
    data = tar_of(member("a", os.urandom(9000)))
    import_archive(io.BytesIO(zstandard.compress(data[:700]) + zstandard.compress(data[700:])), fresh)
    assert (fresh / "a").stat().st_size == 9000


def test_a_gigantic_header_is_not_read(fresh):
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, (1 << 33) - 1
    with pytest.raises(Refused, match="header of more than a megabyte"):
        import_archive(io.BytesIO(info.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20)), fresh)


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\x1f\x8bnonsense", b"\x28\xb5\x2f\xfdnonsense"])
def test_what_is_no_archive_is_refused(fresh, data):
    with pytest.raises(Refused):
        import_archive(io.BytesIO(data), fresh)


def test_a_cut_archive_leaves_nothing(fresh):
    data = tar_of(member("a", b"1"), member("b", os.urandom(100_000)))
    with pytest.raises(Refused):
        import_archive(io.BytesIO(data[:50_000]), fresh)
    assert os.listdir(fresh) == []


def test_only_an_empty_folder_is_filled(fresh):
    (fresh / "mine").write_text("mine")
    with pytest.raises(StoreError, match="is not empty"):
        import_archive(io.BytesIO(tar_of(member("a", b"1"))), fresh)
    assert os.listdir(fresh) == ["mine"]


def test_entries_can_be_given_to_somebody(fresh):
    import_archive(io.BytesIO(tar_of(member("a/b", b"1"), member("l", type=SYM, link="a"))), fresh, owner=(1234, 1235))
    owners = {path.name: (path.lstat().st_uid, path.lstat().st_gid) for path in fresh.rglob("*")}
    assert owners == {"a": (1234, 1235), "b": (1234, 1235), "l": (1234, 1235)}
