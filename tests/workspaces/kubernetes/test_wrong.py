"""What goes wrong in a cluster, each as it happens on a real one: its state, its words, and what comes back."""

import json
import os
import signal
from dataclasses import replace

import pytest

from tests.support.waiting import until
from tests.workspaces.drivers.runs import driver_of
from workspaces.drivers import cgroups
from workspaces.drivers.base import BackendLost, DriverError, Limits
from workspaces.drivers.init_client import InitClient

NO_IMAGE = "127.0.0.1:9/handrail/none@sha256:" + "0" * 64
TIB = 1 << 40
EATS = "exec python3 -c 'import time; a = []\nwhile True: a.append(bytes(1 << 20))'"


@pytest.fixture
def refused(pod):
    """`refused(**fields)`: the words with which a second Run, of another workspace, does not start."""

    def start(**fields) -> str:
        run = pod()
        run.driver.pods.patience_s = 6.0
        spec = replace(run.spec, run_id=f"{run.spec.run_id}-b", workspace_id="2", **fields)
        with pytest.raises(DriverError) as error:
            run.do.start(spec)
        assert [owner.run_id for owner in run.do.records()] == [run.spec.run_id]  # nothing is left of it
        assert run.driver.pods.find(spec.run_id) is None or run.driver.pods.find(spec.run_id).metadata.deletionTimestamp
        return str(error.value)

    return start


def test_an_image_that_cannot_be_pulled_is_said_in_the_clusters_words(refused):
    assert "its image cannot be pulled: 127.0.0.1:9/handrail/none" in refused(image=NO_IMAGE)


def test_a_pod_that_no_node_has_room_for_is_given_up(refused):
    words = refused(limits=Limits(memory=TIB))
    assert "no node has room for it: 0/" in words
    assert "Insufficient memory" in words


def test_a_runtime_class_that_does_not_exist_is_refused_at_once(refused):
    assert 'RuntimeClass "nowhere" not found' in refused(runtime_class="nowhere")


def test_a_quota_that_is_used_up_is_said(pod):
    from lightkube.resources.core_v1 import ResourceQuota

    run = pod()
    cluster = run.driver.cluster
    wanted = {"metadata": {"name": "none-more"}, "spec": {"hard": {"pods": "0"}}}
    cluster.create(ResourceQuota.from_dict(wanted))
    try:
        until(lambda: cluster.get(ResourceQuota, "none-more").status.hard)
        with pytest.raises(DriverError, match=r"^The quota of the namespace is used up: .*none-more"):
            run.do.start(replace(run.spec, run_id=f"{run.spec.run_id}-b"))
    finally:
        cluster.delete(ResourceQuota, "none-more")
    assert run.sh("echo here") == ("here\n", 0)


def test_a_program_without_memory_is_killed_and_counted(pod):
    run = pod(limits=Limits(memory=256 << 20))
    with InitClient(run.owner.address.socket) as init:
        started = run.begin(init, EATS)
        status = until(lambda: (init.read_exits(), [each for each in init.exits if each[0] == started.pid])[1])[0][1]
        os.close(started.fd)
    assert status == -signal.SIGKILL
    until(lambda: cgroups.oom_kills(run.owner.address.oom_file))
    assert run.sh("echo here") == ("here\n", 0)


def test_a_pod_that_the_cluster_ends_gives_its_files_back(pod):
    """A drain deletes pods so: the keeper hears it, and has two minutes."""
    run = pod()
    run.sh("echo kept > note; mkdir d; ln note d/same")
    run.leave("trap '' TERM; while :; do sleep 1; done")
    run.driver.pods.delete(run.spec.run_id, grace_s=60)
    until(lambda: not run.again().alive(run.owner))
    assert run.again().end_reason(run.owner) == "crashed"
    words = run.again().how_it_crashed(run.owner)
    assert words.startswith("Its pod was deleted on node ")
    assert words.endswith("; its files were fetched before.")
    run.again().stop(run.owner)
    assert (run.spec.workspace / "note").read_text() == "kept\n"
    assert (run.spec.workspace / "d/same").stat().st_ino == (run.spec.workspace / "note").stat().st_ino
    assert not run.again().driver.lacks_files(run.spec)


def test_an_eviction_says_so(pod):
    run = pod()
    run.sh("echo kept > note")
    cluster = run.driver.cluster
    name = run.driver.pods.name_of(run.spec.run_id)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": cluster.namespace}}
    with cluster.asked() as client:
        path = f"/api/v1/namespaces/{cluster.namespace}/pods/{name}/eviction"
        assert client._client._client.post(path, json=body).status_code == 201
    until(lambda: not run.again().alive(run.owner))
    assert "was to be emptied (EvictionByEvictionAPI: " in run.again().how_it_crashed(run.owner)
    run.again().stop(run.owner)
    assert (run.spec.workspace / "note").read_text() == "kept\n"


def test_a_pod_that_is_gone_at_once_is_known_with_what_is_lost(pod):
    run = pod()
    run.sh("echo lost > note")
    run.driver.pods.delete(run.spec.run_id, grace_s=0)
    until(lambda: not run.again().alive(run.owner))
    assert run.again().end_reason(run.owner) in ("removed", "crashed")
    run.again().stop(run.owner)
    assert run.again().driver.lacks_files(run.spec)  # `Resume` takes those of the newest snapshot


def test_a_silent_api_server_says_nothing_of_what_runs(pod, tmp_path, monkeypatch):
    run = pod()
    away = tmp_path / "kubeconfig"
    away.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }))  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(away))
    assert run.again().alive(run.owner) is True
    assert run.sh("echo on") == ("on\n", 0)
    with pytest.raises(BackendLost, match="does not answer"):
        run.again().held_up()
    with pytest.raises(BackendLost, match="does not answer"):
        run.again().start(replace(run.spec, run_id=f"{run.spec.run_id}-b"))
    monkeypatch.undo()
    for owner in run.again().records():
        if owner.run_id != run.spec.run_id:
            run.again().clear(owner)


def test_a_keeper_that_is_killed_ends_the_run_with_its_reason(pod):
    """The node's own kernel does it: nothing in the pod can."""
    run = pod()
    assert run.sh("kill -9 1; kill -9 -1; echo on")[0].endswith("on\n")
    assert run.names() == []  # another server of the tree has taken the place of the one that was killed
    mark = "keeper.pyz\0keep"
    [pid] = [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and is_keeper_of(int(name), mark, run.driver.pods.find(run.spec.run_id).metadata.uid)
    ]
    os.kill(pid, signal.SIGKILL)
    until(lambda: not run.again().alive(run.owner))
    assert run.again().end_reason(run.owner) == "crashed"
    assert "(it was killed)" in run.again().how_it_crashed(run.owner)


def is_keeper_of(pid: int, mark: str, uid: str) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline") as words, open(f"/proc/{pid}/cgroup") as groups:
            return mark in words.read() and uid in groups.read()
    except OSError:
        return False


def test_a_lower_epoch_is_refused_for_ever(pod):
    """A runner that was presumed dead comes back: the pod itself refuses it."""
    run = pod(lead=7)
    folder = run.driver._folder(run.spec.run_id)
    config = json.loads((folder / "config").read_text())
    config["lead"][1] = 6
    (folder / "config").write_text(json.dumps(config))
    run.driver._kill(run.owner)
    until(lambda: not run.again().alive(run.owner))
    with pytest.raises(DriverError, match="can't be reached"):
        run.driver._revive(run.owner)
    assert "another runner leads this workspace (epoch 7, not 6)" in (folder / "log").read_text()
    config["lead"][1] = 7
    (folder / "config").write_text(json.dumps(config))


def test_a_bridge_that_was_killed_costs_no_file(pod):
    run = pod()
    run.sh("echo kept > note")
    os.kill(run.owner.pid, signal.SIGKILL)
    until(lambda: not run.again().alive(run.owner))
    run.again().stop(run.owner)
    assert (run.spec.workspace / "note").read_text() == "kept\n"


def test_a_new_driver_reads_the_same_run(pod):
    run = pod()
    again = driver_of("kubernetes", run.ground)
    assert again.pods.name_of(run.spec.run_id) == run.driver.pods.name_of(run.spec.run_id)
