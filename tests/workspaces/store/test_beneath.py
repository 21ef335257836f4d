"""Nothing that a name says, and nothing that stands in the way, leads out of the folder."""

import errno
import os

import pytest

from workspaces.store import safe_open


@pytest.fixture(params=["openat2", "component by component"])
def root(request, tmp_path, monkeypatch):
    if request.param == "openat2":
        assert safe_open._kernel_resolves()
    else:
        monkeypatch.setattr(safe_open, "_resolves", False)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    (tmp_path / "in" / "folder").mkdir(parents=True)
    (tmp_path / "in" / "folder" / "file").write_bytes(b"content")
    (tmp_path / "in" / "out").symlink_to(tmp_path / "outside")
    (tmp_path / "in" / "up").symlink_to("../outside")
    (tmp_path / "in" / "inner").symlink_to("folder")
    (tmp_path / "in" / "loop").symlink_to("loop")
    fd = safe_open.open_root(tmp_path / "in")
    yield fd
    os.close(fd)


def content(fd):
    with os.fdopen(fd, "rb") as file:
        return file.read()


def test_a_file_below_the_root_opens(root):
    assert content(safe_open.open_beneath(root, b"folder/file", os.O_RDONLY)) == b"content"
    assert content(safe_open.open_beneath(root, b"./folder//file", os.O_RDONLY)) == b"content"


def test_a_file_can_be_made_with_its_mode(root, tmp_path):
    fd = safe_open.open_beneath(root, b"folder/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(fd, b"x")
    os.close(fd)
    made = tmp_path / "in/folder/new"
    assert (made.read_bytes(), made.stat().st_mode & 0o777) == (b"x", 0o600)


def test_descriptors_do_not_leak_into_programs(root):
    fd = safe_open.open_beneath(root, b"folder/file", os.O_RDONLY)
    assert not os.get_inheritable(fd)
    os.close(fd)


@pytest.mark.parametrize("path", [b"/etc/passwd", b"../outside/secret", b"folder/../../outside/secret", b"a\0b"])
def test_names_that_could_lead_out_are_refused(root, path):
    with pytest.raises(safe_open.BadPath):
        safe_open.open_beneath(root, path, os.O_RDONLY)
    with pytest.raises(safe_open.BadPath):
        safe_open.unlink_beneath(root, path)


@pytest.mark.parametrize("path", [b"out/secret", b"up/secret", b"inner/file"])
def test_no_symlink_on_the_way_is_followed(root, path, tmp_path):
    for attempt in (
        lambda: safe_open.open_beneath(root, path, os.O_RDONLY),
        lambda: safe_open.open_beneath(root, path + b".new", os.O_WRONLY | os.O_CREAT),
        lambda: safe_open.unlink_beneath(root, path),
        lambda: safe_open.mkdir_beneath(root, path + b".d"),
        lambda: safe_open.rename_beneath(root, b"folder/file", path),
        lambda: safe_open.stat_beneath(root, path),
    ):
        with pytest.raises(OSError, match=r"symbolic links|Not a directory|cross-device") as caught:
            attempt()
        assert caught.value.errno in (errno.ELOOP, errno.ENOTDIR, errno.EXDEV)
    assert os.listdir(tmp_path / "outside") == ["secret"]
    assert os.listdir(tmp_path / "in/folder") == ["file"]


@pytest.mark.parametrize("path", [b"out", b"inner", b"loop"])
def test_a_symlink_at_the_end_is_refused_unless_asked_for(root, path):
    with pytest.raises(OSError, match="symbolic links") as caught:
        safe_open.open_beneath(root, path, os.O_RDONLY)
    assert caught.value.errno == errno.ELOOP
    fd = safe_open.open_beneath(root, path, os.O_PATH | os.O_NOFOLLOW)
    assert os.readlink(b"", dir_fd=fd) == safe_open.readlink_beneath(root, path)
    os.close(fd)


def test_another_mount_is_not_entered():
    root = safe_open.open_root("/")
    try:
        with pytest.raises(OSError, match="cross-device") as caught:
            safe_open.open_beneath(root, b"proc/self/status", os.O_RDONLY)
        assert caught.value.errno == errno.EXDEV
    finally:
        os.close(root)


def test_entries_are_made_moved_and_removed(root, tmp_path):
    safe_open.mkdir_beneath(root, b"folder/sub")
    safe_open.rename_beneath(root, b"folder/file", b"folder/sub/moved")
    safe_open.symlink_beneath(root, b"anywhere", b"folder/link")
    assert safe_open.readlink_beneath(root, b"folder/link") == b"anywhere"
    with pytest.raises(FileExistsError):
        safe_open.rename_beneath(root, b"folder/link", b"folder/sub/moved", flags=safe_open.RENAME_NOREPLACE)
    safe_open.unlink_beneath(root, b"folder/link")
    safe_open.unlink_beneath(root, b"folder/sub/moved")
    safe_open.rmdir_beneath(root, b"folder/sub")
    assert os.listdir(tmp_path / "in/folder") == []


def test_the_root_itself_cannot_be_removed(root):
    with pytest.raises(safe_open.BadPath):
        safe_open.rmdir_beneath(root, b"")
    assert safe_open.stat_beneath(root, b"").st_ino == os.fstat(root).st_ino
