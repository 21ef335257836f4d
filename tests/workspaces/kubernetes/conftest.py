"""Pods of a real cluster, and the product on it."""

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.workspaces.drivers.runs import OPTIONS, begin, ground, lend_canaries, why_not  # noqa: F401 - fixtures
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
    product = Product(home, HANDRAIL_KUBERNETES=pod_namespace)
    try:
        product.start()
        yield Desk(product, product.agent_token("pods"))
    finally:
        product.clean_up()
