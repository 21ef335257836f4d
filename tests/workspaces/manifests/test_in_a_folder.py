"""The signed manifest as a plain file in a connected folder: written, known by its digest, left alone, taken away."""

import json

import pytest

from handrail_verify.signed import verify
from workspaces.host import paths
from workspaces.manifests import folder_manifest
from workspaces.manifests.folder_manifest import digests
from workspaces.manifests.keep import sign_and_save
from workspaces.models import Environment, Workspace
from workspaces.runner import shown_manifest, snapshots

from ..test_folder_environments import folder  # noqa: F401 (a fixture)

PATH = ".handrail/manifest.json"
pytestmark = pytest.mark.django_db


@pytest.fixture
def show(folder, django_capture_on_commit_callbacks):  # noqa: F811
    """`show({…})`: a manifest with this body is recorded; returns the file that then lies in the folder."""

    def record(body):
        with django_capture_on_commit_callbacks(execute=True):
            made = sign_and_save(body, snapshot=folder.head)
            shown_manifest.put_after_commit(made, folder)
        made.delete()
        return paths.tree_of(folder) / PATH

    return record


def entries(workspace) -> list[bytes]:
    """What a snapshot, a difference and the Files tab see of the folder."""
    with snapshots.host_tree(workspace).files() as files:
        return sorted(name for name, _ in files.entries(b""))


def test_the_manifest_verifies_like_a_download_and_is_not_one_of_the_files(folder, show):  # noqa: F811
    (paths.tree_of(folder) / "calc.py").write_text("print(1)\n")
    for number in (1, 2):
        path = show({"snapshot": number})
        text = path.read_text()
        verify(text, json.loads(text)["signature"]["key"])
        assert (json.loads(text)["snapshot"], entries(folder)) == (number, [b"calc.py"])


def test_changed_it_is_an_ordinary_file_and_stays(folder, show):  # noqa: F811
    path = show({"snapshot": 1})
    path.write_text(path.read_text().replace("1", "7"))
    forged = path.read_bytes()
    assert entries(folder) == [b".handrail"]
    show({"snapshot": 2})
    assert (path.read_bytes(), entries(folder)) == (forged, [b".handrail"])
    path.unlink()
    assert json.loads(show({"snapshot": 3}).read_text())["snapshot"] == 3
    assert entries(folder) == []


def test_a_file_of_the_users_own_is_never_replaced(folder, show):  # noqa: F811
    path = paths.tree_of(folder) / PATH
    path.parent.mkdir()
    path.write_text('{"mine": true}\n')
    show({"snapshot": 1})
    assert (path.read_text(), digests(folder.pk)) == ('{"mine": true}\n', frozenset())


def test_a_manifest_left_by_a_crash_is_known(folder, show):  # noqa: F811
    path = show({"snapshot": 1})
    first, record = path.read_bytes(), paths.folder_of(folder.pk) / folder_manifest.RECORD
    known = json.loads(record.read_text())["sha256"]
    record.write_text(json.dumps({"sha256": ["0" * 64, *known]}))  # killed before it wrote the file
    assert (path.read_bytes(), entries(folder)) == (first, [])
    assert json.loads(show({"snapshot": 2}).read_text())["snapshot"] == 2
    assert entries(folder) == []


def test_taken_away_it_does_not_come_back_before_a_resume(folder, show):  # noqa: F811
    path = show({"snapshot": 1})
    folder_manifest.take_away(folder)
    assert not path.parent.exists()
    show({"snapshot": 2})
    assert not path.parent.exists()
    folder_manifest.write(folder, b"{}", again=True)
    assert path.read_bytes() == b"{}"


def test_only_a_connected_folder_gets_the_file(team, agent):
    environment = Environment.objects.create(team=team, name="default")
    box = Workspace.objects.create(team=team, key="box", environment=environment, created_by_agent=agent)
    shown_manifest.put_after_commit(None, box)
    assert digests(box.pk) == frozenset()
