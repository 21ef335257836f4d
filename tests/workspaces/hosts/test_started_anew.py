"""A host that was started anew: it takes over its own Runs that live on in a cluster, and before anything else."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync

from dashboard.database import clock
from dashboard.models import Actor, Event
from tests.pages.conftest import keep_tree, make_command, runner, workspace  # noqa: F401 - fixtures
from tests.workspaces.hosts.test_take_lead import Cluster, lost  # noqa: F401 - a fixture
from workspaces import operations
from workspaces.drivers.base import BackendLost, DriverError, OutOfReach
from workspaces.host import paths, run_leads
from workspaces.models import Operation, Phase, Run, Workspace
from workspaces.runner.reconcile import started_anew

BY = Actor.system("runner")
UNKNOWN = "Its host b was started anew. Whether this ran is unknown."


@dataclass
class Record:
    """What the driver has of a Run on this host; `leads`: its connection is there."""

    run_id: str
    leads: bool = False
    stopping: bool = False


class OwnCluster(Cluster):
    """The same driver at the host that started the Run; `lacks`: its files are not there."""

    name = "kubernetes"
    lacks = True

    def __init__(self):
        super().__init__()
        self.left = []

    async def records(self):
        return self.left

    async def take_over(self, spec, needed):
        owner = await super().take_over(spec, needed)
        self.left = [Record(spec.run_id, leads=True)]
        return owner

    async def leads(self, owner):
        return owner.leads

    def lacks_files(self, spec):
        return self.lacks


class Started:
    """Host b, which has led the workspace's Run and was stopped; `start()` starts it again."""

    def __init__(self, lost, runner):  # noqa: F811
        self.workspace, self.run, self.carry_out = lost.workspace, lost.run, runner
        self.daemon, self.cluster = runner.daemon, OwnCluster()
        self.daemon.row = lost.runner
        self.daemon._drivers["kubernetes"] = self.cluster
        self.daemon.network = SimpleNamespace(open_for_run=self._opened)
        Run.objects.update(ready_at=clock.now())
        run_leads.keep(self.run, "what it takes")

    async def _opened(self, *_):
        pass

    def start(self) -> list[str]:
        """Return the kinds of what is asked for then."""
        known = set(Operation.objects.values_list("pk", flat=True))
        async_to_sync(started_anew.take_over)(self.daemon)
        return [each.kind for each in Operation.objects.exclude(pk__in=known)]

    def begun(self, kind: str, phase=Phase.STARTED, **fields) -> Operation:
        asked = operations.submit(kind, workspace=self.workspace, by=BY, **fields)
        Operation.objects.filter(pk=asked.pk).update(phase=phase, runner=self.daemon.row)
        return asked

    def asked(self) -> Operation:
        return Operation.objects.get(kind="take_lead")

    def claimable(self) -> list[str]:
        return [each.kind for each in operations.claimable(self.daemon.row)]


@pytest.fixture
def host(runner, lost):  # noqa: F811
    return Started(lost, runner)


def test_what_it_led_is_taken_over_with_a_higher_epoch(host):
    was = Run.objects.get()
    assert host.start() == ["take_lead"]
    run, found = Run.objects.get(), Workspace.objects.get()
    assert (found.lead_epoch, run.lead_epoch) == (host.workspace.lead_epoch + 1, host.workspace.lead_epoch + 1)
    assert (run.ready_at, run.ended_at, found.reason) == (None, None, "b was started anew, and takes over what runs.")
    assert host.start() == []  # stopped again before that was done
    host.carry_out()
    assert host.cluster.taken == [(str(run.pk), "what it takes")]
    assert (Run.objects.get().ready_at, host.asked().outcome) == (was.ready_at, {"ok": True})
    words = "b was started anew and leads it again. Its files are as they were; "
    words += "commands and terminals that ran were ended."
    assert Workspace.objects.get().reason == words
    assert Event.objects.get(verb="workspace.lead_taken").data == {"host": "b", "reason": words}


def test_what_ran_is_uncertain_and_a_stop_is_done_after_it(host):
    command = host.begun("command")
    stop = host.begun("stop", exclusive=True)
    host.daemon.ledger.write(stop.pk, 0, "started")
    host.start()
    command.refresh_from_db()
    assert (command.phase, command.outcome["reason"]) == (Phase.UNCERTAIN, UNKNOWN)
    assert Operation.objects.get(pk=stop.pk).phase == Phase.DUE
    assert host.daemon.ledger.get(stop.pk)[1] == "claimed"
    assert host.claimable() == ["take_lead"]


def test_what_was_asked_for_meanwhile_waits_also_while_the_cluster_is_silent(host):
    for kind in ("command", "stop"):
        host.begun(kind, Phase.DUE, exclusive=kind == "stop")
    host.start()
    host.cluster.troubles = [BackendLost("It does not answer.")]
    host.carry_out()
    asked = host.asked()
    assert (asked.phase, asked.progress["waits"]) == (Phase.DUE, "It does not answer.")
    assert asked.due_at > clock.now()
    assert host.claimable() == []
    Operation.objects.filter(pk=asked.pk).update(due_at=clock.now())
    host.carry_out()
    assert host.claimable() == ["command", "stop"]


def test_a_pod_that_cannot_be_reached_now_is_waited_for(host):
    host.start()
    host.cluster.troubles = [OutOfReach("It does not answer.")]
    host.carry_out()
    assert (host.asked().phase, host.asked().progress["waits"]) == (Phase.DUE, "It does not answer.")
    assert Run.objects.get().ended_at is None


def test_a_pod_that_is_gone_is_closed_and_resumed_from_the_newest_snapshot(host):
    host.start()
    host.cluster.troubles = [DriverError("Its pod is gone, and its files with it.")]
    host.carry_out()
    closing, resume = Operation.objects.filter(phase=Phase.DUE).order_by("due_at", "created_at")
    why = ["lost", "It could not be taken over: Its pod is gone, and its files with it."]
    assert (closing.kind, closing.args["why"], resume.kind) == ("ended", why, "resume")
    assert host.claimable() == ["ended"]
    assert not paths.tree_of(host.workspace).exists()  # an empty one would be kept as its newest snapshot


def test_a_host_with_its_disk_takes_over_what_it_is_not_connected_to(host):
    host.cluster.lacks = False
    host.cluster.left = [Record(str(host.run.pk), leads=True)]
    assert host.start() == []
    host.cluster.left = [Record(str(host.run.pk), stopping=True)]
    assert host.start() == []
    host.cluster.left = [Record(str(host.run.pk))]
    assert host.start() == ["take_lead"]


def test_a_run_whose_files_are_back_is_not_taken_over(host):
    host.cluster.lacks = False
    assert host.start() == []


def test_a_run_of_an_older_version_is_not_taken_over(host):
    host.run.lead.delete()
    assert host.start() == []


def test_what_was_being_created_is_not_taken_over(host):
    host.begun("create", exclusive=True)
    assert host.start() == []


def test_another_hosts_run_is_left_alone(host, lost):  # noqa: F811
    other = type(lost.runner).objects.create(host="c", heartbeat_at=clock.now())
    Run.objects.update(runner=other)
    Workspace.objects.update(runner=other)
    assert host.start() == []
