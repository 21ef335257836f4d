"""Pods that wait for a Run in a pool of agent-sandbox: how a Run gets one, and what becomes of the others."""

import json
import multiprocessing
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS, Blocking, Running, driver_of
from workspaces.drivers.base import DriverError, Limits, RunSpec
from workspaces.drivers.kubernetes import certificates
from workspaces.drivers.kubernetes.warm_pools import Pool, hand_over

FILES = {"agent/settings.json": b"{}", "trust/ca.pem": b"a certificate\n"}
MIB = 1 << 20


class Warm:
    """A Run that is up in a pod of its own, and the pool that was made after its start; Runs like it beside it."""

    def __init__(self, pod, **fields):
        self.first: Running = pod(**{"environment": "payments", "system_files": FILES} | fields)
        self.driver, self.source = self.first.driver, self.first.driver.pods.source
        self.made: list = []

    @property
    def pool(self) -> Pool:
        [pool] = self.driver.warm_pools._pools()
        return pool

    def waiting(self, number: int = 1) -> set[str]:
        """Return the UIDs of the pods that wait, once so many can be claimed."""
        until(lambda: self.source.waiting(self.pool.name)[0] == number)
        return {each.metadata.uid for each in self.source.waiting(self.pool.name)[1]}

    def spec(self, **fields) -> RunSpec:
        """A Run like the first, of another workspace."""
        number = len(self.made) + 2
        places = [self.first.ground / f"{name}-of-{number}" for name in ("tree", "home")]
        for place in places:
            place.mkdir()
        about = {"run_id": f"{self.first.spec.run_id}-{number}", "workspace_id": str(number)}
        spec = replace(self.first.spec, **about | {"workspace": places[0], "home": places[1]} | fields)
        self.made.append(spec)
        return spec

    def start(self, spec: RunSpec):
        Blocking(self.driver).prepare(spec)
        return Blocking(self.driver).start(spec)

    def uid_of(self, spec: RunSpec) -> str:
        return self.driver._known(spec.run_id)["uid"]

    def sh(self, owner, command: str) -> str:
        run = object.__new__(Running)
        run.owner = owner
        return run.sh(command)[0]

    def end(self) -> None:
        for owner in Blocking(self.driver).records():
            Blocking(self.driver).stop(owner, grace_s=0.0)
            Blocking(self.driver).clear(owner)
        self.driver.warm_pools.drop_all(lambda namespace: self.driver.pods.within(namespace).source)


@pytest.fixture
def warm(pod, agent_sandbox, monkeypatch):
    """`warm()`: a Run whose source of pods is agent-sandbox, where one pod waits for each environment."""
    made = []

    def make(**fields) -> Warm:
        for name, value in {"source": "agent-sandbox", "warm": 1}.items():
            monkeypatch.setitem(OPTIONS["kubernetes"], name, value)
        made.append(Warm(pod, **fields))
        return made[-1]

    yield make
    for each in made:
        each.end()


def test_a_run_gets_a_pod_that_waited_with_its_own_files_and_identity(warm):
    ground = warm()
    waiting = ground.waiting()
    spec = ground.spec(system_files=FILES | {"agent/of-the-run": b"own\n"})
    (spec.workspace / "note").write_text("brought in\n")
    owner = ground.start(spec)
    assert ground.uid_of(spec) in waiting
    assert ground.sh(owner, "cat note /etc/agent/of-the-run /etc/trust/ca.pem") == "brought in\nown\na certificate\n"
    assert ground.sh(owner, "id -un; ls -A /.handrail/once; touch /etc/agent/mine 2>&1 || echo refused") == (
        "agent\ntouch: cannot touch '/etc/agent/mine': Read-only file system\nrefused\n"
    )
    assert ground.sh(owner, "ls /.handrail") == "files\nonce\nprograms\n"  # neither the pool's Secret nor /etc's place
    assert ground.waiting() != waiting  # another one waits
    ground.sh(owner, "echo changed > note")
    Blocking(ground.driver).stop(owner)
    assert (spec.workspace / "note").read_text() == "changed\n"
    until(lambda: ground.driver.pods.find(spec.run_id) is None)


def test_the_key_of_a_pool_counts_no_more_for_a_pod_that_was_claimed(warm):
    ground = warm()
    ground.waiting()
    spec = ground.spec()
    owner = ground.start(spec)
    address = (ground.driver.pods.find(spec.run_id).status.podIP, 7443)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        hand_over(address, ground.pool.folder, {"etc.json": "{}"})
    assert ground.sh(owner, "echo on") == "on\n"


def test_a_pod_that_waits_takes_nothing_from_who_has_not_the_pools_key(warm, tmp_path):
    ground = warm()
    waiting = ground.waiting()
    [pod] = ground.source.waiting(ground.pool.name)[1]
    shutil.copy(ground.pool.folder / "keeper.crt", tmp_path)
    (tmp_path / "lead.pem").write_text("".join(certificates.pair("a stranger")))
    with pytest.raises(OSError, match=r"(?i)alert|closed|reset"):
        hand_over((pod.status.podIP, 7443), tmp_path, {"etc.json": "{}"})
    spec = ground.spec()
    ground.start(spec)
    assert ground.uid_of(spec) in waiting


def test_two_runs_at_once_get_a_pod_each(warm):
    ground = warm()
    ground.waiting()
    specs = [ground.spec(), ground.spec()]
    with ThreadPoolExecutor(2) as pool:
        owners = list(pool.map(ground.start, specs))
    assert len({ground.uid_of(spec) for spec in specs}) == 2
    assert [ground.sh(owner, "echo on") for owner in owners] == ["on\n"] * 2


def test_a_run_starts_cold_while_no_pod_waits(warm):
    ground = warm()
    ground.waiting()
    ground.source.keep_pool(ground.pool.name, 0, 600)
    until(lambda: not ground.source.waiting(ground.pool.name)[1])
    spec = ground.spec()
    owner = ground.start(spec)
    assert ground.driver.pods.find(spec.run_id).metadata.name == ground.driver.pods.name_of(spec.run_id)
    assert ground.sh(owner, "cat /etc/trust/ca.pem") == "a certificate\n"


def test_a_changed_environment_starts_cold_and_its_pool_takes_the_place_of_the_former(warm):
    ground = warm()
    waiting, former = ground.waiting(), ground.pool
    spec = ground.spec(limits=Limits(memory=200 * MIB))
    ground.start(spec)
    assert ground.uid_of(spec) not in waiting
    assert Blocking(ground.driver).warm(spec, is_new=False) is False  # it was made before the environment was changed
    assert ground.pool == former
    assert Blocking(ground.driver).warm(spec) is True
    assert ground.pool.name != former.name
    until(lambda: ground.source.pools({}) == [ground.pool.name])
    later = ground.spec(limits=Limits(memory=200 * MIB))
    new = ground.waiting()
    ground.start(later)
    assert ground.uid_of(later) in new
    assert Blocking(ground.driver).warm(later) is False


def test_a_pod_that_was_not_handed_over_is_deleted_and_the_run_starts_cold(warm):
    ground = warm()
    [claimed] = ground.waiting()
    (ground.pool.folder / "lead.pem").write_text("".join(certificates.pair("a stranger")))
    spec = ground.spec()
    owner = ground.start(spec)
    assert ground.uid_of(spec) != claimed
    assert ground.sh(owner, "echo on") == "on\n"
    until(lambda: claimed not in uids(ground))
    assert ground.source._get("SandboxClaim", ground.driver.pods.name_of(spec.run_id)) is None


def uids(ground) -> set[str]:
    from lightkube.resources.core_v1 import Pod

    return {each.metadata.uid for each in ground.driver.cluster.listed(Pod)}


def begin_and_hang(ground: Path, options: dict, spec: RunSpec) -> None:
    OPTIONS["kubernetes"] |= options
    Blocking(driver_of("kubernetes", ground)).start(spec)


def test_a_pod_whose_runner_was_killed_after_the_claim_is_found_and_deleted(warm):
    ground = warm()
    [claimed] = ground.waiting()
    key = ground.pool.folder / "lead.pem"
    key.unlink()
    os.mkfifo(key)  # who claims a pod waits here, before it hands over anything
    spec = ground.spec()
    told = (ground.first.ground, dict(OPTIONS["kubernetes"]), spec)
    runner = multiprocessing.get_context("spawn").Process(target=begin_and_hang, args=told)
    runner.start()
    until(lambda: (found := ground.driver.pods.find(spec.run_id)) and found.metadata.uid == claimed)
    runner.kill()
    runner.join()
    again = ground.first.again()
    [record] = [owner for owner in again.records() if owner.run_id == spec.run_id]
    assert again.alive(record) is False
    again.clear(record)
    until(lambda: claimed not in uids(ground))
    assert [owner.run_id for owner in again.records()] == [ground.first.spec.run_id]


def test_a_pod_of_gvisor_waits_too(warm):
    ground = warm(runtime_class="gvisor")
    waiting = ground.waiting()
    spec = ground.spec()
    owner = ground.start(spec)
    assert ground.uid_of(spec) in waiting
    assert ground.sh(owner, "cat /etc/trust/ca.pem") == "a certificate\n"


def test_a_pool_goes_with_all_that_is_its_own_when_its_end_is_not_moved(warm):
    from lightkube.resources.core_v1 import Secret

    ground = warm()
    waiting, name = ground.waiting(), ground.pool.name
    ground.source.keep_pool(name, 1, 1.0)
    kinds = ("Sandbox", "SandboxTemplate", "SandboxWarmPool")
    until(lambda: not any(ground.source._get(kind, name) for kind in kinds))
    until(lambda: ground.driver.cluster.get(Secret, name) is None and not waiting & uids(ground))
    spec = ground.spec()
    ground.start(spec)
    assert Blocking(ground.driver).warm(spec) is True  # its files are still here, and it is not
    assert ground.waiting() != waiting


def test_a_host_that_lost_its_folder_drops_the_pool_that_it_had(warm):
    ground = warm()
    ground.waiting()
    former = ground.pool
    shutil.rmtree(former.folder)
    Blocking(ground.driver).warm(ground.first.spec)
    until(lambda: ground.source.pools({}) == [ground.pool.name])
    assert ground.pool.name != former.name


def test_no_pod_waits_once_none_is_wanted_or_can(warm, monkeypatch):
    ground = warm()
    waiting = ground.waiting()
    monkeypatch.setitem(OPTIONS["kubernetes"], "source", "pods")
    refused = ground.first.again().probe()
    assert (refused.available, refused.reason) == (
        False,
        "Pods cannot wait for workspaces (HANDRAIL_KUBERNETES_WARM) with HANDRAIL_KUBERNETES_SOURCE=pods.",
    )
    assert ground.waiting() == waiting
    monkeypatch.setitem(OPTIONS["kubernetes"], "warm", 0)
    assert ground.first.again().probe().available
    assert ground.source.pools({}) == []
    until(lambda: not waiting & uids(ground))
    assert Blocking(ground.driver).driver.warm_pools._pools() == []


def test_files_on_a_volume_start_cold(warm):
    ground = warm()
    ground.waiting()
    spec = ground.spec(storage="pvc")
    pods = ground.driver.pods
    assert ground.driver.warm_pools.take(spec, pods, os.getuid(), {}) is None
    assert Blocking(ground.driver).warm(spec) is False
    assert json.loads((ground.pool.folder / "pool.json").read_text())["environment"] == "payments"


def test_pods_that_wait_make_room_when_the_quota_is_used_up(warm):
    from lightkube.resources.core_v1 import ResourceQuota

    ground = warm()
    waiting, cluster = ground.waiting(), ground.driver.cluster
    cluster.create(ResourceQuota.from_dict({"metadata": {"name": "two"}, "spec": {"hard": {"pods": "2"}}}))
    try:
        until(lambda: cluster.get(ResourceQuota, "two").status.used == {"pods": "2"})
        owner = ground.start(ground.spec(environment="another"))
        assert ground.sh(owner, "echo on") == "on\n"
        assert not waiting & uids(ground)
        with pytest.raises(DriverError, match=r"^The quota of the namespace is used up: .*two"):
            ground.start(ground.spec(environment="another"))
    finally:
        cluster.delete(ResourceQuota, "two")
