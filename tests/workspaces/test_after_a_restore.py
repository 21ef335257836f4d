"""What fails after the files were restored is said beside it: the outcome never claims that nothing was restored."""

from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from tests.pages.conftest import keep_tree, make_workspace, workspace  # noqa: F401 - fixtures
from workspaces.host import paths
from workspaces.models import Snapshot
from workspaces.runner.operations.restore import Restore
from workspaces.store import LocalTree


@pytest.fixture
def restored(team, workspace, tmp_path):  # noqa: F811
    """A job whose files are in place, and the snapshot that they were restored from."""
    tree = keep_tree(team, tmp_path / "files", {"folder/one": "1\n", "two": "2\n"})
    row = {"entries": 3, "bytes": 4, "added_bytes": 4, "kind": "manual", "created_at": workspace.created_at}
    target = Snapshot.objects.create(workspace=workspace, number=8, tree=tree, **row)
    workspace.head = Snapshot.objects.create(workspace=workspace, number=9, tree=tree, **row)

    @asynccontextmanager
    async def open_tree():
        yield LocalTree(tmp_path / "files")

    async def in_this_thread(function, *args):
        return function(*args)

    return SimpleNamespace(workspace=workspace, open_tree=open_tree, thread=in_this_thread), target


def outcome_of(coroutine):
    """Run a coroutine that waits for nothing, without an event loop, in which the database may not be used."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


def test_restored_files_are_compared_with_their_snapshot(restored):
    job, target = restored
    proof, missing = outcome_of(Restore()._compared(job, target))
    assert (proof["snapshot"], proof["differ"], missing) == (8, 0, "")
    assert job.workspace.head.number == 9


def test_a_failed_comparison_is_named_beside_the_restore(restored, team):
    job, target = restored
    for pack in paths.store_of(team.pk).rglob("*.pack"):
        pack.write_bytes(bytes(pack.stat().st_size))
    proof, missing = outcome_of(Restore()._compared(job, target))
    assert proof == {}
    assert missing.startswith("The files were restored, but could not be compared with snapshot 8: ")
    assert job.workspace.head.number == 9
