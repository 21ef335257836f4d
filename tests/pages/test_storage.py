"""What a team's snapshots take, whether they are sound, and what can be done: on a real store."""

import os

import pytest

from dashboard import clock
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces import lifecycle, places, tasks, upkeep
from workspaces.models import Effect, Snapshot, Upkeep, Work, Workspace
from workspaces.store import LocalTree, Store

NIGHT = Actor.system("night")


@pytest.fixture
def kept(workspace, tmp_path):
    """`kept(name)`: the team's store with a snapshot 3 of the workspace that holds one file of that name."""
    path = places.store_of(workspace.team_id)
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


def round_of(work, *, full=False):
    return upkeep.in_turn(work, full=full)[0]


def test_storage_says_what_each_workspace_and_snapshot_takes(workspace, kept, vera, alice, browser_of, read):
    text = read(browser_of(vera), "/storage/")
    assert "It was not checked yet." in text
    assert "<button>" not in text.partition('<section class="section" id="store-')[2].partition("</section>")[0]
    tasks.collect_garbage()
    tasks.verify_stores()
    text = read(browser_of(alice), "/storage/")
    assert f'href="/w/{workspace.team.slug}/{workspace.key}/snapshots/"' in text
    assert "objects are sound." in text
    assert "Freed 0" in text
    assert Upkeep.objects.get(work=Work.COLLECT).outcome["workspaces"][str(workspace.pk)] > 200_000
    alone = [upkeep.weight_of(snapshot) for snapshot in workspace.snapshots.order_by("number")]
    assert alone[0] < 5_000 < 100_000 < alone[1] < 110_000
    assert "that only it needs" in read(browser_of(vera), f"/w/{workspace.team.slug}/{workspace.key}/snapshots/2/")


def test_damage_is_named_until_it_is_mended(workspace, kept, vera, alice, browser_of, read):
    store, tree = kept
    two = bytes(Snapshot.objects.get(workspace=workspace, number=2).tree).hex()
    flip(store, two, b"second.bin")
    assert round_of(Work.CHECK).ok is True  # only a check of every byte sees that
    assert round_of(Work.CHECK, full=True).ok is False
    text = read(browser_of(alice), "/storage/")
    assert "The store is damaged." in text
    assert f'<code>second.bin</code> in <a href="/w/{workspace.team.slug}/{workspace.key}/snapshots/2/">' in text
    assert "first.bin" not in text
    assert "are damaged" in read(browser_of(vera), "/")
    assert Event.objects.filter(verb="store.damaged").count() == 1
    assert round_of(Work.CHECK).ok is False  # a lighter check does not wash it away
    mended = round_of(Work.REPAIR)
    assert (mended.ok, mended.outcome["lost"]) == (True, 1)
    assert Store.open(store.path).snapshot(tree, hold=0).tree == two  # whoever still has the file stores it again
    assert round_of(Work.REPAIR).outcome["lost"] == 0
    assert round_of(Work.CHECK, full=True).ok is True
    assert "are damaged" not in read(browser_of(vera), "/")
    assert len(store.read(two, b"second.bin")) == 100_000


def test_who_may_have_it_done(kept, team, vera, lena, mallory, browser_of):
    for person, status in ((vera, 403), (lena, 403), (mallory, 404)):
        for what in ("check", "collect", "repair", "stop"):
            response = browser_of(person).post(f"/storage/{team.slug}/{what}/", {"work": "check"})
            assert (response.status_code, person, what) == (status, person, what)
    assert Upkeep.objects.count() == 0


def test_it_is_asked_for_once_and_can_be_stopped(kept, team, alice, browser_of, read):
    store, person = kept[0], browser_of(alice)
    person.post(f"/storage/{team.slug}/check/", {"full": "yes"})
    row = Upkeep.objects.get()
    assert (row.work, row.full, row.by["label"], row.ended_at) == ("check", True, "alice", None)
    assert "waiting for the queue" in read(person, "/storage/")
    with pytest.raises(Problem, match="under way"):
        upkeep.ask(team, Work.CHECK, by=NIGHT)
    assert upkeep.in_turn(Work.CHECK) == []
    person.post(f"/storage/{team.slug}/stop/", {"work": "check"})
    assert "It was asked to stop." in read(person, "/storage/")
    tasks.look_after(str(row.pk), row.round)
    row.refresh_from_db()
    assert (row.ok, row.outcome["cancelled"]) == (None, True)
    assert "The last check was stopped as asked." in read(person, "/storage/")
    tasks.look_after(str(row.pk), row.round)  # a second time does nothing
    assert Event.objects.filter(verb__startswith="store.").count() == 2
    assert store.verify(full=True).ok


@pytest.mark.parametrize("work", list(Work))
def test_each_work_that_was_stopped_leaves_the_store_as_it_was(kept, team, work):
    store, before = kept[0], (kept[0].path / "head").read_bytes()
    row = upkeep.ask(team, work, by=NIGHT)
    upkeep.stop(team, work, by=NIGHT)
    assert upkeep.carry_out(row).outcome == {"ok": False, "cancelled": True, "reason": upkeep.STOPPED}
    assert (store.path / "head").read_bytes() == before
    assert store.verify(full=True).ok


def test_what_its_worker_died_over_is_said_and_can_be_asked_for_again(kept, team, alice, browser_of, read):
    upkeep.ask(team, Work.CHECK, by=NIGHT)
    Upkeep.objects.update(noted_at=clock.now() - 2 * upkeep.LOST, started_at=clock.now())
    assert "The last check was cut off." in read(browser_of(alice), "/storage/")
    assert round_of(Work.CHECK).ok is True


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
    effect = Effect.objects.create(
        workspace=workspace,
        kind=f"{lifecycle.KINDS}.create",
        phase="started",
        exclusive=True,
        due_at=clock.now(),
        progress={"step": step, "done": 4000, "total": None, "bytes": 10},
    )
    lead, here = browser_of(lena), f"/w/{workspace.team.slug}/{workspace.key}/moves/{effect.pk}/"
    text = lead.get(here).content.decode()
    assert ("Stop it" in text, "4,000 entries" in text) == (may, True)
    lead.post(f"{here}stop/")
    effect.refresh_from_db()
    assert (effect.cancelled_at is not None) == may
