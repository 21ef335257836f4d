"""Warm pools of pods in a whole product with agent-sandbox: an agent asks for workspaces over the API."""

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS, lend_canaries, why_not
from workspaces.drivers.kubernetes.agent_sandbox import AgentSandboxes
from workspaces.drivers.kubernetes.cluster import Cluster
from workspaces.drivers.kubernetes.pod_source import RUN


@pytest.fixture
def with_pools(pod_namespace, agent_sandbox, require, tmp_path):
    """A desk of a product in which a pod waits for each environment, and the source of its pods."""
    OPTIONS["kubernetes"]["at"] = pod_namespace
    if why := why_not("kubernetes", False):
        require("kubernetes", why)
    names = {"SOURCE": "agent-sandbox", "WARM": "1", "NAMESPACES": "shared"}
    lend_canaries(tmp_path)
    more = {f"HANDRAIL_KUBERNETES_{name}": value for name, value in names.items()}
    product = Product(tmp_path, HANDRAIL_KUBERNETES=pod_namespace, **more)
    source = AgentSandboxes(Cluster(pod_namespace))
    try:
        product.start()
        yield Desk(product, product.agent_token("pods")), source
    finally:
        product.clean_up()
        for name in source.pools({}):
            source.drop_pool(name)


def test_the_second_workspace_of_an_environment_gets_a_pod_that_waited(with_pools):
    desk, source = with_pools
    assert desk.create(driver="kubernetes")["state"] == "ready"
    pool = until(lambda: next(iter(source.pools({})), ""))
    until(lambda: source.waiting(pool)[0] == 1)
    [waits] = source.waiting(pool)[1]
    made = desk.create(driver="kubernetes")
    assert made["state"] == "ready", made
    assert desk.run(made["key"], "hostname; echo one > note; cat note; id -un") == b"workspace\none\nagent\n"
    claimed = source.cluster.get(type(waits), waits.metadata.name)
    assert (claimed.metadata.uid, RUN in claimed.metadata.labels) == (waits.metadata.uid, True)
    desk.post(f"/workspaces/{made['key']}/stop", expect=202)
    assert desk.settled(made["key"])["state"] == "stopped"
    desk.post(f"/workspaces/{made['key']}/resume", expect=202)
    assert desk.settled(made["key"])["reason"] == ""
    assert desk.run(made["key"], "cat note") == b"one\n"  # in a pod that waited, or a cold one
