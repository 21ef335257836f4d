"""Two hosts with a cluster, of which the one that leads a pod is lost: the other one takes the pod over."""

import contextlib
import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.two_hosts import two_hosts
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS, lend_canaries, why_not
from tests.workspaces.hosts.test_after_a_lost_host import LONG_SILENT
from workspaces.drivers.base import RunRecord

COUNTS = "echo $HANDRAIL_TOKEN; n=0; while [ ! -e enough ]; do n=$((n+1)); echo $n; sleep 0.1; done; exit 7"
WAITS = ["sh", "-c", "echo at a terminal; while [ ! -e enough ]; do sleep 0.1; done; stty size; exit 3"]
RECORDED = """
from workspaces.models import Terminal
from workspaces.programs import recordings
found = Terminal.objects.select_related("operation").get(pk="{id}")
print(found.exit_status, b"".join(recordings.of(found).pieces()))
"""
SLEEPERS = r"cat /proc/[0-9]*/cmdline | tr '\0' ' ' | grep -o '[s]leep [0-9][0-9]*'"
IS_BACK = "from workspaces.models import Runner; print(Runner.objects.get(host={host!r}).lost_at is None)"


@pytest.fixture
def hosts(s3, pod_namespace, require, tmp_path):
    OPTIONS["kubernetes"]["at"] = pod_namespace
    if why := why_not("kubernetes", False):
        require("kubernetes", why)
    for name in ("host-a", "host-b"):
        (tmp_path / name).mkdir(mode=0o700)
        lend_canaries(tmp_path / name)
    bucket = s3.address(f"lost-lead-{os.getpid()}")
    with two_hosts(tmp_path, HANDRAIL_BUCKET=bucket, HANDRAIL_KUBERNETES=pod_namespace, **s3.environ) as both:
        yield both


def led_by(hosts, key: str):
    """Return (the product that leads a workspace, the other one)."""
    name = hosts.through_own.get(f"/workspaces/{key}").json["place"]["host"]
    both = (hosts.own, hosts.other)
    return both if host_of(hosts.own) == name else both[::-1]


def host_of(product) -> str:
    return product.environment["HANDRAIL_HOST_NAME"]


def kill(product):
    """Kill all of a host at once, with the bridges of its pods."""
    pids = [product.part_pid(part) for part in ("web", "runner", "queue")]
    product.process.kill()
    product.process.wait()
    for pid in pids:  # its parts end with the supervisor; not at once
        until(lambda pid=pid: not Path(f"/proc/{pid}").exists())
    end_bridges(product)
    for claim in product.home.glob("workspaces/*/programs/*/shim.json"):
        with contextlib.suppress(ProcessLookupError):  # of one that has ended
            os.kill(json.loads(claim.read_text())["pid"], signal.SIGKILL)


def end_bridges(product):
    for record in product.home.glob("runs/*/record.json"):
        os.kill(RunRecord.from_json(record.read_text()).pid, signal.SIGKILL)


def delete_pods(kubernetes, namespace: str):
    for each in kubernetes.api.ask("/api/v1/pods")[1]["items"]:
        if each["metadata"]["namespace"].startswith(namespace):
            path = "/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds=0".format(**each["metadata"])
            kubernetes.api.ask(path, method="DELETE")


def pods_in(kubernetes, namespace: str) -> set[str]:
    found = kubernetes.api.ask("/api/v1/pods")[1]["items"]
    ours = [each["metadata"] for each in found if each["metadata"]["namespace"].startswith(namespace)]
    return {each["uid"] for each in ours if "deletionTimestamp" not in each}


@pytest.mark.timeout(900)
def test_a_pod_outlives_the_host_that_led_it(hosts, kubernetes, pod_namespace):
    made = hosts.through_own.create("pod", driver="kubernetes")
    assert made["state"] == "ready", made
    lost, left = led_by(hosts, "pod")
    desk, name = Desk(left, hosts.token), host_of(lost)
    desk.run("pod", "echo since the newest snapshot > note; echo at home > ~/note")
    desk.run("pod", "nohup setsid sleep 1234 > /dev/null 2>&1 &")
    running = desk.post("/workspaces/pod/commands", {"command": COUNTS}).json["id"]
    terminal = desk.post("/workspaces/pod/terminals", {"argv": WAITS, "cols": 100, "rows": 30}).json["id"]
    until(lambda: b"\n5\n" in desk.get(f"/commands/{running}/output").body)
    until(lambda: "at a terminal" in lost.shell(RECORDED.format(id=terminal)))
    before = pods_in(kubernetes, pod_namespace)

    kill(lost)
    left.shell(LONG_SILENT.format(host=name))
    said = left.manage("host", "lost", name)
    assert said.returncode == 0, said.stderr
    assert f"pod: Its host {name} is lost, and {host_of(left)} takes over what runs." in said.stdout
    taken = desk.settled("pod")
    words = f"{host_of(left)} leads it since {name} was lost. Its files are as they were; "
    words += "2 of its commands and terminals go on, any other was ended."
    events = [(each["verb"], each["data"]) for each in desk.get("/events?after=0").json["events"]]
    told = (taken["state"], taken["reason"], taken["place"]["host"])
    assert told == ("ready", words, host_of(left)), (events[-12:], left.log[-3000:])
    assert taken["owed"] is None, taken
    assert pods_in(kubernetes, pod_namespace) == before
    assert desk.get("/workspaces/pod/files/note").body == b"since the newest snapshot\n"
    assert desk.run("pod", "cat ~/note") == b"at home\n"
    until(lambda: b"sleep 1234\n" in desk.run("pod", SLEEPERS))
    assert desk.get(f"/commands/{running}").json["state"] == "started"
    desk.run("pod", "touch enough")
    ended = desk.finished(running)
    assert (ended["state"], ended["exit_status"]) == ("settled", 7), ended
    told = desk.get(f"/commands/{running}/output").body.decode().split()
    assert told == ["[secret", "HANDRAIL_TOKEN]", *map(str, range(1, len(told) - 1))]
    recorded = until(lambda: (found := left.shell(RECORDED.format(id=terminal)).strip()).startswith("3 ") and found)
    assert recorded == "3 " + repr(b"at a terminal\r\n30 100\r\n")

    lost.start()  # and finds that another one leads
    until(lambda: left.shell(IS_BACK.format(host=name)).strip() == "True")
    assert desk.get(f"/commands/{running}/output").body.decode().split() == told
    assert pods_in(kubernetes, pod_namespace) == before
    assert desk.run("pod", "cat note") == b"since the newest snapshot\n"
    desk.post("/workspaces/pod/stop", expect=202)
    assert desk.settled("pod")["state"] == "stopped"
    assert desk.get("/workspaces/pod/files/note").body == b"since the newest snapshot\n"


@pytest.mark.timeout(900)
def test_a_pod_that_went_with_its_host_comes_back_from_its_newest_snapshot(hosts, kubernetes, pod_namespace):
    assert hosts.through_own.create("pod", driver="kubernetes")["state"] == "ready"
    lost, left = led_by(hosts, "pod")
    desk, name = Desk(left, hosts.token), host_of(lost)
    desk.run("pod", "echo kept > note")
    desk.post("/workspaces/pod/snapshots", {}, None)
    desk.settled("pod")
    kill(lost)
    delete_pods(kubernetes, pod_namespace)
    left.shell(LONG_SILENT.format(host=name))
    assert left.manage("host", "lost", name).returncode == 0
    back = until(lambda: (found := desk.settled("pod"))["state"] == "ready" and found)
    assert back["owed"]["host"] == name
    assert desk.get("/workspaces/pod/files/note").body == b"kept\n"
