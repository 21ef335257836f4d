"""A tree that a guest's server watches is looked at where it may have changed, and walked where nobody can know."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.workspaces.store.guests import Guest, only
from workspaces.store import LocalTree, Store, StoreError
from workspaces.store.guest import canary, protocol
from workspaces.store.guest.watched import GuestWatched
from workspaces.store.watch.inotify import Inotify

INOTIFY = only("Inotify")
DEAF = "from handrail_tree.watch.watched import Watched; Watched.note_changes = lambda self, inodes: None"
MUTE = "from handrail_tree.guest import watch; watch.missed_writer = lambda way, folder: 'a changed mode'"


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


@pytest.fixture
def guest_of(work, settle, require):
    """`guest_of(code)`: a guest with the tree `work`, whose server was changed by this code."""
    made = []

    def start(code=INOTIFY):
        settle()
        guest = Guest(work, watched=GuestWatched(), code=code)
        made.append(guest)
        return guest

    yield start
    for guest in made:
        guest.close()


@pytest.fixture
def guest(guest_of, store, require):
    """A guest with the tree `work`, watched by inotify, after its first snapshot."""
    guest = guest_of()
    store.snapshot(guest.tree())
    if guest.watched.how == "off":
        require("inotify", guest.watched.why)
    return guest


def walked(store, work):
    return store.snapshot(LocalTree(work, cache=work.parent / "another"), thorough=True).tree


def test_only_what_has_changed_is_looked_at(store, work, guest):
    assert (guest.watched.how, guest.watched.why) == ("guest", Inotify.why)
    assert store.snapshot(guest.tree()).looked_at == (0, len(os.listdir(work)))
    (work / "src" / "deep" / "data.bin").write_bytes(b"new")
    taken = store.snapshot(guest.tree())
    assert taken.looked_at == (0, len(os.listdir(work)) + 1)
    assert store.read(taken.tree, b"src/deep/data.bin") == b"new"


def test_a_folder_whose_time_was_too_young_to_be_trusted_stays(store, work, guest):
    (work / "new" / "below").mkdir(parents=True)
    os.setxattr(work / "new", "user.note", b"kept")
    store.snapshot(guest.tree())
    os.rename(work / "src", work / "aside")
    assert store.snapshot(guest.tree()).tree == walked(store, work)


@pytest.fixture
def of_another(ordinary_user, settle):
    """A guest of an ordinary user, as the server in a pod is, with a file in a folder."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        folder = Path(place) / "work" / "folder"
        folder.mkdir(parents=True)
        (folder / "file").write_text("1")
        subprocess.run(["chown", "-R", f"{ordinary_user}:{ordinary_user}", place], check=True)
        guest = Guest(folder.parent, watched=GuestWatched(), code=INOTIFY)
        guest.wrap = ("setpriv", "--reuid", str(ordinary_user), "--regid", str(ordinary_user), "--clear-groups")
        settle()
        yield guest
        guest.close()


def test_a_folder_that_the_user_may_not_enter_any_more_is_skipped(store, of_another):
    folder = of_another.root / "folder"
    assert store.snapshot(of_another.tree()).skipped == []
    folder.chmod(0)
    assert [one.path for one in store.snapshot(of_another.tree()).skipped] == [b"folder"]
    folder.chmod(0o755)
    taken = store.snapshot(of_another.tree())
    assert (taken.skipped, taken.tree) == ([], walked(store, of_another.root))
    assert of_another.watched.how == "guest"


def test_programs_of_the_same_user_cannot_look_into_the_server(store, of_another, ordinary_user):
    store.snapshot(of_another.tree())
    look = f"head -c 1 /proc/{of_another.process.pid}/maps; ls /proc/{of_another.process.pid}/fd"
    found = subprocess.run(["sh", "-c", look], user=ordinary_user, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr.count("Permission denied")) == ("", 2)


def test_a_new_server_makes_the_next_snapshot_walk(store, work, guest):
    guest.process.kill()
    guest.process.wait()
    (work / "src" / "main.py").write_text("while nobody watched")
    taken = store.snapshot(guest.tree())
    assert (taken.looked_at.watched, taken.tree) == (0, walked(store, work))
    assert store.snapshot(guest.tree()).looked_at.walked == 0


def test_a_server_that_knows_another_snapshot_makes_the_next_one_walk(store, work, guest):
    """As after a rollback of a guest's memory."""
    guest.watched._mark = "of a later one"
    (work / "src" / "main.py").write_text("changed")
    taken = store.snapshot(guest.tree())
    assert (taken.looked_at.watched, taken.tree) == (0, walked(store, work))


def test_what_is_not_kept_stays_due(store, work, guest):
    (work / "src" / "main.py").write_text("changed")

    def refuse():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.snapshot(guest.tree(), before_commit=refuse)
    taken = store.snapshot(guest.tree())
    assert (taken.looked_at.walked, store.read(taken.tree, b"src/main.py")) == (0, b"changed")


def test_a_restore_into_a_live_guest_is_seen(store, work, guest):
    first = store.snapshot(guest.tree()).tree
    (work / "src" / "main.py").write_text("changed")
    (work / "more").mkdir()
    store.snapshot(guest.tree())
    store.restore(first, guest.tree(), journal=None)
    taken = store.snapshot(guest.tree())
    assert (taken.tree, walked(store, work)) == (first, first)
    assert taken.looked_at.watched > 0


def test_a_proof_that_finds_a_missed_change_switches_the_watch_off(store, work, guest_of):
    guest = guest_of(DEAF)
    store.snapshot(guest.tree())
    (work / "src" / "deep" / "data.bin").write_bytes(b"nobody hears of this")
    assert store.snapshot(guest.tree()).tree != walked(store, work)
    assert store.snapshot(guest.tree(), prove=True).tree == walked(store, work)
    assert (guest.watched.how, guest.watched.alarms) == ("off", 1)
    assert "src/deep" in guest.watched.why
    assert store.snapshot(guest.tree()).looked_at.watched == 0


def test_every_nth_snapshot_walks(store, guest):
    guest.watched.proof_every = 3
    walks = [store.snapshot(guest.tree()).looked_at.walked > 0 for _ in range(6)]
    assert walks == [False, False, True, False, False, True]
    assert guest.watched.alarms == 0


def test_a_kernel_that_does_not_tell_of_a_writer_is_not_relied_on(store, guest_of):
    guest = guest_of(MUTE)
    assert [store.snapshot(guest.tree()).looked_at.watched for _ in range(2)] == [0, 0]
    assert (guest.watched.how, guest.watched.why) == ("off", "the kernel does not tell of a changed mode")


def test_the_canary_finds_what_is_not_told(tmp_path, monkeypatch):
    class Deaf(Inotify):
        def _watch(self, fd, of_file):
            super()._watch(fd, of_file & ~0x4)  # IN_ATTRIB of files

    assert canary.missed_writer(Inotify, os.fspath(tmp_path)) == ""
    assert canary.missed_writer(Deaf, os.fspath(tmp_path)) == "a changed mode"
    monkeypatch.setattr(Inotify, "is_written", lambda self, fd: False)
    assert canary.missed_writer(Inotify, os.fspath(tmp_path)) == canary.LEASES
    assert os.listdir(tmp_path) == []


def test_it_can_be_switched_off(store, work):
    guest = Guest(work, watched=GuestWatched(off="HANDRAIL_WATCH=off"))
    assert [store.snapshot(guest.tree()).looked_at.watched for _ in range(2)] == [0, 0]
    assert (guest.watched.how, guest.watched.why) == ("off", "HANDRAIL_WATCH=off")
    guest.close()


CLAIMS = """
from handrail_tree.guest.watch import Proven
from handrail_tree.watch.watched import Hints
Proven.begin = lambda self, *_, **__: [Hints("watched"), setattr(self, "how", "fanotify")][0]
"""


def test_a_guest_that_claims_to_know_what_the_host_does_not_know_is_refused(store, guest_of):
    with pytest.raises(StoreError, match="nonsense"):
        store.snapshot(guest_of(CLAIMS).tree())


FULL = """
from handrail_tree.guest import watch
tries = iter([OSError(28, "No space left on device")])
def missed_writer(way, folder):
    for error in tries:
        raise error
    return {what!r}
watch.missed_writer = missed_writer
"""


@pytest.mark.parametrize("what", ["", "a changed mode"])
def test_a_kernel_that_could_not_be_tried_out_is_tried_before_the_next_snapshot(store, guest_of, what):
    guest = guest_of(INOTIFY + FULL.format(what=what))
    assert store.snapshot(guest.tree()).looked_at.watched == 0
    assert guest.watched.why == "the kernel could not be tried out: No space left on device"
    store.snapshot(guest.tree())
    assert guest.watched.how == ("off" if what else "guest")


def test_a_server_that_ends_after_the_commit_loses_the_watch_and_not_the_snapshot(store, work, guest):
    (work / "src" / "main.py").write_text("changed")
    taken = store.snapshot(guest.tree(), before_commit=guest.process.kill)
    assert store.read(taken.tree, b"src/main.py") == b"changed"
    (work / "src" / "main.py").write_text("again")
    taken = store.snapshot(guest.tree())
    assert (taken.looked_at.watched, taken.tree, guest.watched.how) == (0, walked(store, work), "guest")


BROKEN = """
import os
from handrail_tree.guest import walk
opened = walk.open_beneath
def open_beneath(root, path, flags):
    if path == b"src/deep" and os.path.exists(f"/proc/self/fd/{root}/../broken"):
        raise OSError(24, "Too many open files")
    return opened(root, path, flags)
walk.open_beneath = open_beneath
"""


@pytest.mark.parametrize("changed", ["src/deep/data.bin", "src/deep/below/new"])
def test_a_folder_that_cannot_be_opened_for_a_while_is_skipped_and_stays_due(store, work, guest_of, changed):
    (work / "src" / "deep" / "below").mkdir()
    guest, broken = guest_of(INOTIFY + BROKEN), work.parent / "broken"
    store.snapshot(guest.tree())
    broken.touch()
    (work / changed).write_text("changed")
    assert [one.path for one in store.snapshot(guest.tree()).skipped] == [b"src/deep"]
    broken.unlink()
    (work / changed).write_text("again")
    taken = store.snapshot(guest.tree())
    assert (taken.skipped, taken.tree) == ([], walked(store, work))
    assert guest.watched.how == "guest"


def test_more_missed_changes_than_a_frame_can_name_are_an_alarm(store, work, guest_of, monkeypatch):
    monkeypatch.setattr(protocol, "_MAX_HEAD", 20_000)
    for number in range(300):
        (work / f"{number:0100}").mkdir()
    guest = guest_of(INOTIFY + "\n" + DEAF)
    store.snapshot(guest.tree())
    for number in range(300):
        (work / f"{number:0100}" / "new").touch()
    store.snapshot(guest.tree(), prove=True)
    assert guest.watched.alarms == 1
