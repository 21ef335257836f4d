"""The chart on a real API server: every object is taken, and every pod is let in by Pod Security `restricted`."""

import itertools
import os
from contextlib import contextmanager

import pytest
from helm_python import Chart, Config

from tests.support import CHECKOUT
from tests.support.kubernetes import kubeconfig_of
from tests.support.waiting import until
from tests.workspaces.drivers.runs import Blocking, lend_canaries, workload_uid
from workspaces.drivers.base import DriverError, RunSpec
from workspaces.drivers.kubernetes.cluster import Cluster
from workspaces.drivers.kubernetes.driver import KubernetesDriver
from workspaces.drivers.kubernetes.namespaces import TEAM, Namespaces, _copy

numbers = itertools.count(1)
NAMES = ("desk-handrail-web-0", "desk-handrail-web-1", "desk-handrail-runner-0", "desk-handrail-queue-0")


@pytest.fixture
def namespaces(kubernetes):
    """Two names: of the desk's namespace, which is restricted, and of that of its workspaces, which the chart makes."""
    mark = f"{os.getpid()}-{next(numbers)}"
    desk, workspaces = (f"{name}-{mark}" for name in ("desk", "desk-workspaces"))
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubernetes.create("/api/v1/namespaces", "Namespace", desk, labels=labels)
    yield desk, workspaces
    for name in (desk, workspaces, f"{workspaces}-payments"):
        kubernetes.api.ask(f"/api/v1/namespaces/{name}", method="DELETE")


def refusal(found: Namespaces, kubernetes) -> str:
    """Return why a namespace cannot be made; "" if it can, as for a moment after its policy was installed."""
    name = f"elsewhere-{os.getpid()}-{next(numbers)}"
    try:
        found._create(name, {})
    except DriverError as error:
        return str(error)
    kubernetes.api.ask(f"/api/v1/namespaces/{name}", method="DELETE")
    return ""


VALUES = {"publicUrl": "https://handrail.example.org", "runner": {"replicas": 1, "storage": ""}}


@contextmanager
def installed(kubernetes, image: str, desk: str, workspaces: str, **more):
    """The chart as the release `desk`, in place for the block; `more` are values of its `workspaces`."""
    values = VALUES | {"image": image, "workspaces": {"namespace": workspaces} | more}
    with Config(kubeconfig_path=kubernetes.kubeconfig, namespace=desk) as config:
        config.install(Chart.load(CHECKOUT / "deploy/kubernetes/chart"), "desk", values, namespace=desk)
        yield
        config.uninstall("desk")


def test_a_runner_makes_the_namespaces_of_teams_and_no_other(
    kubernetes, busybox_image, namespaces, tmp_path, monkeypatch
):
    from lightkube.resources.core_v1 import LimitRange, Namespace, ResourceQuota, Secret
    from lightkube.resources.rbac_authorization_v1 import RoleBinding

    desk, workspaces = namespaces
    with installed(kubernetes, busybox_image, desk, workspaces):
        runner = kubeconfig_of(kubernetes, desk, "desk-handrail-runner", tmp_path)
        monkeypatch.setenv("KUBECONFIG", str(runner))
        found = Namespaces(Cluster(workspaces), shared=False)
        assert found.note() == f"Each team's pods are in a namespace of their own, {workspaces}-TEAM."
        there = Cluster(found.keep("payments"))
        assert there.get(ResourceQuota, "handrail").spec.hard["pods"] == "100"
        assert there.get(LimitRange, "handrail") is not None
        there.create(Secret.from_dict({"metadata": {"name": "of-a-run"}}))
        foreign = Namespaces(Cluster("elsewhere"), shared=False)
        until(lambda: "a runner makes only namespaces of teams" in refusal(foreign, kubernetes))
        [bound] = [each for each in Cluster(workspaces).listed(RoleBinding) if each.metadata.name.endswith("-pods")]
        with pytest.raises(DriverError, match="a runner makes only namespaces of teams"):
            _copy(bound, Cluster("default"))
        with pytest.raises(DriverError, match="refuses it"):
            Cluster("default").listed(Secret)
        with there.asked() as client:
            assert client.get(Namespace, there.namespace).metadata.labels[TEAM] == "payments"


def test_a_runner_may_what_pods_that_wait_need(
    kubernetes, agent_sandbox, busybox_image, base_image, namespaces, ground, tmp_path, monkeypatch
):
    desk, workspaces = namespaces
    with installed(kubernetes, busybox_image, desk, workspaces, source="agent-sandbox", warm=1):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig_of(kubernetes, desk, "desk-handrail-runner", tmp_path)))
        lend_canaries(ground / "handrail")
        options = {"at": workspaces, "source": "agent-sandbox", "warm": 1}
        driver = KubernetesDriver(ground / "handrail", ground / "run", options)
        specs = [spec_in(ground, name, team="payments", image=base_image) for name in ("first", "second")]
        waited = []
        for spec in specs:
            Blocking(driver).prepare(spec)
            Blocking(driver).start(spec)
            pods = driver._pods_of(spec.run_id)
            got = pods.find(spec.run_id).metadata
            pods.source.keep(pods.name_of(spec.run_id), uid=got.uid)
            waited.append(got.name.startswith("hr-pool-"))
            Blocking(driver).warm(spec)
            [pool] = driver.warm_pools._pools()
            until(lambda of=pods, name=pool.name: of.source.waiting(name)[0] == 1)
        assert waited == [False, True]
        for owner in Blocking(driver).records():
            Blocking(driver).stop(owner, grace_s=0.0)
            Blocking(driver).clear(owner)
        driver.warm_pools.drop_all(lambda namespace: driver.pods.within(namespace).source)
        assert driver.pods.within(driver.namespaces.name_of("payments")).source.pools({}) == []


def spec_in(ground, name: str, **fields) -> RunSpec:
    for part in ("tree", "home"):
        (ground / f"{part}-{name}").mkdir()
    places = (ground / f"tree-{name}", ground / f"home-{name}")
    return RunSpec(name, name, name, *places, uid=workload_uid("kubernetes"), environment="pods", **fields)


def test_it_is_installed_and_its_pods_are_let_in(kubernetes, busybox_image, namespaces):
    desk, workspaces = namespaces
    with installed(kubernetes, busybox_image, desk, workspaces):
        pods = until(lambda: listed(kubernetes, f"/api/v1/namespaces/{desk}/pods", {*NAMES}))
        assert all(pod["spec"]["securityContext"]["runAsNonRoot"] for pod in pods)
        assert [name for name in names(pods) if name.startswith("desk-handrail-prepare-1-")]
        quota = f"/api/v1/namespaces/{workspaces}/resourcequotas/handrail"
        assert kubernetes.api.ask(quota)[1]["spec"]["hard"]["pods"] == "100"
    assert (
        kubernetes.api.ask(f"/api/v1/namespaces/{workspaces}")[1]["status"]["phase"] == "Active"
    )  # with what runs in it


def names(objects) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def listed(kubernetes, path: str, wanted: set[str]):
    """Return the objects of a collection once all of the wanted ones and a pod of the Job are there."""
    found = kubernetes.api.ask(path)[1]["items"]
    return found if wanted <= names(found) and len(found) > len(wanted) else None
