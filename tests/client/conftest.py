"""A program with the client, a person at the desk, and the line between them. One product for all of it."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from handrail_client import Connection, Handrail
from tests.client.line import Line
from tests.support import CHECKOUT
from tests.support.waiting import until


class Person:
    """A reviewer, by the API."""

    def __init__(self, product, token):
        self.product, self.token = product, token

    def actions(self, **query) -> list[dict]:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return self.product.get(f"/api/v1/actions?{asked}", self.token).json["actions"]

    def of(self, agent: str, status: str = "") -> list[dict]:
        return [row for row in self.actions(status=status or "pending") if row["agent"] == agent]

    def sees(self, agent: str) -> dict:
        """The one action of the agent that waits, once there is one."""
        [found] = until(lambda: self.of(agent))
        return found

    def decides(self, action: dict, verdict: str, **more):
        answer = self.product.post(
            f"/api/v1/actions/{action['id']}/decision",
            self.token,
            {"verdict": verdict, "digest": action["digest"]} | more,
        )
        assert answer.status == 200, answer.text

    def status(self, action: dict) -> str:
        return self.product.get(f"/api/v1/actions/{action['id']}", self.token).json["status"]


@pytest.fixture(scope="session")
def person(product):
    return Person(product, product.person_token("rita-of-clients"))


@pytest.fixture
def name(request) -> str:
    """The agent of this test."""
    return request.node.name.replace("[", "-").replace("]", "")[:80].replace("{}", "object").replace(" ", "-")


@pytest.fixture
def token(product, name) -> str:
    return product.agent_token(name)


@pytest.fixture
def line(product):
    made = Line(product.port)
    yield made
    made.close()


@pytest.fixture
def desk(line, token) -> Handrail:
    """The client of the test's agent, over the line."""
    return Handrail(Connection(line.url, token), grace=0.5, timeout=60)


@pytest.fixture
def beside():
    """`beside(function, …)`: call it in a thread; its Future."""
    with ThreadPoolExecutor(8) as pool:
        yield pool.submit


@pytest.fixture
def environment(product, token) -> dict:
    """Of a program that uses the client, in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HANDRAIL_", "DJANGO_"))}
    return kept | {"HANDRAIL_URL": product.url, "HANDRAIL_TOKEN": token, "PYTHONPATH": str(CHECKOUT / "client")}


@pytest.fixture
def command() -> list[str]:
    """The `handrail` command line."""
    return [sys.executable, "-m", "handrail_client"]
