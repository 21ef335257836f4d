"""The real cluster of `python -m bench.kubernetes`, one for a run of tests, on which a test may kill anything.

`HANDRAIL_TEST_KUBERNETES` names a cluster that is up already, and stays up; of several, each process of pytest-xdist
takes the one of its number. `HANDRAIL_TEST_KUBERNETES_IMAGE` is the file that `python -m bench.kubernetes image` has
written.
"""

import json
import os
from collections.abc import MutableMapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.kubernetes import image, machine, programs
from bench.kubernetes.cluster import Cluster
from tests.support.engine import busybox_layer
from tests.support.waiting import until

PODS = "/api/v1/namespaces/{}/pods"


def take_own(environment: MutableMapping[str, str]) -> None:
    """Leave a process of pytest-xdist the one cluster of several that has its number."""
    names = environment.get("HANDRAIL_TEST_KUBERNETES", "").split()
    worker = environment.get("PYTEST_XDIST_WORKER")
    if worker and len(names) > 1:
        environment["HANDRAIL_TEST_KUBERNETES"] = own = names[int(worker.removeprefix("gw"))]
        environment["KUBECONFIG"] = str(Cluster(own).kubeconfig)


def lacks(kubernetes: str = programs.KUBERNETES) -> str:
    """Say in one line why no cluster can be started here; "" if one can."""
    if missing := programs.missing(kubernetes):
        why = programs.lacks() or "`python -m bench.kubernetes build` makes them"
        return f"the programs of Kubernetes are not built ({missing[0].name} {missing[0].version}): {why}"
    return machine.lacks()


@contextmanager
def new_cluster(name: str, **fields):
    """Start one more cluster, and take it away at the end."""
    cluster = Cluster(name, **fields)
    try:
        cluster.up()
        yield cluster
    finally:
        if cluster.folder.exists():
            cluster.down()


@pytest.fixture(scope="session")
def kubernetes(require):
    """A cluster of two nodes, with the RuntimeClasses `runc` and `gvisor`."""
    if names := os.environ.get("HANDRAIL_TEST_KUBERNETES", "").split():
        yield Cluster.load(names[0])  # KUBECONFIG is that of the first cluster, too, where `take_own` has chosen none
        return
    if why := lacks():
        require("kubernetes", why)
    with new_cluster(f"tests-{os.getpid()}") as cluster:
        yield cluster


@pytest.fixture(scope="session")
def busybox_image(kubernetes, tmp_path_factory) -> str:
    """The reference, by digest, of an image with busybox that every node has."""
    archive, reference = box_archive(tmp_path_factory.mktemp("box"))
    kubernetes.load_image(archive)
    return reference


@pytest.fixture(scope="session")
def base_image(kubernetes, require) -> str:
    """The reference, by digest, of the image of an environment that names none, which every node has."""
    archive = Path(os.environ.get("HANDRAIL_TEST_KUBERNETES_IMAGE", ""))
    if not archive.is_file():
        require(
            "kubernetes", "HANDRAIL_TEST_KUBERNETES_IMAGE is no file; `python -m bench.kubernetes image` writes one"
        )
    kubernetes.load_image(archive)
    return next(name for name in image.names_in(archive) if "@" in name)


def kubeconfig_of(cluster: Cluster, namespace: str, account: str, folder: Path) -> Path:
    """Write a kubeconfig with which one is a service account of the cluster."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    _, made = cluster.api.ask(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", asked)
    known = json.loads(cluster.kubeconfig.read_text())
    known["users"] = [{"name": each["name"], "user": {"token": made["status"]["token"]}} for each in known["users"]]
    place = folder / f"{account}.conf"
    place.write_text(json.dumps(known))
    return place


def box_archive(folder: Path) -> tuple[Path, str]:
    """Write an image with busybox; return its archive and its reference by digest."""
    (folder / "layer.tar").write_bytes(busybox_layer())
    digest = image.write(folder / "image.tar", "docker.io/handrail/box:1", folder / "layer.tar")
    return folder / "image.tar", f"docker.io/handrail/box@{digest}"


class Pods:
    """Pods of a namespace, made by hand; all are gone after the test."""

    def __init__(self, cluster: Cluster, image: str, namespace: str = "default"):
        self.cluster, self.image, self.path = cluster, image, PODS.format(namespace)
        self.made: list[str] = []

    def start(self, name: str, script: str, **spec) -> None:
        """Create a pod that runs a shell script; `spec` are fields of its spec."""
        container = {"name": "work", "image": self.image, "command": ["/bin/sh", "-c", script]}
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1} | spec
        self.cluster.create(self.path, "Pod", name, spec=spec)
        self.made.append(name)

    def read(self, name: str) -> dict:
        return self.cluster.api.ask(f"{self.path}/{name}")[1]

    def phase(self, name: str) -> str:
        return self.read(name)["status"].get("phase", "")

    def until_running(self, name: str) -> dict:
        """Wait for it, and return what the API says of it."""
        until(lambda: self.phase(name) == "Running")
        return self.read(name)

    def output(self, name: str) -> str:
        """Wait for the end of the script, and return what it printed."""
        until(lambda: self.phase(name) in ("Succeeded", "Failed"))
        return self.cluster.api.ask(f"{self.path}/{name}/log")[1]

    def end(self) -> None:
        for name in self.made:
            self.cluster.api.ask(f"{self.path}/{name}?gracePeriodSeconds=1", method="DELETE")
        until(lambda: all(self.cluster.api.ask(f"{self.path}/{name}")[0] == 404 for name in self.made))


@pytest.fixture
def pods(kubernetes, busybox_image):
    made = Pods(kubernetes, busybox_image)
    yield made
    made.end()
