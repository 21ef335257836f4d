"""A simulated year ends with exactly what the rules say, by an independent model, on disk too, and after kills."""

import random
from contextlib import suppress
from datetime import timedelta

import pytest
from django.db import connection

from tests.support.retention_year import START, World
from workspaces.models import Snapshot
from workspaces.services import retention
from workspaces.store import LocalTree, Missing, Store

DAYS = 365


class Killed(BaseException):
    """The process died here; what was not committed is lost."""


def at(day: int):
    return START + timedelta(days=day + 1)


def test_a_year_ends_with_what_the_rules_say(team, django_assert_max_num_queries):
    world = World(team, workspaces=5, a_day=2.5, seed=1)
    for day in range(DAYS):
        world.day(day)
        if day % 14 == 0 or day == DAYS - 1:
            retention.sweep_team(team, at=at(day))
            world.model.sweep(at(day))
            assert world.differences() == [], day
    assert len(world.model.snapshots) > 850
    assert 100 < len(world.model.kept()) < 500
    assert len(world.model.in_trash()) > 5
    with django_assert_max_num_queries(60):  # however many workspaces and snapshots there are
        assert retention.dry_run(team, at=at(DAYS - 1)).total == 0


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "work"
    made.mkdir()
    return made


def test_the_bytes_on_disk_are_those_of_what_is_kept(team, folder, tmp_path):
    store, contents = Store.create(tmp_path / "store"), {}
    pick = random.Random(2)

    def tree_of(key: str, number: int) -> bytes:
        for path in folder.iterdir():
            path.unlink()
        (folder / "shared").write_bytes(b"the same everywhere" * 500)
        (folder / "own").write_bytes(pick.randbytes(pick.randrange(1_000, 6_000)))
        taken = store.snapshot(LocalTree(folder), hold=0).tree
        contents[taken] = (folder / "own").read_bytes()
        return bytes.fromhex(taken)

    world = World(team, workspaces=3, a_day=0.5, seed=2, tree_of=tree_of)
    for day in range(DAYS):
        world.day(day)
        if day % 60 == 0 or day == DAYS - 1:
            retention.sweep_team(team, at=at(day))
            world.model.sweep(at(day))
            store.gc({bytes(tree).hex() for tree in Snapshot.objects.values_list("tree", flat=True)})
    assert world.differences() == []
    kept = {bytes(tree).hex() for tree in Snapshot.objects.values_list("tree", flat=True)}
    assert 20 < len(kept) < len(contents) - 20
    for tree, content in contents.items():
        if tree in kept:
            assert store.read(tree, b"own") == content
        else:
            with pytest.raises(Missing):
                store.read(tree, b"own")
    told = store.forecast([], kept)
    assert (told.freed, told.waiting) == (0, 0)
    store.gc(kept, rewrite=True)
    on_disk = sum(path.stat().st_size for path in (store.path / "packs").iterdir())
    needed = sum(len(contents[tree]) for tree in kept)
    # Random content does not compress: what is more are the folders, and one shared file.
    assert needed < on_disk < needed + 600 * len(kept) + 10_000


class Deadly:
    """Around each statement to the database: dies at one of them, as often as it is armed."""

    def __init__(self, pick: random.Random):
        self.pick, self.left, self.kills = pick, 0, 0

    def arm(self):
        self.left = self.pick.randrange(1, 120)

    def __call__(self, execute, sql, params, many, context):
        if self.left:
            self.left -= 1
            if not self.left:
                self.kills += 1
                raise Killed
        return execute(sql, params, many, context)


def test_a_sweep_that_is_killed_anywhere_goes_on_and_ends_the_same(team):
    world, deadly = World(team, workspaces=3, a_day=1.0, seed=3), Deadly(random.Random(3))
    for day in range(DAYS):
        world.day(day)
        if day % 28 and day != DAYS - 1:
            continue
        for _ in range(3):
            deadly.arm()
            with suppress(Killed), connection.execute_wrapper(deadly):
                retention.sweep_team(team, at=at(day))
        retention.sweep_team(team, at=at(day))
        world.model.sweep(at(day))
        assert world.differences() == [], day
    assert deadly.kills >= 15
