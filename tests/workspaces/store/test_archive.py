"""A tree leaves as an archive and comes back; an archive from a stranger cannot do harm."""

import gzip
import io
import os
import subprocess
import tarfile
import zipfile

import pytest
import zstandard

from workspaces.store import Limits, LocalTree, StoreError, import_archive, unpack
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


def test_an_archived_tree_comes_back_as_it_was(store, rich, tmp_path):
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
    "write through a link": [member("d", type=DIR), member("l", type=SYM, link="d"), member("l/x", b"x")],
    "write through a link out": [member("l", type=SYM, link="../outside"), member("l/x", b"x")],
    "write through a link to an absolute place": [member("l", type=SYM, link="/etc"), member("l/handrail-test", b"x")],
    "folder in place of a link out": [member("l", type=SYM, link="../outside"), member("l", type=DIR, mode=0o777)],
    "write through a link by another name": [member("l", type=SYM, link="../outside"), member("./l/./x", b"x")],
    "hard link through a link": [member("l", type=SYM, link="/etc"), member("h", type=LNK, link="l/passwd")],
    "link to nothing": [member("l", type=SYM, link="")],
    "hard link out": [member("h", type=LNK, link="../outside/x")],
    "hard link to a link": [member("l", type=SYM, link="f"), member("h", type=LNK, link="nothing")],
    "character device": [member("dev", type=tarfile.CHRTYPE)],
    "block device": [member("dev", type=tarfile.BLKTYPE)],
    "duplicate": [member("a", b"1"), member("a", b"2")],
    "file, then folder": [member("a", b"1"), member("a", type=DIR)],
    "link, then file": [member("a", type=SYM, link="b"), member("a", b"2")],
    "below a file": [member("a", b"1"), member("a/b", b"2")],
    "too deep": [member("d/" * 2001 + "x", b"1")],
}
LONG = "/".join("d" * 200 for _ in range(11)) + "/../" * 12
LINKS = {
    "out": "../outside",
    "absolute": "/etc/passwd",
    ".venv/bin/python": "/usr/bin/python3",
    ".venv/lib64": "lib",
    "a/b/up": "../..",
    "through another": "a/b/up/../outside",
    "to itself": "to itself",
    "to nothing": "never there",
    "long": LONG,
    "letters": "caf\u00e9",
}


def test_links_are_kept_as_they_are_and_nothing_follows_them(fresh, tmp_path):
    before = os.stat("/etc/passwd")
    links = [member(name, type=SYM, link=link) for name, link in LINKS.items()]
    hard = member("hard", type=LNK, link="absolute")
    import_archive(io.BytesIO(tar_of(*links, hard)), fresh, owner=(os.getuid(), os.getgid()))
    assert {name: os.readlink(fresh / name) for name in LINKS} == LINKS
    assert os.readlink(fresh / "hard") == "/etc/passwd"
    assert os.listdir(tmp_path / "outside") == []
    after = os.stat("/etc/passwd")
    assert (after.st_uid, after.st_mode, after.st_mtime_ns, after.st_nlink) == (
        before.st_uid,
        before.st_mode,
        before.st_mtime_ns,
        before.st_nlink,
    )


@pytest.mark.parametrize(
    "names",
    [
        ("README.md", "readme.md"),
        ("Dir/a", "dir/b"),
        ("caf\u00e9", "cafe\u0301"),
        ("stra\u00dfe", "strasse"),
        ("\ufb01", "fi"),
        ("k", "\u212a"),
    ],
)
def test_names_that_differ_in_case_or_normalization_are_all_there(fresh, names):
    import_archive(io.BytesIO(tar_of(*(member(name, name.encode()) for name in names))), fresh)
    assert [(fresh / name).read_text() for name in names] == list(names)


def test_a_file_system_that_takes_two_names_for_one_is_told_from_others(fresh, monkeypatch):
    monkeypatch.setattr(unpack, "_folds_names", lambda root_fd: True)
    for names, words in ((("A", "a"), "upper and lower case"), (("\u00e9", "e\u0301"), "Unicode normalization")):
        with pytest.raises(Refused, match=words):
            import_archive(io.BytesIO(tar_of(*(member(name, b"x") for name in names))), fresh)
        assert os.listdir(fresh) == []


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


def test_another_kind_of_archive_is_named(fresh):
    zipped, others = io.BytesIO(), {b"BZh91AY&SY": "a bzip2 file", b"\xfd7zXZ\x00": "an xz file"}
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("a", "b")
    for data, words in {zipped.getvalue(): "a zip", **others}.items():
        with pytest.raises(Refused, match=f"{words}: send a tar"):
            import_archive(io.BytesIO(data), fresh)
    import_archive(io.BytesIO(tar_of(member("PK", b"x"), member("BZhello", b"x"))), fresh)


@pytest.mark.parametrize("data", [b"", b"not a tar", b"\x1f\x8bnonsense", b"\x28\xb5\x2f\xfdnonsense"])
def test_an_invalid_archive_is_refused(fresh, data):
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
