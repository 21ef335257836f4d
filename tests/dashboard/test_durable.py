"""Whole files, locks between processes, and the address to call: one helper each."""

import os
import stat
import subprocess
import sys

import pytest

from approvals.connect import connections
from dashboard.files.atomic_write import create_file, move_into_place, replace_file
from dashboard.files.locks import is_locked, take_lock
from dashboard.net.addresses import in_url, is_loopback, is_wildcard, to_call
from workspaces.runner.web_elsewhere import own_address


def test_a_file_is_replaced_whole_with_the_mode_that_was_asked(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text("old")
    replace_file(path, b"new", mode=0o644)
    replace_file(path, b"newer", durable=False)
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (b"newer", 0o600)
    assert os.listdir(tmp_path) == ["spec.json"]


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(tmp_path / "taken", b"new")
    assert os.listdir(tmp_path) == ["taken"]


def test_a_link_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "other").write_text("untouched")
    (tmp_path / "link").symlink_to("other")
    replace_file(tmp_path / "link", b"new")
    assert ((tmp_path / "other").read_text(), (tmp_path / "link").is_symlink()) == ("untouched", False)


def test_the_first_one_makes_a_file(tmp_path):
    path = tmp_path / "claim"
    assert (create_file(path, b"first"), create_file(path, b"second")) == (True, False)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"first", ["claim"])


def test_a_finished_file_is_moved_over_an_old_one(tmp_path):
    (tmp_path / "fresh").write_text("new")
    (tmp_path / "disk").write_text("old")
    move_into_place(tmp_path / "fresh", tmp_path / "disk")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("disk", "new")]


def test_a_lock_is_held_by_one_and_freed_by_the_death_of_its_process(tmp_path):
    path = tmp_path / "lock"
    assert not is_locked(path)
    hold = "import sys; from pathlib import Path; from dashboard.files.locks import take_lock\n"
    hold += "take_lock(Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", hold, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        other.stdout.readline()
        assert is_locked(path)
        with pytest.raises(BlockingIOError):
            take_lock(path, wait=0)
    finally:
        other.kill()
        other.communicate()
    assert not is_locked(path)
    os.close(take_lock(path, wait=0))


def test_a_shared_lock_keeps_out_an_exclusive_one(tmp_path):
    held = [take_lock(tmp_path / "lock", wait=0, shared=True) for _ in range(2)]
    with pytest.raises(BlockingIOError):
        take_lock(tmp_path / "lock", wait=0)
    for fd in held:
        os.close(fd)


@pytest.mark.parametrize(
    ("listens", "called", "url"),
    [
        ("", "127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "127.0.0.1", "http://127.0.0.1:8000"),
        ("::", "::1", "http://[::1]:8000"),
        ("::1", "::1", "http://[::1]:8000"),
        ("10.0.0.7", "10.0.0.7", "http://10.0.0.7:8000"),
    ],
)
def test_hook_proxy_and_supervisor_call_the_same_address(settings, listens, called, url):
    settings.HANDRAIL_HOST, settings.HANDRAIL_PORT = listens, 8000
    assert (own_address(), connections.local_address()) == ((called, 8000), url)
    assert f"http://{in_url(to_call(listens))}:8000" == url


def test_only_this_machine_is_loopback():
    hosts = [
        "127.0.0.1",
        "127.8.0.1",
        "::1",
        "localhost",
        "handrail.localhost",
        "0.0.0.0",
        "localhost.example",
        "10.0.0.1",
    ]
    assert [is_loopback(host) for host in hosts] == [True] * 5 + [False] * 3
    assert [is_wildcard(host) for host in hosts] == [False] * 5 + [True, False, False]
