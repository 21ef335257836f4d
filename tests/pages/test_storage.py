"""What a team's snapshots take, whether they are sound, and what can be done: on a real store."""

import os

import pytest
from asgiref.sync import async_to_sync

from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces import operations, tasks
from workspaces.host import paths
from workspaces.models import Operation, Phase, Snapshot, StoreTask, Workspace
from workspaces.services import store_maintenance
from workspaces.store import LocalTree, Store

NIGHT = Actor.system("night")


@pytest.fixture
def kept(workspace, tmp_path):
    """`kept(name)`: the team's store with a snapshot 3 of the workspace that holds one file of that name."""
    path = paths.store_of(workspace.team_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    store = Store.create(path)
    (tmp_path / "tree").mkdir()
    Snapshot.objects.filter(workspace=workspace).exclude(pk=workspace.head_id).update(parent=None)

    def snapshot(name, number, row=None):
        (tmp_path / "tree" / name).write_bytes(os.urandom(100_000))
        tree = bytes.fromhex(store.snapshot(LocalTree(tmp_path / "tree"), hold=0).tree)
        Snapshot.objects.filter(workspace=workspace, number=number).update(tree=tree)
        return tree.hex()

    snapshot("first.bin", 1)
    snapshot("second.bin", 2)
    return store, LocalTree(tmp_path / "tree")


def flip(store, tree, path):
    """Turn over one bit of a file's stored bytes."""
    entry = store.entry(tree, path)
    place = store.catalog.locate(entry.content)
    with open(store.path / "packs" / f"{place.pack:08d}.pack", "r+b") as file:
        file.seek(place.block + place.block_length - 10)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))


@pytest.fixture
def round_of(runner, team):
    """`round_of(task)`: the round after the runner has carried it out."""

    def carry_out(task, *, full=False):
        store_maintenance.request_for_all(task, full=full)
        runner()
        return store_maintenance.rounds(team)[task]

    return carry_out


def test_storage_says_what_each_workspace_and_snapshot_takes(workspace, kept, runner, vera, alice, browser_of, read):
    text = read(browser_of(vera), "/storage/")
    assert "Never checked." in text
    assert "<button>" not in text.partition('<section class="section" id="store-')[2].partition("</section>")[0]
    tasks.collect_garbage()
    tasks.verify_stores()
    runner()
    text = read(browser_of(alice), "/storage/")
    assert f'href="/w/{workspace.team.slug}/{workspace.key}/snapshots/"' in text
    assert "objects OK." in text
    assert "Freed 0" in text
    assert Operation.objects.get(kind="store_collect").outcome["workspaces"][str(workspace.pk)] > 200_000
    alone = [store_maintenance.freed_by_snapshot(snapshot) for snapshot in workspace.snapshots.order_by("number")]
    assert alone[0] < 5_000 < 100_000 < alone[1] < 110_000
    assert "used by this snapshot only" in read(
        browser_of(vera), f"/w/{workspace.team.slug}/{workspace.key}/snapshots/2/"
    )


def test_damage_is_named_until_it_is_mended(workspace, kept, round_of, vera, alice, browser_of, read):
    store, tree = kept
    two = bytes(Snapshot.objects.get(workspace=workspace, number=2).tree).hex()
    flip(store, two, b"second.bin")
    assert round_of(StoreTask.CHECK).is_ok is True  # only a check of every byte sees that
    assert round_of(StoreTask.CHECK, full=True).is_ok is False
    text = read(browser_of(alice), "/storage/")
    assert "The store is damaged." in text
    assert f'<code>second.bin</code> in <a href="/w/{workspace.team.slug}/{workspace.key}/snapshots/2/">' in text
    assert "first.bin" not in text
    assert "are damaged" in read(browser_of(vera), "/")
    assert Event.objects.filter(verb="store.damaged").count() == 1
    assert round_of(StoreTask.CHECK).is_ok is False  # a lighter check does not wash it away
    mended = round_of(StoreTask.REPAIR)
    assert (mended.is_ok, mended.outcome["lost"]) == (True, 1)
    assert Store.open(store.path).snapshot(tree, hold=0).tree == two  # whoever still has the file stores it again
    assert round_of(StoreTask.REPAIR).outcome["lost"] == 0
    assert round_of(StoreTask.CHECK, full=True).is_ok is True
    assert "are damaged" not in read(browser_of(vera), "/")
    assert len(store.read(two, b"second.bin")) == 100_000


def test_only_admins_may_start_maintenance(kept, team, vera, lena, mallory, browser_of):
    for person, status in ((vera, 403), (lena, 403), (mallory, 404)):
        for what in ("check", "collect", "repair", "stop"):
            response = browser_of(person).post(f"/storage/{team.slug}/{what}/", {"work": "check"})
            assert (response.status_code, person, what) == (status, person, what)
    assert Operation.objects.count() == 0


def test_a_check_is_queued_once_and_can_be_stopped(kept, team, runner, alice, browser_of, read):
    store, person = kept[0], browser_of(alice)
    person.post(f"/storage/{team.slug}/check/", {"full": "yes"})
    row = Operation.objects.get()
    assert (row.kind, row.args["full"], row.by["label"], row.phase) == ("store_check", True, "alice", Phase.DUE)
    assert (row.workspace, row.team) == (None, team)
    assert "queued" in read(person, "/storage/")
    with pytest.raises(Problem, match="Already in progress"):
        store_maintenance.request(team, StoreTask.CHECK, by=NIGHT)
    assert store_maintenance.request_for_all(StoreTask.CHECK) == []
    person.post(f"/storage/{team.slug}/stop/", {"work": "check"})
    assert "Stopping…" in read(person, "/storage/")
    runner()
    found = store_maintenance.rounds(team)[StoreTask.CHECK]
    assert (found.is_ok, found.outcome["reason_code"]) == (None, "cancelled")
    assert "The last check was cancelled." in read(person, "/storage/")
    assert Event.objects.filter(verb__startswith="store.").count() == 2
    assert store.verify(full=True).ok


@pytest.mark.parametrize("task", list(StoreTask))
def test_each_work_that_was_stopped_leaves_the_store_as_it_was(kept, team, runner, task):
    store, before = kept[0], (kept[0].path / "head").read_bytes()
    store_maintenance.request(team, task, by=NIGHT)
    store_maintenance.cancel(team, task, by=NIGHT)
    runner()
    stopped = {"ok": False, "reason": "Cancelled. Nothing was changed.", "reason_code": "cancelled"}
    assert store_maintenance.rounds(team)[task].outcome == stopped
    assert (store.path / "head").read_bytes() == before
    assert store.verify(full=True).ok


def test_findings_stand_after_a_stopped_round(workspace, kept, round_of, runner, team, vera, browser_of, read):
    store, _tree = kept
    flip(store, bytes(Snapshot.objects.get(workspace=workspace, number=2).tree).hex(), b"second.bin")
    round_of(StoreTask.CHECK, full=True)
    store_maintenance.request(team, StoreTask.CHECK, by=NIGHT)
    store_maintenance.cancel(team, StoreTask.CHECK, by=NIGHT)
    runner()
    assert "The store is damaged." in read(browser_of(vera), "/storage/")
    assert "are damaged" in read(browser_of(vera), "/")
    assert Operation.objects.filter(kind="store_check").count() == 2
    assert round_of(StoreTask.CHECK).is_full  # a lighter check would not find it
    assert Operation.objects.filter(kind="store_check").count() == 1  # only the newest is kept


@pytest.mark.parametrize("task", list(StoreTask))
def test_a_runner_that_died_in_the_middle_does_it_again(kept, team, runner, task):
    store_maintenance.request(team, task, by=NIGHT)
    claimed = operations.claim(Operation.objects.get(), runner.daemon.row)
    operations.start(claimed)
    runner.daemon.ledger.write(claimed.pk, claimed.epoch, "started")
    async_to_sync(runner.daemon._work)(operations.take_over(claimed), True)
    found = store_maintenance.rounds(team)[task]
    assert (found.is_ok, found.operation.phase, found.operation.epoch) == (True, Phase.SETTLED, 2)
    assert kept[0].verify(full=True).ok


@pytest.mark.parametrize(
    ("source", "step", "may"),
    [
        ({"upload": "u"}, "files", True),
        ({"fork": {"id": 1}}, "files", True),
        ({"upload": "u"}, "setup", False),
        ({"git": "x"}, "files", True),
        ({}, "files", False),
    ],
)
def test_what_fetches_files_can_be_stopped_until_the_set_up(workspace, lena, browser_of, source, step, may):
    Workspace.objects.update(source=source)
    operation = Operation.objects.create(
        workspace=workspace,
        kind="create",
        phase="started",
        exclusive=True,
        due_at=clock.now(),
        progress={"step": step, "done": 4000, "total": None, "bytes": 10},
    )
    lead, here = browser_of(lena), f"/w/{workspace.team.slug}/{workspace.key}/operations/{operation.pk}/"
    text = lead.get(here).content.decode()
    assert (">Stop</button>" in text, "4,000 entries" in text) == (may, True)
    lead.post(f"{here}stop/")
    operation.refresh_from_db()
    assert (operation.cancelled_at is not None) == may
