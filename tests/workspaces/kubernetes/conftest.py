"""Pods of a real cluster, and the product on it."""

import uuid

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS, begin, ground, lend_canaries, why_not  # noqa: F401 - fixtures
from tests.workspaces.egress.grounds import OPEN
from tests.workspaces.kubernetes.controller import agent_sandbox  # noqa: F401 - a fixture


@pytest.fixture
def pod(begin):  # noqa: F811
    """`pod(**fields)`: a Run in a pod that is up, ended after the test."""
    return lambda **fields: begin("kubernetes", **fields)


@pytest.fixture(scope="session")
def on_cluster(pod_namespace, require, tmp_path_factory):
    """A desk whose workspaces may be pods."""
    OPTIONS["kubernetes"]["at"] = pod_namespace
    if why := why_not("kubernetes", False):
        require("kubernetes", why)
    home = tmp_path_factory.mktemp("home")
    lend_canaries(home)
    hosts = tmp_path_factory.mktemp("names") / "hosts"
    hosts.touch()
    networks = {"HANDRAIL_EGRESS_HOSTS": str(hosts), "HANDRAIL_EGRESS_NETWORKS": "127.77.0.0/16"}
    product = Product(home, HANDRAIL_KUBERNETES=pod_namespace, **networks)
    product.hosts = hosts  # names that the workspaces' proxy knows
    try:
        product.start()
        yield Desk(product, product.agent_token("pods"))
    finally:
        product.clean_up()


@pytest.fixture
def name_for(on_cluster):
    """`name_for("x")`: a name of its own that leads to the loopback address on which tests listen."""

    def named(word: str) -> str:
        name = f"{word}-{uuid.uuid4().hex[:8]}.test"
        with on_cluster.product.hosts.open("a") as file:
            file.write(f"{OPEN} {name}\n")
        return name

    return named


@pytest.fixture
def lead(on_cluster):
    return Desk(on_cluster.product, on_cluster.product.person_token("lead-of-pods", "lead"))


@pytest.fixture
def workspace(on_cluster, lead):
    """`workspace(agent=[…])`: the key of a new one in a pod, with this list of hosts."""

    def make(**egress) -> str:
        name = f"pods-{uuid.uuid4().hex[:8]}"
        lead.post("/environments", {"name": name, "driver": "kubernetes", "egress": egress})
        made = on_cluster.create(environment=name)
        assert made["state"] == "ready", made
        return made["key"]

    return make


@pytest.fixture
def powered(kubernetes):
    """`powered(name)`: take the power from a node, which it has again after the test."""
    off = []

    def power_off(name: str):
        off.append(name)
        kubernetes.power_off(name)

    yield power_off
    for name in off:
        kubernetes.power_on(name)
    until(lambda: all(is_ready(kubernetes, name) for name in off))


def is_ready(kubernetes, node: str) -> bool:
    conditions = kubernetes.api.ask(f"/api/v1/nodes/{node}")[1]["status"]["conditions"]
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
