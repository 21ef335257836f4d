import pytest

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


def test_a_workspace_below_tmp_is_refused():
    with pytest.raises(CannotHold, match="/tmp"):
        Rings("/tmp/project", None, scratch="/scratch", abilities=FULL).ring(MEDIUM)


def test_a_scratch_folder_of_another_is_refused(tree):
    (tree / "elsewhere").mkdir()
    (tree / "scratch").symlink_to(tree / "elsewhere")
    with pytest.raises(CannotHold, match="not a folder of ours"):
        rings(tree).ring(MEDIUM)
