"""Commands and terminals of a pod whose host is lost: the next host goes on with them, and begins none again."""

import asyncio
from types import SimpleNamespace

import pytest

from dashboard.database import clock
from tests.pages.conftest import keep_tree, workspace  # noqa: F401 - fixtures
from tests.support.waiting import until
from tests.workspaces.hosts.test_take_lead import lost, take  # noqa: F401 - fixtures
from tests.workspaces.shim.a_pod import Pod
from workspaces import operations
from workspaces.drivers.base import Address, DriverError
from workspaces.host import paths, program_leads, run_leads
from workspaces.lifecycle import led_on, lost_hosts
from workspaces.models import Command, EndCode, Operation, Phase, ProgramLead, Run, Runner
from workspaces.programs import kept_recordings
from workspaces.runner import keeping
from workspaces.secrets import rotation
from workspaces.shim import client
from workspaces.shim.pool import REDACTION
from workspaces.shim.record import Exit, Handed, ShimSpec, write_exit

SECRET = (("TOKEN", "swordfish-of-the-sea"),)
WAITS = "echo a swordfish-of-the-sea; while [ ! -e go ]; do sleep 0.02; done; exit 7"
NOWHERE = Address("")


@pytest.fixture
def begun(lost):  # noqa: F811
    """A command that host a has begun, and that can go on elsewhere."""
    run_leads.keep(lost.run, "what it takes")
    host = Runner.objects.create(host="a", heartbeat_at=clock.now())
    how = {"phase": Phase.STARTED, "runner": host, "epoch": 3, "started_at": clock.now(), "due_at": clock.now()}
    operation = Operation.objects.create(workspace=lost.workspace, kind="command", **how)
    Command.objects.create(workspace=lost.workspace, operation=operation, argv=["sh"], shown="sh")
    spec = ShimSpec.shell(WAITS, NOWHERE, timeout_s=600)
    assert program_leads.keep(operation, lost.run.pk, spec, SECRET)
    return operation


def now(operation) -> Operation:
    return Operation.objects.get(pk=operation.pk)


def test_only_what_another_host_can_lead_is_kept_for_it(lost, begun):  # noqa: F811
    row = ProgramLead.objects.get()
    fields = {"argv": ["/bin/sh", "-c", WAITS], "pty": False, "cols": 80, "rows": 24, "timeout_s": 600, "ring": None}
    assert program_leads.read(row) == program_leads.Led(fields, SECRET)
    assert b"swordfish" not in bytes(row.value)
    assert any(rows.model is ProgramLead for rows, _about in rotation.encrypted_columns())
    Run.objects.filter(pk=lost.run.pk).end(EndCode.LOST)
    assert not ProgramLead.objects.exists()
    assert program_leads.keep(begun, lost.run.pk, ShimSpec((), NOWHERE), ()) is False


def test_it_is_handed_on_as_begun_and_nobody_recovers_it_before_it_is_adopted(lost, begun):  # noqa: F811
    assert led_on.hand_on(begun, lost.runner) is True
    found = now(begun)
    assert (found.phase, found.runner, found.epoch) == (Phase.STARTED, lost.runner, 4)
    with pytest.raises(operations.StaleEpoch):
        operations.settle(begun, {"ok": True})  # by the former host
    assert not Operation.objects.in_flight().exclude(lead__waits=True).exists()
    how = {"phase": Phase.CLAIMED, "due_at": clock.now()}
    claimed = Operation.objects.create(workspace=lost.workspace, kind="command", **how)
    assert led_on.hand_on(claimed, lost.runner) is False
    assert led_on.left_behind(lost.runner) == [lost.run]
    lost_hosts.end_left_behind(lost.runner)
    assert (now(begun).phase, ProgramLead.objects.count()) == (Phase.UNCERTAIN, 0)


@pytest.fixture
def pod(tmp_path, lost, begun, take):  # noqa: F811
    """The pod in which it runs; `take` takes it over, with the shims that it needs."""
    (tmp_path / "pod").mkdir()
    made = Pod(tmp_path / "pod", 1 << 20)
    cluster = take.daemon.cluster

    async def take_over(spec, needed):
        made.lose_host()
        cluster.address = await asyncio.to_thread(made.led)
        about = {"host": "b", "boot_id": "", "pid": 1, "start_time": 1, "image": "", "began": True}
        return SimpleNamespace(run_id=spec.run_id, address=cluster.address, **about)

    async def end_unadopted(owner):
        await asyncio.to_thread(made.abandon, cluster.address)

    cluster.take_over, cluster.end_unadopted = take_over, end_unadopted
    yield made
    made.end()


def start(pod, kept_as: str):
    spec = ShimSpec.shell(WAITS, pod.led(), kept_as=kept_as)
    asyncio.run(client.start(pod.ground / "shim", spec, Handed(hidden=SECRET, packages=REDACTION)))


def children(pod) -> str:
    with open(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children") as file:
        return file.read().strip()


def test_it_goes_on_under_a_shim_of_the_new_host(lost, begun, take, pod, django_capture_on_commit_callbacks):  # noqa: F811
    start(pod, str(begun.pk))
    led_on.hand_on(begun, lost.runner)
    with django_capture_on_commit_callbacks(execute=True):
        assert take().outcome == {"ok": True, "adopted": [str(begun.pk)]}
    found = now(begun)
    assert (found.phase, found.runner, found.epoch) == (Phase.STARTED, lost.runner, 5)
    assert [(each.pk, each.epoch) for each in take.daemon.recovered] == [(begun.pk, 5)]
    assert not ProgramLead.objects.get().waits
    lost.workspace.refresh_from_db()
    assert lost.workspace.reason.endswith("; 1 of its commands and terminals goes on, any other was ended.")
    folder = paths.program_of(lost.workspace.pk, begun.pk)
    (pod.ground / "go").touch()
    end = asyncio.run(client.wait(folder, 20)).exit
    assert (end.reason, end.exit_status, (folder / "output").read_bytes()) == ("exited", 7, b"a [secret TOKEN]\n")


def test_what_the_pod_does_not_know_is_ended_and_uncertain(lost, begun, take, pod):  # noqa: F811
    start(pod, "another name")
    led_on.hand_on(begun, lost.runner)
    assert take().outcome == {"ok": True}
    until(lambda: not children(pod))
    found = now(begun)
    assert (found.phase, found.outcome["evidence"]["host"], found.runner.host) == (Phase.UNCERTAIN, "a", "a")
    assert not paths.program_of(lost.workspace.pk, begun.pk).exists()
    assert not ProgramLead.objects.exists()


def test_where_the_run_cannot_be_taken_over_it_is_uncertain(lost, begun, take):  # noqa: F811
    led_on.hand_on(begun, lost.runner)
    take(DriverError("Its pod is gone."))
    assert (now(begun).phase, ProgramLead.objects.count()) == (Phase.UNCERTAIN, 0)


def test_the_former_host_keeps_no_half_recording_of_it(lost, begun, monkeypatch):  # noqa: F811
    folder, kept = paths.program_of(lost.workspace.pk, begun.pk), []
    folder.mkdir(parents=True)
    write_exit(folder, Exit("lost"))
    monkeypatch.setattr(kept_recordings, "keep", kept.append)
    led_on.hand_on(begun, lost.runner)
    keeping._keep(folder, Runner.objects.get(host="a"))
    assert kept == []
    keeping._keep(folder, lost.runner)
    assert kept == [folder]
