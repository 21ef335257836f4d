"""A product of its own whose workspaces reach the API of `api_host`, with a lead and an agent; fixtures to import.

A module takes them by `from … import agent, api, lead, product`, and names them in `__all__`.
"""

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.workspaces.drivers.runs import IMAGES
from tests.workspaces.egress.api_host import HOST, serving, settings_for


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("api")) as server:
        yield server


@pytest.fixture(scope="module")
def product(api, tmp_path_factory):
    running = Product(tmp_path_factory.mktemp("reach") / "home", **settings_for(tmp_path_factory.mktemp("names"), api))
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


@pytest.fixture(scope="module")
def lead(product):
    return Desk(product, product.person_token("lia", "lead"))


@pytest.fixture(scope="module")
def agent(product):
    return Desk(product, product.agent_token("leashed"))


@pytest.fixture(scope="module")
def environment(lead, agent, api, require):
    """`environment(name, driver, lines)`: make one that reaches the host; these lines of its list, or all of it."""

    def make(name: str, driver: str = "sandbox", lines=()) -> str:
        drivers = {one["name"]: one for one in agent.get("/drivers").json["drivers"]}
        if not drivers[driver]["available"]:
            require(driver, drivers[driver]["reason"])
        image = {"image": IMAGES[driver]} if driver in IMAGES else {}
        egress = {"agent": list(lines) or [f"{HOST}:{api.port}"]}
        lead.post("/environments", {"name": name, "driver": driver, "egress": egress, **image})
        return name

    return make


@pytest.fixture(scope="module")
def workspace(agent, require):
    """`workspace(environment, driver)`: the key of a new one that is ready."""

    def make(environment: str, driver: str = "sandbox") -> str:
        made = agent.create(environment=environment)
        if made["state"] == "failed" and "image" in made["reason"].lower():
            require(driver, made["reason"])
        assert made["state"] == "ready", made
        return made["key"]

    return make
