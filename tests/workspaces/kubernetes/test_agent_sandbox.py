"""Pods by way of agent-sandbox, with its real controller: what it says is not what the pod is."""

import itertools
import os

import pytest

from tests.support.waiting import until
from workspaces.drivers.base import DriverError
from workspaces.drivers.kubernetes.agent_sandbox import NAME, AgentSandboxes, Gone
from workspaces.drivers.kubernetes.cluster import Cluster
from workspaces.drivers.kubernetes.pod_source import INSTALLATION, Wanted

numbers = itertools.count(1)
SLOW_TO_END = "trap 'sleep 4; exit 143' TERM; while :; do sleep 0.1; done"
STAYS = "trap 'exit 143' TERM; while :; do sleep 0.1; done"


def asked(source: AgentSandboxes, kind: str, name: str) -> dict:
    return source._get(kind, name) or {}


def conditions(source, name: str) -> dict[str, tuple[str, str]]:
    found = (asked(source, "Sandbox", name).get("status") or {}).get("conditions", [])
    return {each["type"]: (each["status"], each["reason"]) for each in found}


def is_ready(pod) -> bool:
    return pod is not None and any(
        each.type == "Ready" and each.status == "True" for each in pod.status.conditions or ()
    )


class Ground:
    """A namespace of the cluster, and a source of pods in it; all of it goes after the test."""

    def __init__(self, kubernetes, image: str, monkeypatch):
        monkeypatch.setenv("KUBECONFIG", str(kubernetes.kubeconfig))
        self.namespace = f"sandboxes-{os.getpid()}-{next(numbers)}"
        self.asked = Cluster(self.namespace)
        self.cluster, self.image, self.at = kubernetes, image, f"/api/v1/namespaces/{self.namespace}"
        kubernetes.create("/api/v1/namespaces", "Namespace", self.namespace)
        until(lambda: kubernetes.api.ask(f"{self.at}/serviceaccounts/default")[0] == 200)

    def source(self, **fields) -> AgentSandboxes:
        return AgentSandboxes(self.asked, **fields)

    def wanted(self, name: str, script: str = STAYS, *, image: str = "", grace_s: int = 8) -> Wanted:
        files = [{"name": "files", "mountPath": "/files"}]
        work = {
            "name": "work",
            "image": image or self.image,
            "command": ["/bin/sh", "-c", script],
            "volumeMounts": files,
        }
        spec = {"containers": [work], "volumes": [{"name": "files", "emptyDir": {}}]}
        spec |= {"restartPolicy": "Never", "terminationGracePeriodSeconds": grace_s}
        return Wanted(name, {INSTALLATION: "tests"}, spec)

    def up(self, source, wanted: Wanted):
        """Create it and wait for its pod; return that."""
        source.create(wanted)
        return until(lambda: found if is_ready(found := source.find(wanted.name)) else None)

    def delete_pod(self, name: str) -> None:
        assert self.cluster.api.ask(f"{self.at}/pods/{name}", method="DELETE")[0] == 200


@pytest.fixture
def ground(agent_sandbox, kubernetes, busybox_image, monkeypatch):
    made = Ground(kubernetes, busybox_image, monkeypatch)
    yield made
    kubernetes.api.ask(f"/api/v1/namespaces/{made.namespace}", method="DELETE")


def test_a_sandbox_is_a_pod_that_is_found_listed_and_deleted(ground):
    source = ground.source()
    pod = ground.up(source, ground.wanted("run-1"))
    assert source.create(ground.wanted("run-1")).metadata.uid == pod.metadata.uid
    assert [source.name_of(each) for each in source.listed("tests")] == ["run-1"]
    assert source.listed("another") == []
    source.delete("run-1", grace_s=1)
    until(lambda: source.find("run-1") is None and not source.listed("tests"))
    source.delete("run-1", grace_s=1)


def test_a_name_that_the_controller_cannot_use_is_refused_at_once(ground):
    with pytest.raises(DriverError, match="too long for a Sandbox"):
        ground.source().create(ground.wanted("a" * 64))
    longest = ground.wanted("a" * 63)
    assert ground.source().create(longest).metadata.name == "a" * 63


def test_ready_is_said_while_the_pod_is_terminating_and_the_next_one_is_another_pod(ground):
    source = ground.source()
    before = ground.up(source, ground.wanted("run-1", f"date > /files/kept; {SLOW_TO_END}"))
    ground.delete_pod(before.metadata.name)
    until(lambda: source.find("run-1").metadata.deletionTimestamp)
    assert conditions(source, "run-1")["Ready"][0] == "True"  # what one would believe
    with pytest.raises(Gone):
        ground.source(lives_s=600).keep("run-1", uid=before.metadata.uid)
    after = until(
        lambda: found if (found := source.find("run-1")) and found.metadata.uid != before.metadata.uid else None
    )
    assert after.metadata.name == before.metadata.name
    with pytest.raises(Gone):
        ground.source(lives_s=600).keep("run-1", uid=before.metadata.uid)


def test_finished_in_the_middle_of_a_suspend_is_not_an_end(ground):
    source, seen = ground.source(), set()
    pod = ground.up(source, ground.wanted("run-1", SLOW_TO_END))
    source._patch("Sandbox", "run-1", {"spec": {"operatingMode": "Suspended"}})
    while source.find("run-1") is not None:
        seen |= {kind for kind, (status, _) in conditions(source, "run-1").items() if status == "True"}
        assert source.ended("run-1", uid=pod.metadata.uid) == ""
    assert source.suspend("run-1") is True
    assert conditions(source, "run-1")["Suspended"] == ("True", "PodTerminated")
    assert seen <= {"Finished", "PodScheduled", "Suspended", "Ready"}


def test_a_pod_that_ends_by_itself_has_ended(ground):
    source = ground.source()
    well = source.create(ground.wanted("well", "exit 0"))
    ill = source.create(ground.wanted("ill", "exit 3"))
    until(lambda: source.ended("well", uid=well.metadata.uid) == "Succeeded")
    until(lambda: source.ended("ill", uid=ill.metadata.uid) == "Failed")
    assert source.ended("ill", uid="another") == ""


def test_a_suspended_one_is_resumed_with_another_pod_and_empty_files(ground):
    source = ground.source()
    before = ground.up(source, ground.wanted("run-1", f"ls /files; touch /files/kept; {STAYS}"))
    assert source.suspend("run-1")
    assert source.find("run-1") is None
    after = source.resume("run-1")
    assert after.metadata.uid != before.metadata.uid
    until(lambda: is_ready(source.find("run-1")))
    assert ground.cluster.api.ask(f"{ground.at}/pods/{after.metadata.name}/log")[1] == ""


def test_a_resume_during_a_suspend_waits_for_the_pod_that_goes(ground):
    source = ground.source()
    before = ground.up(source, ground.wanted("run-1", SLOW_TO_END))
    source._patch("Sandbox", "run-1", {"spec": {"operatingMode": "Suspended"}})
    until(lambda: source.find("run-1").metadata.deletionTimestamp)
    after = source.resume("run-1")
    assert after.metadata.uid != before.metadata.uid
    assert after.metadata.deletionTimestamp is None


def test_a_pod_that_nobody_keeps_goes_by_itself(ground):
    left, kept = (ground.up(ground.source(), ground.wanted(name, grace_s=1)) for name in ("left", "kept"))
    switch = ground.source(lives_s=5)
    switch.keep("left", uid=left.metadata.uid)
    until(lambda: ground.source(lives_s=60).keep("kept", uid=kept.metadata.uid) or switch.find("left") is None)
    assert switch.find("kept").metadata.uid == kept.metadata.uid
    until(lambda: asked(switch, "Sandbox", "left") == {})
    with pytest.raises(Gone):
        switch.keep("left", uid=left.metadata.uid)


def test_an_expiry_is_not_revived_with_empty_files(ground):
    source = ground.source(lives_s=600)
    pod = ground.up(source, ground.wanted("run-1", grace_s=1))
    # As another tool may have made it: it stays when its time is over.
    over = {"shutdownPolicy": "Retain", "shutdownTime": "2020-01-01T00:00:00Z"}
    source._patch("Sandbox", "run-1", {"spec": over})
    until(
        lambda: conditions(source, "run-1").get("Ready", ("", ""))[1] == "SandboxExpired" and not source.find("run-1")
    )
    with pytest.raises(Gone):
        source.keep("run-1", uid=pod.metadata.uid)
    assert conditions(source, "run-1")["Ready"][1] == "SandboxExpired"
    source._patch("Sandbox", "run-1", {"spec": {"shutdownTime": "2099-01-01T00:00:00Z"}})  # what `keep` has not done
    revived = until(lambda: source.find("run-1"))
    assert revived.metadata.uid != pod.metadata.uid


def test_a_killed_controller_carries_out_an_expiry_when_it_is_back(ground, agent_sandbox):
    source = ground.source()
    pod = ground.up(source, ground.wanted("run-1", grace_s=1))
    agent_sandbox.kill()
    try:
        source._patch("Sandbox", "run-1", {"spec": {"shutdownTime": "2020-01-01T00:00:00Z"}})
        assert source.find("run-1").metadata.uid == pod.metadata.uid
    finally:
        agent_sandbox.start()
    until(lambda: source.find("run-1") is None)


def test_a_claim_takes_a_waiting_pod_and_the_pool_is_filled_again(ground):
    source = ground.source()
    source.want_pool("python", ground.wanted("python"), 2)
    until(lambda: source.waiting("python")[0] == 2)
    waiting = {each.metadata.uid for each in source.waiting("python")[1]}
    claimed = source.claim("run-1", "python", {INSTALLATION: "tests"})
    assert claimed.metadata.uid in waiting
    assert is_ready(source.find("run-1"))
    assert source.find("run-1").metadata.labels[NAME] == "run-1"
    until(lambda: source.waiting("python")[0] == 2)
    assert source.suspend("run-1") is False
    source.delete("run-1", grace_s=1)
    until(lambda: source.find("run-1") is None)
    source.drop_pool("python")


def test_a_pool_does_not_open_the_internet_to_its_pods(ground):
    source = ground.source()
    source.want_pool("python", ground.wanted("python"), 1)
    until(lambda: source.waiting("python")[0] == 1)
    policies = f"/apis/networking.k8s.io/v1/namespaces/{ground.namespace}/networkpolicies"
    assert ground.cluster.api.ask(policies)[1]["items"] == []


def test_a_pool_that_cannot_be_ready_says_why_in_its_pods(ground):
    source = ground.source()
    source.want_pool("broken", ground.wanted("broken", image="handrail.test/absent:1"), 1)
    reasons = ("ErrImagePull", "ImagePullBackOff")

    def why():
        ready, pods = source.waiting("broken")
        states = [status.state.waiting for pod in pods for status in pod.status.containerStatuses or ()]
        return ready == 0 and any(state and state.reason in reasons for state in states)

    until(why)


def test_a_claim_of_a_pool_that_is_not_there_is_refused_in_words(ground):
    with pytest.raises(DriverError, match="its pool is not there"):
        ground.source().claim("run-1", "absent")
