from dataclasses import replace

import pytest

from workspaces.envelope import mounts
from workspaces.envelope.envelope import LOW, MEDIUM, Envelope
from workspaces.envelope.ring import CannotHold, Rings, is_held

FULL = {"landlock": 7, "seccomp": True, "mount_view": True}
ONLY_HOSTS = Envelope(read=("workspace",), write=("scratch",), network=("hosts",))


def rings(tree, **abilities):
    return Rings(str(tree / "tree"), None, scratch=str(tree / "scratch"), abilities=FULL | abilities)


@pytest.fixture
def tree(tmp_path, monkeypatch):
    monkeypatch.setattr("workspaces.envelope.ring.HIDDEN", ())  # temporary folders of tests lie there
    (tmp_path / "tree").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("abilities", "envelope"),
    [
        ({"landlock": 0}, LOW),
        ({"landlock": 0, "apart": True, "mount_view": False}, LOW),
        ({"landlock": 0, "apart": True}, ONLY_HOSTS),
        ({"landlock": 0, "apart": True}, replace(MEDIUM, removes=("/usr/bin/env",))),
        ({"seccomp": False}, LOW),
        ({"mount_view": False}, MEDIUM),
        ({"mount_view": False, "landlock": 2}, LOW),
        ({"landlock": 3}, ONLY_HOSTS),
    ],
)
def test_a_program_that_cannot_be_held_is_refused(tree, abilities, envelope):
    with pytest.raises(CannotHold):
        rings(tree, **abilities).ring(envelope)


def test_landlock_alone_is_not_held_but_holds_the_low_envelope(tree):
    assert not is_held(FULL | {"mount_view": False})
    assert is_held(FULL)
    assert not is_held({})
    assert rings(tree, mount_view=False).ring(LOW).secrets == []


def test_a_mount_view_takes_the_place_of_landlock_where_proc_leads_to_no_other_program(tree):
    without = {"landlock": 0, "listener": False}
    assert not is_held(FULL | without)
    assert is_held(FULL | without | {"apart": True})
    assert not is_held(FULL | without | {"apart": True, "mount_view": False})
    assert rings(tree, **without, apart=True).ring(MEDIUM).writes_workspace


MOUNTS = """\
1 0 0:1 / / ro - 9p none ro
2 1 0:2 / /.handrail/files rw,nosuid - 9p none rw
3 1 0:3 / /.handrail ro,nosuid,nodev,noexec - tmpfs none ro
4 1 0:4 / /tmp rw - 9p none rw
5 4 0:5 / /tmp ro - tmpfs none ro
6 5 0:4 /a /tmp rw - 9p none rw
7 1 0:6 / /home/with\\040space rw,noexec - 9p none rw
"""


def test_only_mounts_that_a_path_leads_to_are_changed(monkeypatch):
    found = [mounts.Mount(line) for line in MOUNTS.encode().splitlines()]
    monkeypatch.setattr(mounts, "mounts", lambda: found)
    assert [(each.number, each.point) for each in mounts.reachable()] == [
        (1, "/"),
        (3, "/.handrail"),
        (6, "/tmp"),
        (7, "/home/with space"),
    ]
    assert found[6].flags == mounts.MS_NOEXEC


def test_a_workspace_below_tmp_is_refused():
    with pytest.raises(CannotHold, match="/tmp"):
        Rings("/tmp/project", None, scratch="/scratch", abilities=FULL).ring(MEDIUM)


def test_a_scratch_folder_of_another_is_refused(tree):
    (tree / "elsewhere").mkdir()
    (tree / "scratch").symlink_to(tree / "elsewhere")
    with pytest.raises(CannotHold, match="not a folder of ours"):
        rings(tree).ring(MEDIUM)
