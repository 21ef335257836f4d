"""A namespace for the pods of workspaces on the cluster of the tests, as an operator makes one."""

import os

import pytest

NAMESPACE = "workspaces"
GIVEN = "HANDRAIL_TEST_KUBERNETES_NAMESPACE"  # one of a cluster that is up already, reached by KUBECONFIG
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest.fixture(scope="session")
def pod_namespace(request):
    """The namespace, as HANDRAIL_KUBERNETES takes it, which KUBECONFIG leads to."""
    if given := os.environ.get(GIVEN):
        yield given
        return
    cluster = request.getfixturevalue("kubernetes")
    request.getfixturevalue("base_image")
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": RESTRICTED}}
    cluster.api.ask("/api/v1/namespaces", body)
    before = os.environ.get("KUBECONFIG")
    os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
    yield NAMESPACE
    os.environ.pop("KUBECONFIG")
    if before is not None:
        os.environ["KUBECONFIG"] = before
