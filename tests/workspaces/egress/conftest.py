"""Real servers on this host's loopback, and workspaces of the session's product that reach them by name."""

import threading
import uuid

import pytest

from tests.support.desk import Desk
from tests.workspaces.drivers.runs import IMAGES
from tests.workspaces.egress.grounds import OPEN, Server, certificate

_naming = threading.Lock()


@pytest.fixture(scope="session")
def agent(product):
    return Desk(product, product.agent_token("egress-tests"))


@pytest.fixture(scope="session")
def lead(product):
    return Desk(product, product.person_token("lead-of-egress", "lead"))


@pytest.fixture(scope="session")
def reviewer(product):
    return Desk(product, product.person_token("reviewer-of-egress", "reviewer"))


@pytest.fixture
def serve():
    """`serve(…)`: a Server, closed after the test."""
    made = []

    def start(*args, **options) -> Server:
        made.append(Server(*args, **options))
        return made[-1]

    yield start
    for server in made:
        server.close()


@pytest.fixture
def name_for(product):
    """`name_for("x")`: a name of its own that leads to 127.77.0.1, or wherever it is told to."""

    def named(word: str, address: str = OPEN) -> str:
        name = f"{word}-{uuid.uuid4().hex[:8]}.test"
        with _naming, product.hosts.open("a") as file:
            file.write(f"{address} {name}\n")
        return name

    return named


@pytest.fixture
def tls_for(tmp_path):
    return lambda *names: certificate(tmp_path, *names)


@pytest.fixture
def workspace(lead, agent, require):
    """`workspace(setup=[…], agent=[…])`: the key of a new one with these lists."""

    def make(script="", *, driver="sandbox", **egress) -> str:
        drivers = {one["name"]: one for one in agent.get("/drivers").json["drivers"]}
        if not drivers[driver]["available"]:
            require(driver, drivers[driver]["reason"])
        name = f"egress-{uuid.uuid4().hex[:8]}"
        image = {"image": IMAGES[driver]} if driver in IMAGES else {}
        lead.post("/environments", {"name": name, "driver": driver, "setup": script, "egress": egress, **image})
        made = agent.create(environment=name)
        if made["state"] == "failed" and "image" in made["reason"].lower():
            require(driver, made["reason"])
        assert made["state"] == "ready", made
        return made["key"]

    return make
