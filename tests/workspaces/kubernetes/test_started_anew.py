"""A host of a cluster that is replaced, as `helm upgrade` does: its next start leads the pods that it left."""

import os
import shutil

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS, lend_canaries, why_not
from tests.workspaces.kubernetes.test_lost_lead import delete_pods, end_bridges, pods_in

KEPT = {"keys", "installation"}  # what a pod of the chart gets again
ELSEWHERE = {"handrail.sqlite3", "staticfiles"}  # the database is on no host there, the other one in the image
AGAIN = "host-a was started anew and leads it again. Its files are as they were; {} on, any other was ended."
TWO, ONE = "2 of its commands and terminals go", "1 of its commands and terminals goes"
WAITS = "echo begun; while [ ! -e /tmp/enough ]; do sleep 0.1; done; echo ended; exit 7"


class Host:
    """A product whose snapshots are in a bucket; its workspace `pod` has a service."""

    def __init__(self, folder, namespace: str, **environment):
        self.home, self.flag = folder / "home", folder / "kill"
        self.home.mkdir(mode=0o700)
        lend_canaries(self.home)
        where = {"HANDRAIL_HOST_NAME": "host-a", "HANDRAIL_KUBERNETES": namespace}
        where |= {"HANDRAIL_FAILPOINT": f"lead.taken:{self.flag}"}
        self.product = Product(self.home, **where | environment)
        self.product.start()
        self.desk = Desk(self.product, self.product.person_token("lia", "lead"))
        served = {"name": "pods", "driver": "kubernetes", "services": {"web": "sleep 4321"}}
        self.desk.post("/environments", served)
        made = self.desk.create("pod", environment="pods")
        assert made["state"] == "ready", made

    def replace(self, *, keeps_home: bool = False):
        """End it, with what connects it to its pods, and start it again."""
        self.product.stop()
        end_bridges(self.product)
        if not keeps_home:
            for path in self.home.iterdir():
                if path.name.removesuffix("-wal").removesuffix("-shm") not in KEPT | ELSEWHERE:
                    until(lambda path=path: removed(path))
            lend_canaries(self.home)
        self.product.start()

    def settled(self) -> tuple[str, str]:
        found = self.desk.settled("pod")
        return found["state"], found["reason"]


def removed(path) -> bool:
    """Remove a file or a folder; False if one of the host's shims, which end as it does, still writes there."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
    return not path.exists()


def serves(desk: Desk) -> bool:
    return b"sleep 4321" in desk.run("pod", r"cat /proc/[0-9]*/cmdline | tr '\0' ' '")


@pytest.fixture
def host(s3, pod_namespace, require, tmp_path):
    OPTIONS["kubernetes"]["at"] = pod_namespace
    if why := why_not("kubernetes", False):
        require("kubernetes", why)
    bucket = s3.address(f"started-anew-{os.getpid()}")
    made = Host(tmp_path, pod_namespace, HANDRAIL_BUCKET=bucket, **s3.environ)
    try:
        yield made
    finally:
        made.product.clean_up()


@pytest.mark.timeout(900)
def test_it_leads_its_pods_again_with_an_empty_folder_and_with_its_own(host, kubernetes, pod_namespace):
    desk, before = host.desk, pods_in(kubernetes, pod_namespace)
    until(lambda: serves(desk))
    desk.run("pod", "echo since the newest snapshot > note")
    running = desk.post("/workspaces/pod/commands", {"command": WAITS}).json["id"]
    until(lambda: desk.get(f"/commands/{running}/output").body == b"begun\n")

    host.flag.touch()  # the runner is killed in the middle of it, and begins again
    host.replace()
    assert host.settled() == ("ready", AGAIN.format(TWO))
    assert not host.flag.exists()
    assert pods_in(kubernetes, pod_namespace) == before
    assert desk.get("/workspaces/pod/files/note").body == b"since the newest snapshot\n"
    desk.run("pod", "touch /tmp/enough")
    ended = desk.finished(running)
    assert (ended["state"], ended["exit_status"]) == ("settled", 7), ended
    assert desk.get(f"/commands/{running}/output").body == b"begun\nended\n"
    until(lambda: serves(desk))

    desk.run("pod", "echo more >> note")
    host.replace(keeps_home=True)
    assert host.settled() == ("ready", AGAIN.format(ONE))
    assert pods_in(kubernetes, pod_namespace) == before
    assert desk.run("pod", "cat note") == b"since the newest snapshot\nmore\n"


@pytest.mark.timeout(900)
def test_a_pod_that_went_with_its_host_comes_back_from_its_newest_snapshot(host, kubernetes, pod_namespace):
    desk = host.desk
    desk.run("pod", "echo kept > note")
    desk.post("/workspaces/pod/snapshots", {}, None)
    desk.settled("pod")
    desk.run("pod", "echo lost >> note")
    host.product.stop()
    delete_pods(kubernetes, pod_namespace)
    host.replace()
    _state, reason = until(lambda: (found := host.settled())[0] == "ready" and found)
    assert "what came after it is lost" in reason
    assert desk.run("pod", "cat note") == b"kept\n"
