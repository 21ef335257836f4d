"""Another host takes over a pod that lives on: its files and programs are there, and the former host is refused."""

import json
import os
import signal
from dataclasses import replace

import pytest

from tests.support.waiting import until
from tests.workspaces.drivers.runs import Blocking, driver_of, finish
from tests.workspaces.kubernetes.test_wrong import is_keeper_of
from workspaces.drivers.base import DriverError, OutOfReach, RunSpec
from workspaces.drivers.init_client import InitClient
from workspaces.drivers.kubernetes import bridged
from workspaces.drivers.kubernetes.driver import KubernetesDriver

KEEPER = "keeper.pyz\0keep"  # in its command line


class OtherHost:
    """Another home, to which the cluster is the same."""

    def __init__(self, ground, run):
        for name in ("handrail", "run", "tree", "home"):
            (ground / name).mkdir(parents=True)
        self.driver = driver_of("kubernetes", ground)
        self.do = Blocking(self.driver)
        self.spec = replace(run.spec, workspace=ground / "tree", home=ground / "home", lead=run.spec.lead + 1)

    def sh(self, owner, command: str) -> tuple[str, int]:
        with InitClient(owner.address.socket) as init:
            argv = ["/bin/sh", "-c", command]
            return finish(init, init.start(argv, env=dict(owner.address.env), cwd="/workspace", stdio="pipe"))


class HostAlone:
    """A host that never asks the cluster."""

    def __init__(self, ground):
        for name in ("handrail", "run", "tree", "home"):
            (ground / name).mkdir(parents=True)
        self.ground = ground
        self.driver = KubernetesDriver(ground / "handrail", ground / "run", {"at": "namespace"})

    def spec(self, *, lead=1, **how) -> RunSpec:
        return RunSpec("run", "workspace", "key", self.ground / "tree", self.ground / "home", lead=lead, **how)


@pytest.fixture
def other_host(tmp_path):
    """`other_host(run)`: another host of the installation, with the folders that the workspace has there."""
    made = []

    def make(run) -> OtherHost:
        made.append(OtherHost(tmp_path / f"other-{len(made)}", run))
        return made[-1]

    yield make
    for host in made:
        for owner in host.do.records():
            host.do.stop(owner, grace_s=0.0)
            host.do.clear(owner)


@pytest.mark.parametrize("runtime_class", ["", "gvisor"])
def test_a_host_that_is_killed_costs_its_pod_no_file_and_nothing_in_the_background(pod, other_host, runtime_class):
    run = pod(lead=1, runtime_class=runtime_class)
    run.sh("echo since the newest snapshot > note")
    counting = run.leave("while :; do sleep 0.2; echo on >> counted; done")
    needed = run.do.what_leads(run.owner)
    os.kill(run.owner.pid, signal.SIGKILL)
    other = other_host(run)
    owner = other.do.take_over(other.spec, needed)
    assert other.do.alive(owner) is True
    assert other.sh(owner, "cat note") == ("since the newest snapshot\n", 0)
    assert other.sh(owner, f"kill -0 {counting}")[1] == 0
    assert other.do.take_over(other.spec, needed).run_id == owner.run_id  # as after a runner that was killed meanwhile
    assert other.do.alive(owner) is True
    other.do.stop(owner)
    assert (other.spec.workspace / "note").read_text() == "since the newest snapshot\n"
    assert not other.driver.lacks_files(other.spec)


def test_its_programs_keep_the_variables_with_which_the_pod_was_started(tmp_path):
    hosts = [HostAlone(tmp_path / name) for name in ("a", "b")]
    folder = hosts[0].driver._folder("run")
    folder.mkdir(parents=True)
    (folder / "config").write_text(json.dumps({"key": "secret", "lead": ["workspace", 1]}))
    (folder / "pod.json").write_text(json.dumps({"name": "hr-run", "home": "/a/home"}))
    spec = hosts[0].spec(env={"SET_AT_THE_START": "1"})
    told = {"config": {"key": "secret"}, "pod": {"name": "hr-run"}, "limits": ["memory"], "image": None}
    record = hosts[0].driver._record_of(spec, told | {"env": dict(spec.env)})
    needed = json.loads(hosts[0].driver._what_leads(record))
    assert needed == told | {"env": {"SET_AT_THE_START": "1"}}
    hosts[1].driver._folder("run").mkdir(parents=True)
    taken = hosts[1].driver._record_of(hosts[1].spec(env={"SET_SINCE": "1"}, lead=2), needed)
    assert (taken.address.env, taken.address.lead) == ({"SET_AT_THE_START": "1"}, ("workspace", 2))


def test_programs_that_no_shim_adopts_end(pod, other_host):
    run = pod(lead=1)
    with InitClient(run.owner.address.socket) as init:
        os.close(run.begin(init, "trap '' TERM; while :; do echo on; sleep 0.1; done", stdio="pty").fd)
        os.kill(run.owner.pid, signal.SIGKILL)
    other = other_host(run)
    owner = other.do.take_over(other.spec, run.do.what_leads(run.owner))
    assert other.do.processes(owner) != []
    other.do.end_unadopted(owner)
    until(lambda: other.do.processes(owner) == [])
    assert other.sh(owner, "echo here") == ("here\n", 0)


def test_the_former_host_is_refused_and_leaves_the_pod_alone(pod, other_host):
    run = pod(lead=1)
    other = other_host(run)
    owner = other.do.take_over(other.spec, run.do.what_leads(run.owner))
    until(lambda: not run.again().alive(run.owner))  # its bridge ends
    with pytest.raises(DriverError, match="can't be reached"):
        run.driver._revive(run.owner)
    log = (run.driver._folder(run.spec.run_id) / "log").read_text()
    assert "another runner leads this workspace (epoch 2, not 1)" in log
    run.again().let_go(run.owner)
    assert run.do.records() == []
    assert other.sh(owner, "echo here") == ("here\n", 0)


def test_a_pod_that_does_not_answer_now_can_be_waited_for(pod, other_host, monkeypatch):
    run = pod(lead=1)
    run.sh("echo since the newest snapshot > note")
    uid = run.driver.pods.find(run.spec.run_id).metadata.uid
    [keeper] = [int(name) for name in os.listdir("/proc") if name.isdigit() and is_keeper_of(int(name), KEEPER, uid)]
    needed, other = run.do.what_leads(run.owner), other_host(run)
    os.kill(run.owner.pid, signal.SIGKILL)
    os.kill(keeper, signal.SIGSTOP)
    try:
        monkeypatch.setattr(bridged, "FETCH_S", 1.0)
        with pytest.raises(OutOfReach, match=r"can't be reached\. The cluster has not ended it"):
            other.do.take_over(other.spec, needed)
    finally:
        os.kill(keeper, signal.SIGCONT)
    monkeypatch.undo()
    owner = other.do.take_over(other.spec, needed)
    assert other.sh(owner, "cat note") == ("since the newest snapshot\n", 0)


def test_a_pod_that_is_gone_is_not_taken_over(pod, other_host):
    run = pod(lead=1)
    needed = run.do.what_leads(run.owner)
    run.driver.pods.delete(run.spec.run_id, grace_s=0)
    until(lambda: not run.again().alive(run.owner))
    other = other_host(run)
    with pytest.raises(DriverError, match="Its pod is gone, and its files with it"):
        other.do.take_over(other.spec, needed)
    assert other.do.records() == []
    assert not other.driver.lacks_files(other.spec)


def test_a_lower_epoch_takes_nothing_over(pod, other_host):
    run = pod(lead=3)
    other = other_host(run)
    with pytest.raises(DriverError, match="can't be reached"):
        other.do.take_over(replace(other.spec, lead=2), run.do.what_leads(run.owner))
    assert run.sh("echo here") == ("here\n", 0)
