"""A node that is cut off, for a while or for good: what is said meanwhile, and what comes back."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.waiting import until
from tests.workspaces.drivers.runs import finish
from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import InitClient
from workspaces.drivers.kubernetes.pod_source import RUN

COUNT = "i=0; while [ $i -lt 600 ]; do i=$((i+1)); echo $i; sleep 0.05; done"


def is_up(run) -> bool:
    return bool(run.driver._state(run.spec.run_id).get("up"))


def said_of(run) -> str:
    """What is said of a Run that nobody can reach; "" while it counts as alive."""
    try:
        assert run.again().alive(run.owner)
    except DriverError as error:
        return str(error)
    return ""


@pytest.fixture
def cut(kubernetes):
    """`cut(run)`: pull the cable of the node that has the pod; it is plugged in again by `mend(run)`, or at the end."""
    yield lambda run: kubernetes.cut(run.driver._known(run.spec.run_id)["node"])
    for name in kubernetes.nodes:
        kubernetes.mend(name)


def test_a_program_goes_on_over_a_cut_and_nothing_of_its_output_is_lost(kubernetes, pod, cut):
    run = pod()
    with InitClient(run.owner.address.socket) as init:
        started = run.begin(init, COUNT)
        cut(run)
        until(lambda: not is_up(run))
        kubernetes.mend(run.driver._known(run.spec.run_id)["node"])
        output, status = finish(init, started)
    assert status == 0
    assert output.split() == [str(number) for number in range(1, 601)]
    assert run.again().alive(run.owner) is True


def test_a_node_that_is_lost_is_out_of_reach_until_the_cluster_says_that_its_pod_is_gone(pod, cut):
    run = pod()
    run.sh("echo since the newest snapshot > note")
    until(lambda: run.driver.pods.find(run.spec.run_id).status.phase == "Running")  # later than the keeper answers
    cut(run)
    words = until(lambda: said_of(run))
    assert words.startswith("Its pod on node ")
    assert "does not answer; the cluster calls it Running." in words
    run.driver.pods.delete(run.spec.run_id, grace_s=0)  # as an operator does who knows that the node is gone
    until(lambda: not run.again().alive(run.owner))
    assert run.again().end_reason(run.owner) == "removed"
    run.again().stop(run.owner)
    assert run.again().driver.lacks_files(run.spec)


@pytest.fixture
def cordon(kubernetes):
    """`cordon("n1")`: let a node get no new pods until the end of the test, or until `cordon("n1", off=True)`."""

    def mark(name: str, *, off: bool = False):
        path = f"/api/v1/nodes/{name}"
        node = kubernetes.api.ask(path)[1]
        node["metadata"].pop("resourceVersion")  # its kubelet writes to it meanwhile
        status, answer = kubernetes.api.ask(
            path, node | {"spec": node["spec"] | {"unschedulable": not off}}, method="PUT"
        )
        assert status == 200, answer

    yield mark
    for name in kubernetes.nodes:
        mark(name, off=True)


def nodes_of_runs(kubernetes, namespace: str) -> set[str]:
    """Return the nodes that pods of Runs were given to."""
    _, found = kubernetes.api.ask(f"/api/v1/namespaces/{namespace}/pods?labelSelector={RUN}")
    return {each["spec"]["nodeName"] for each in found["items"] if each["spec"].get("nodeName")}


def test_a_pod_that_was_given_to_a_dead_node_is_made_again_on_another(kubernetes, pod_namespace, pod, powered, cordon):
    pod().end()  # after it the canaries have been sent
    until(lambda: not nodes_of_runs(kubernetes, pod_namespace))
    dead, other = kubernetes.nodes
    cordon(other)
    powered(dead)
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(pod)
        assert until(lambda: nodes_of_runs(kubernetes, pod_namespace)) == {dead}
        cordon(other, off=True)
        run = starting.result()
    assert run.driver._known(run.spec.run_id)["node"] == other
    assert run.sh("echo on") == ("on\n", 0)
