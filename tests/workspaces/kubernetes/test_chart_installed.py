"""The chart on a real API server: every object is taken, and every pod is let in by Pod Security `restricted`."""

import os

import pytest
from helm_python import Chart, Config

from tests.support import CHECKOUT
from tests.support.waiting import until

NAMES = ("desk-handrail-web-0", "desk-handrail-web-1", "desk-handrail-runner-0", "desk-handrail-queue-0")


@pytest.fixture
def namespaces(kubernetes):
    """Two names: of the desk's namespace, which is restricted, and of that of its workspaces, which the chart makes."""
    desk, workspaces = (f"{name}-{os.getpid()}" for name in ("desk", "desk-workspaces"))
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubernetes.create("/api/v1/namespaces", "Namespace", desk, labels=labels)
    yield desk, workspaces
    for name in (desk, workspaces):
        kubernetes.api.ask(f"/api/v1/namespaces/{name}", method="DELETE")


def test_it_is_installed_and_its_pods_are_let_in(kubernetes, busybox_image, namespaces):
    desk, workspaces = namespaces
    values = {
        "image": busybox_image,
        "publicUrl": "https://handrail.example.org",
        "workspaces": {"namespace": workspaces},
        "runner": {"replicas": 1, "storage": ""},
    }
    with Config(kubeconfig_path=kubernetes.kubeconfig, namespace=desk) as config:
        config.install(Chart.load(CHECKOUT / "deploy/kubernetes/chart"), "desk", values, namespace=desk)
        pods = until(lambda: listed(kubernetes, f"/api/v1/namespaces/{desk}/pods", {*NAMES}))
        assert all(pod["spec"]["securityContext"]["runAsNonRoot"] for pod in pods)
        assert [name for name in names(pods) if name.startswith("desk-handrail-prepare-1-")]
        quota = f"/api/v1/namespaces/{workspaces}/resourcequotas/handrail"
        assert kubernetes.api.ask(quota)[1]["spec"]["hard"]["pods"] == "100"
        config.uninstall("desk")
    assert (
        kubernetes.api.ask(f"/api/v1/namespaces/{workspaces}")[1]["status"]["phase"] == "Active"
    )  # with what runs in it


def names(objects) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def listed(kubernetes, path: str, wanted: set[str]):
    """Return the objects of a collection once all of the wanted ones and a pod of the Job are there."""
    found = kubernetes.api.ask(path)[1]["items"]
    return found if wanted <= names(found) and len(found) > len(wanted) else None
