"""A workspace moves to another host, cut at each arrow: it is whole at one place, and its old one is cleared.

Two runners over one database, each with a HANDRAIL_HOME of its own, and one store that both reach.
"""

import base64
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from dashboard.database import clock
from tests.support.odd_tree import ENTRIES, SCRIPT
from tests.workspaces.store.compare_trees import describe
from workspaces import operations
from workspaces.host import paths, place
from workspaces.models import Operation, Phase, Runner, State, StoreIdentity, Workspace
from workspaces.runner import snapshots
from workspaces.runner.daemon import Daemon
from workspaces.runner.job import Job
from workspaces.runner.ledger import Ledger
from workspaces.runner.operations import arrive, leave, move
from workspaces.services import hosts as service
from workspaces.services.hosts import moving

HERE = ("move.stopped", "move.kept", "move.sent", "leave.started")
THERE = ("arrive.restored", "arrive.proved", "arrive.switched", "arrive.placed")
SANDBOX = {"sandbox": {"available": True, "isolation": "namespace"}}


class Cut(BaseException):
    """The runner is killed here."""


class Host:
    """A runner whose loops do not run, with a home of its own."""

    def __init__(self, name: str, folder, settings):
        self.name, self.home, self.settings = name, folder / name, settings
        self.home.mkdir()
        (self.home / "stores").symlink_to(folder / "stores")
        self.row = Runner.objects.create(host=name, heartbeat_at=clock.now(), capabilities=SANDBOX)
        self.ledger = Ledger(self.home / "ledger")
        self.begin()

    def begin(self):
        """Start a new runner, which knows nothing of the last one."""
        with self.being():
            self.daemon = Daemon()
        self.daemon.thread = lambda function, *args, **kwargs: sync_to_async(function)(*args, **kwargs)
        self.daemon.row, self.daemon.ledger = self.row, self.ledger

    @contextmanager
    def being(self):
        before = self.settings.HANDRAIL_HOME, self.settings.HANDRAIL_HOST_NAME
        self.settings.HANDRAIL_HOME, self.settings.HANDRAIL_HOST_NAME = self.home, self.name
        try:
            yield self
        finally:
            self.settings.HANDRAIL_HOME, self.settings.HANDRAIL_HOST_NAME = before

    def work(self) -> bool:
        """Carry out what is due or was cut; return whether there was anything."""
        with self.being():
            under_way = list(Operation.objects.in_flight().filter(runner=self.row))
            for operation in under_way:
                async_to_sync(self.daemon._work)(operations.take_over(operation), True)
            due = operations.claimable(self.row)
            for operation in due:
                async_to_sync(self.daemon._work)(operations.claim(operation, self.row), False)
        return bool(due or under_way)

    def folder(self, workspace):
        with self.being():
            return paths.folder_of(workspace.pk)


@pytest.fixture
def hosts(db, tmp_path, settings, monkeypatch):
    """Two hosts, whose runners reach one store."""
    (tmp_path / "stores").mkdir()
    monkeypatch.setattr(place, "shares_store", lambda: True)
    made = [Host(name, tmp_path, settings) for name in ("a", "b")]
    yield made
    for host in made:
        host.ledger.close()


@pytest.fixture
def stopped(hosts, team, workspace):
    """A workspace of host a with a thousand entries of all kinds, a home and some output; it is stopped."""
    here = hosts[0]
    workspace.snapshots.all().delete()
    fields = {"runner": here.row, "placed_at": clock.now(), "state": State.STOPPED, "lead_epoch": 1}
    Workspace.objects.filter(pk=workspace.pk).update(head=None, baseline=None, next_snapshot=1, **fields)
    workspace.refresh_from_db()
    with here.being():
        folder = paths.make_folders(workspace)
        uid = workspace.uid if os.geteuid() == 0 else os.geteuid()
        script = base64.b64encode(SCRIPT.encode()).decode()
        command = f"import base64; exec(base64.b64decode('{script}'))"
        subprocess.run([sys.executable, "-c", command], cwd=folder / "tree", check=True)
        (folder / "home" / ".profile").write_text("mine\n")
        (folder / "programs" / "one").mkdir()
        (folder / "programs" / "one" / "output").write_text("printed\n")
        for top in (folder / "tree", folder / "home"):
            for path in (top, *top.rglob("*")):
                if os.geteuid() == 0:
                    os.chown(path, uid, uid, follow_symlinks=False)
        tree = snapshots.host_tree(workspace)
        snapshots.take(workspace, tree, kind="setup", by=moving.DRAIN)
    workspace.refresh_from_db()
    return workspace


def settle(hosts):
    for _ in range(10):
        found = [host.work() for host in hosts]
        if not any(found):
            return
    raise AssertionError(list(Operation.objects.open().values_list("kind", "phase")))


def asked(workspace, there):
    with there.being():
        moving.move(Workspace.objects.get(pk=workspace.pk), there.row, None, by=moving.DRAIN)


def is_whole_on(hosts, workspace, there, before):
    """It is on this host as it was, and nothing of it is on the other one."""
    found = Workspace.objects.get(pk=workspace.pk)
    assert (found.runner, found.state, found.reason) == (there.row, State.STOPPED, "")
    assert describe(there.folder(workspace) / "tree") == before
    assert (found.proof["differ"], found.proof["entries"] > ENTRIES) == (0, True)
    assert (there.folder(workspace) / "home" / ".profile").read_text() == "mine\n"
    assert (there.folder(workspace) / "programs" / "one" / "output").read_text() == "printed\n"
    assert not (there.folder(workspace) / "arriving").exists()
    [other] = [host for host in hosts if host is not there]
    assert not other.folder(workspace).exists()
    assert not Operation.objects.open().exists()


def test_it_goes_to_another_host_and_back_with_all_that_it_has(hosts, stopped):
    here, there = hosts
    before = describe(here.folder(stopped) / "tree")
    assert len(before[0]) > ENTRIES
    asked(stopped, there)
    settle(hosts)
    is_whole_on(hosts, stopped, there, before)
    assert Workspace.objects.get(pk=stopped.pk).lead_epoch == 2
    asked(stopped, here)
    settle(hosts)
    is_whole_on(hosts, stopped, here, before)
    kinds = Operation.objects.order_by("created_at").values_list("kind", "runner__host")
    assert list(kinds) == [
        ("move", "a"),
        ("arrive", "b"),
        ("leave", "a"),
        ("move", "b"),
        ("arrive", "a"),
        ("leave", "b"),
    ]


@pytest.mark.parametrize("point", [*HERE, *THERE])
def test_cut_at_each_arrow_it_is_whole_at_one_place_and_arrives(hosts, stopped, monkeypatch, point):
    here, there = hosts
    before = describe(here.folder(stopped) / "tree")
    cuts = [point]

    def failpoint(name):
        if name in cuts:
            cuts.remove(name)
            raise Cut(name)

    for module in (move, arrive, leave):
        monkeypatch.setattr(module, "failpoint", failpoint)
    asked(stopped, there)
    with pytest.raises(Cut):
        settle(hosts)
    found = Workspace.objects.get(pk=stopped.pk)
    is_there = found.runner == there.row
    assert is_there == (point in ("arrive.switched", "arrive.placed", "leave.started"))
    # A person who looks now sees whole files: those here, until the place is switched.
    if not is_there:
        assert describe(here.folder(stopped) / "tree") == before
    for host in hosts:
        host.begin()
    settle(hosts)
    is_whole_on(hosts, stopped, there, before)
    assert Operation.objects.filter(kind="arrive").count() == 1


def test_a_move_whose_other_end_falls_silent_leaves_it_where_it_is_and_cannot_switch_any_more(
    hosts, stopped, monkeypatch
):
    here, there = hosts
    before = describe(here.folder(stopped) / "tree")
    monkeypatch.setattr(arrive, "failpoint", lambda name: name == "arrive.proved" and stop(name))

    def stop(name):
        raise Cut(name)

    asked(stopped, there)
    with pytest.raises(Cut):
        settle(hosts)
    monkeypatch.setattr(arrive, "failpoint", lambda name: None)
    late = Operation.objects.get(kind="arrive", phase=Phase.STARTED)
    Runner.objects.filter(pk=there.row.pk).update(heartbeat_at=clock.now() - moving.TRY_AGAIN)
    moving.give_up_on_silent(here.row)
    job = Job(there.daemon, late)
    with pytest.raises(operations.StaleEpoch):
        arrive._switch(job)
    found = Workspace.objects.get(pk=stopped.pk)
    assert (found.runner, found.reason) == (here.row, "Nothing was moved: b does not answer.")
    assert describe(here.folder(stopped) / "tree") == before


def test_what_was_used_meanwhile_does_not_move(hosts, stopped):
    here, there = hosts
    asked(stopped, there)
    here.work()
    assert Operation.objects.get(kind="arrive").phase == Phase.DUE
    Workspace.objects.update(state=State.READY)
    there.work()
    assert Operation.objects.get(kind="arrive").outcome["reason"] == "Nothing was moved: it was used meanwhile."
    found = Workspace.objects.get(pk=stopped.pk)
    assert (found.runner, found.state) == (here.row, State.READY)
    assert not there.folder(stopped).exists()


def test_from_a_lost_host_it_comes_back_from_its_newest_snapshot(hosts, stopped):
    here, there = hosts
    before = describe(here.folder(stopped) / "tree")
    Workspace.objects.update(state=State.PAUSED)
    Runner.objects.filter(pk=here.row.pk).update(heartbeat_at=clock.now() - moving.TRY_AGAIN)
    service.declare_lost(Runner.objects.get(pk=here.row.pk), by=moving.DRAIN)
    settle([there])
    found = Workspace.objects.get(pk=stopped.pk)
    assert (found.runner, found.state, found.owed) == (there.row, State.PAUSED, {})
    assert describe(there.folder(stopped) / "tree") == before
    assert StoreIdentity.objects.count() == 1
