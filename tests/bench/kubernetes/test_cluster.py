"""The cluster of `python -m bench.kubernetes up`: real pods on both runtimes, several clusters, and nothing left."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from bench.kubernetes import machine
from tests.support.kubernetes import Pods, box_archive, new_cluster
from tests.support.waiting import until


def test_a_pod_on_runc_shares_the_kernel_and_its_user_ids(pods):
    pods.start("plain", "cat /proc/version; cat /proc/self/uid_map", runtimeClassName="runc")
    version, mapped = pods.output("plain").splitlines()
    assert version == Path("/proc/version").read_text().strip()
    assert mapped.split() == ["0", "0", "4294967295"]


def test_a_pod_with_user_namespaces_is_root_of_nothing_outside(pods):
    pods.start("mapped", "cat /proc/self/uid_map", hostUsers=False)
    inside, outside, count = map(int, pods.output("mapped").split())
    assert inside == 0
    assert outside >= 65536
    assert count == 65536


def test_a_pod_on_gvisor_has_a_kernel_of_its_own(pods):
    pods.start("guarded", "cat /proc/version; dmesg | head -n 1", runtimeClassName="gvisor")
    printed = pods.output("guarded")
    assert "Starting gVisor" in printed
    assert Path("/proc/version").read_text().strip() not in printed


@pytest.fixture
def no_wall(kubernetes):
    kubernetes.wall(up=False)
    yield
    kubernetes.wall(up=True)


def test_pods_of_two_nodes_reach_each_other_and_the_api(pods, no_wall):
    pods.start("listens", "nc -l -p 7000 -e echo hello", nodeName="n1")
    address = pods.until_running("listens")["status"]["podIP"]
    asked = f"until nc -w 5 {address} 7000 </dev/null; do sleep 0.2; done; nc -w 5 10.96.0.1 443 </dev/null && echo api"
    pods.start("asks", asked, nodeName="n2")
    assert pods.output("asks") == "hello\napi\n"


def test_behind_the_wall_a_pod_is_reached_and_reaches_nobody(pods):
    pods.start("listens", "nc -l -p 7000 -e echo hello", nodeName="n1")
    address = pods.until_running("listens")["status"]["podIP"]
    places = [f"{address} 7000", "10.96.0.1 443", f"{machine.address(pods.cluster.slot)} 6443"]
    places.append(f"{machine.address(pods.cluster.slot, 1)} 10250")
    asked = "; ".join(f"nc -w 2 {place} </dev/null 2>/dev/null && echo reached" for place in places)
    pods.start("neighbour", f"{asked}; echo done", nodeName="n1")
    pods.start("other", f"{asked}; echo done", nodeName="n2")
    assert (pods.output("neighbour"), pods.output("other")) == ("done\n", "done\n")
    with socket.create_connection((address, 7000), timeout=10) as asking:
        assert asking.recv(100) == b"hello\n"


def test_a_part_that_is_killed_comes_back_and_pods_go_on(kubernetes, pods):
    pods.start("stays", "sleep 600", nodeName="n2")
    before = pods.until_running("stays")["status"]["containerStatuses"][0]["containerID"]
    parts = ("n2/kubelet", "n2/containerd", "apiserver")
    for part in parts:
        kubernetes.kill(part)
        assert not kubernetes.parts[part].lives
    assert not kubernetes.answers()
    for part in reversed(parts):
        kubernetes.start(part)
    until(kubernetes.answers)
    after = pods.until_running("stays")["status"]["containerStatuses"][0]
    assert (after["containerID"], after["restartCount"]) == (before, 0)


def test_a_node_without_power_loses_its_pods_and_comes_back(kubernetes, pods):
    pods.start("goes", "sleep 600", nodeName="n2")
    pods.start("stays", "sleep 600", nodeName="n1")
    pods.until_running("goes")
    pods.until_running("stays")
    kubernetes.power_off("n2")
    assert not kubernetes.parts["n2/kubelet"].lives
    until(lambda: not kubernetes.nodes["n2"].pids())
    kubernetes.power_on("n2")
    until(lambda: pods.phase("goes") == "Failed")
    assert pods.phase("stays") == "Running"


def traces(cluster) -> dict[str, object]:
    """What a cluster has on this machine, outside of its folder and in it."""
    names = [*cluster.nodes.values()]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {
        "folder": cluster.folder.exists(),
        "mounts": [line for line in Path("/proc/mounts").read_text().splitlines() if f"{cluster.folder}/" in line],
        "links": [line for line in links.splitlines() if f": hrk{cluster.slot}" in line],
        "namespaces": [each.namespace for each in names if Path("/run/netns", each.namespace).exists()],
        "groups": [str(path) for each in names for path in machine._groups(each.group)],
        "processes": [pid for pid in os.listdir("/proc") if pid.isdigit() and names_it(pid, cluster.folder)],
        "results": [str(path) for each in names for path in machine.CNI_RESULTS.glob(f"{each.network}-*")],
        "logs": machine.logs_of(cluster.folder),
    }


def names_it(pid: str, folder: Path) -> bool:
    try:
        return f"{folder}/".encode() in Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return False


def test_what_a_runtime_leaves_has_gone_when_it_is_ended(tmp_path):
    shim = tmp_path / "containerd-shim-slow"
    shutil.copy(shutil.which("sleep"), shim)
    with subprocess.Popen([shim, "600"]) as left, subprocess.Popen(["sleep", "600"]) as other:
        machine.end_runtimes(tmp_path)
        assert not names_it(str(left.pid), tmp_path)
        assert other.poll() is None
        other.kill()


def test_logs_that_another_kubelet_removes_meanwhile_are_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "POD_LOGS", tmp_path)
    (tmp_path / "mine").symlink_to("/folder/of/it/log")
    (tmp_path / "other").symlink_to("/elsewhere/log")
    monkeypatch.setattr(type(tmp_path), "glob", lambda self, _: [tmp_path / name for name in ("gone", "mine", "other")])
    assert machine.logs_of(Path("/folder/of/it")) == [tmp_path / "mine"]


@pytest.mark.timeout(200)
def test_a_second_cluster_goes_without_a_trace_and_the_first_goes_on(pods, tmp_path):
    pods.start("first", "sleep 600")
    pods.until_running("first")
    with new_cluster(f"second-{os.getpid()}", nodes=1) as second:
        archive, reference = box_archive(tmp_path)
        second.load_image(archive)
        others = Pods(second, reference)
        others.start("runs", "sleep 600")
        others.start("guarded", "sleep 600", runtimeClassName="gvisor")
        others.until_running("runs")
        others.until_running("guarded")
        assert all(traces(second).values())
        second.down()
        assert not any(traces(second).values()), traces(second)
    assert pods.phase("first") == "Running"
    assert pods.cluster.api.ask("/api/v1/nodes")[0] == 200
