"""A product whose runner is killed where a file of POINTS is, and a git source that a code host serves."""

import time

import pytest

from tests.support.code_host import TOKEN
from tests.support.desk import Desk
from tests.support.git_source import GitSource
from tests.support.product import Product

POINTS = ("take_back.put_back", "take_back.at_host")
ENDED = ("succeeded", "failed", "uncertain", "denied", "cancelled", "expired")


@pytest.fixture(scope="package")
def product(tmp_path_factory):
    folder = tmp_path_factory.mktemp("product")
    points = ",".join(f"{point}:{folder / point}" for point in POINTS)
    running = Product(folder, HANDRAIL_PRIVATE_SOURCES="1", HANDRAIL_FAILPOINT=points)
    running.points = folder
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


@pytest.fixture
def source(tmp_path):
    made = GitSource(tmp_path)
    yield made
    made.host.close()


class Team:
    """An agent and a lead of one team, in a workspace that came from the source."""

    def __init__(self, product, source, *, token: bool = True):
        self.agent = Desk(product, product.agent_token("undoer"))
        self.lead = Desk(product, product.person_token("lead", "lead"))
        self.source, self.product = source, product
        if token:
            name = f"CODE_HOST_127_0_0_1_{source.host.url.rpartition(':')[2]}"
            wish = {"scope": "host", "value": TOKEN, "origin": source.host.url}
            self.lead.call("PUT", f"/secrets/{name}", wish)
        self.key = self.agent.create(source={"git": source.address})["key"]

    def commits(self, line: str = "total = 1") -> str:
        git = "git -c user.name=A -c user.email=a@example.org"
        self.agent.run(self.key, f"echo '{line}' > cart.py && {git} commit -qam 'Count'")
        return self.agent.run(self.key, "git rev-parse HEAD").decode().strip()

    def until(self, pk: str, is_so) -> dict:
        """Return the action once it is so."""
        for _ in range(300):
            action = self.lead.get(f"/actions/{pk}").json
            if is_so(action):
                return action
            time.sleep(0.1)
        raise AssertionError(action)

    def found(self, pk: str) -> dict:
        """Return the action once Handrail has looked for its way back."""
        return self.until(pk, lambda told: told["compensation"] or told["no_compensation_because"])

    def approve(self, action: dict) -> dict:
        answer = {"verdict": "approve", "digest": action["digest"]}
        self.lead.post(f"/actions/{action['id']}/decision", answer, expect=200)
        return self.until(action["id"], lambda told: told["status"] in ENDED)

    def ready(self, pk: str) -> dict:
        return self.until(pk, lambda told: (told["compensation"] or {}).get("state") == "ready")

    def compensate(self, pk: str, expect: int = 201) -> dict:
        return self.lead.post(f"/actions/{pk}/compensate", {}, expect=expect).json


@pytest.fixture
def team(product, source):
    return Team(product, source)
