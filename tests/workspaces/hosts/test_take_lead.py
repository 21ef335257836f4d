"""What another host does when it takes over a living Run: it waits for the cluster, and opens what programs trust."""

import asyncio
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync, sync_to_async

from dashboard.database import clock
from dashboard.models import Actor
from tests.pages.conftest import keep_tree, workspace  # noqa: F401 - a fixture
from workspaces import operations
from workspaces.drivers.base import BackendLost, DriverError, OutOfReach
from workspaces.egress import authority
from workspaces.host import run_leads
from workspaces.models import Environment, Operation, Phase, Run, Runner, State, Workspace
from workspaces.runner import leashes, working
from workspaces.secrets import credentials

BY = Actor.system("manage.py host")
HOSTS = [{"host": "api.example.org", "paths": ["/*"], "methods": ["GET"]}]


class Cluster:
    """A driver whose Run another host has started; `troubles` are raised one after the other."""

    capabilities = SimpleNamespace(files_need_run=True, elsewhere=True)

    def __init__(self):
        self.troubles, self.taken = [], []

    async def held_up(self):
        if self.troubles and isinstance(self.troubles[0], BackendLost):
            raise self.troubles.pop(0)

    async def take_over(self, spec, needed):
        if self.troubles:
            raise self.troubles.pop(0)
        self.taken.append((spec.run_id, needed))
        return SimpleNamespace(run_id=spec.run_id, host="b", boot_id="", pid=1, start_time=1, image="", began=True)

    async def end_unadopted(self, owner):
        self.ended_others = True

    async def alive(self, owner):
        return True

    def tree(self, owner, *, cache):
        return SimpleNamespace(recover=lambda journal: None)

    def tree_at_rest(self, folder, *, cache=None, home=None):
        return None


class Daemon:
    """As much of a runner as one operation asks for."""

    def __init__(self, row):
        self.row, self.cluster, self.written = row, Cluster(), {}
        self.ledger = SimpleNamespace(get=self.written.get, write=self._write)
        self.probes = SimpleNamespace(due=asyncio.Event())
        self.network = SimpleNamespace(open_for_run=self._open_for_run)

    def _write(self, pk, epoch, phase):
        self.written[pk] = (epoch, phase)

    def in_loop(self, function):
        function()

    def recover(self, taken):
        self.recovered = taken

    async def _open_for_run(self, *_):
        pass

    async def thread(self, function, *args, **kwargs):
        return await sync_to_async(function)(*args, **kwargs)

    def expect_cancel(self, job):
        pass

    def driver(self, name):
        return self.cluster

    async def owner_of(self, driver, pk):
        return SimpleNamespace(run_id=str(pk))

    def tree_lock(self, pk):
        return asyncio.Lock()


@pytest.fixture
def lost(workspace, team, settings, tmp_path):  # noqa: F811
    """The workspace is up as a pod of host a, which is lost, and host b has been asked to take it over."""
    settings.HANDRAIL_HOST_NAME, settings.HANDRAIL_BUCKET = "b", "s3://bucket"
    Environment.objects.filter(pk=workspace.environment_id).update(driver="kubernetes")
    runner = Runner.objects.create(host="b", heartbeat_at=clock.now())
    keep_tree(team, tmp_path / "files", {"a": "1"})
    Workspace.objects.filter(pk=workspace.pk).update(runner=runner, state=State.READY)
    run = Run.objects.create(workspace=workspace, runner=runner, started_at=clock.now())
    return SimpleNamespace(workspace=Workspace.objects.get(pk=workspace.pk), run=run, runner=runner)


@pytest.fixture
def credential(lost):
    """A credential that the programs of the workspace may use."""
    wish = {
        "value": "a-value-of-twenty-chars",
        "header": "Authorization: Bearer {}",
        "hosts": HOSTS,
        "variable": "TOKEN",
    }
    environments = [lost.workspace.environment.name]
    return credentials.save(lost.workspace.team, "api", wish | {"environments": environments}, by=BY)


@pytest.fixture
def take(lost):
    """`take(*troubles)`: what the operation is after one attempt of host b, at which these are raised."""
    daemon = Daemon(lost.runner)
    args = {"run": str(lost.run.pk), "host": "a", "ready_at": clock.now().isoformat()}
    asked = operations.submit("take_lead", workspace=lost.workspace, by=BY, args=args, exclusive=True)

    def once(*troubles) -> Operation:
        daemon.cluster.troubles = list(troubles)
        claimed = operations.claim(Operation.objects.get(pk=asked.pk), lost.runner)
        async_to_sync(working.carry_out)(daemon, claimed, False)
        return Operation.objects.get(pk=asked.pk)

    once.taken, once.daemon = daemon.cluster.taken, daemon
    return once


def test_a_cluster_that_does_not_answer_is_waited_for(lost, take):
    run_leads.keep(lost.run, "what it takes")
    for trouble in (BackendLost("It does not answer."), BackendLost("It still does not answer.")):
        waits = take(trouble)
        assert (waits.phase, waits.progress["waits"]) == (Phase.DUE, str(trouble))
        assert Run.objects.get().ended_at is None
    done = take()
    assert (done.phase, done.outcome) == (Phase.SETTLED, {"ok": True})
    assert take.taken == [(str(lost.run.pk), "what it takes")]
    assert Run.objects.get().ready_at is not None


@pytest.mark.parametrize("trouble", [DriverError("Its pod is gone."), OutOfReach("Its pod is gone.")])
def test_a_pod_that_is_gone_or_out_of_reach_is_not_waited_for(lost, take, trouble):
    run_leads.keep(lost.run, "what it takes")
    done = take(trouble)
    assert done.outcome["reason"] == "It could not be taken over: Its pod is gone."
    assert Run.objects.get().end_code == "lost"
    assert Workspace.objects.get().state == State.ARCHIVED


def test_the_authority_that_its_programs_trust_comes_along(lost, take, credential, tmp_path):
    (tmp_path / "of host a").mkdir()
    file = tmp_path / "of host a" / "authority.pem"
    authority.make(file)
    run_leads.keep(lost.run, "what it takes", file.read_text())
    assert take().outcome["ok"]
    assert leashes.authority_of(lost.workspace) == file.read_text()
    assert leashes.file_of(lost.workspace).stat().st_mode & 0o777 == 0o600


def test_programs_that_trust_no_authority_get_none(lost, take, credential):
    run_leads.keep(lost.run, "what it takes")
    assert take().outcome["ok"]
    assert not leashes.file_of(lost.workspace).exists()
