"""Evidence from outside: the whole product, real repositories in real workspaces, cards as people see them."""

import html
import re
import uuid

import pytest

from tests.support.desk import Desk
from tests.support.visitor import Visitor
from tests.workspaces.conftest import repository  # noqa: F401 (a fixture)

GIT = "git -c user.name=T -c user.email=t@example.org"


@pytest.fixture(scope="session")
def desk(product):
    return Desk(product, product.agent_token("evidence-agent"))


class Person(Visitor):
    """A reviewer, over the API and with a browser's session."""

    def __init__(self, product, name="evidence-reviewer", role="reviewer"):
        super().__init__(product, product.sign_in_url(name, role))
        self.token = product.person_token(name, role)

    def evidence(self, action, *, patient=True) -> dict:
        """Evidence is given up after two seconds, which a busy machine may need more than once."""
        for _ in range(10):
            answer = self.product.get(f"/api/v1/actions/{action['id']}/evidence", self.token)
            assert answer.status == 200, answer.body
            if not patient or ("in time" not in answer.text and "does not answer" not in answer.text):
                break
        return answer.json


@pytest.fixture(scope="session")
def person(product):
    return Person(product)


@pytest.fixture(scope="module")
def workspace(desk):
    """A workspace with a repository: two files in it, one beside it."""
    key = desk.create(f"evidence-{uuid.uuid4().hex[:8]}")["key"]
    desk.run(key, f"git init -q -b main && echo one > a.txt && mkdir d && echo two > d/b.txt && {GIT} add . && "
                  f"{GIT} commit -qm first && echo three > loose.txt")  # fmt: skip
    return key


@pytest.fixture
def ask(desk):
    """`ask(key, command)`: the agent asks; the action as JSON."""

    def submit(key, command, *, patient=True, **more):
        body = {"tool": "Bash", "arguments": {"command": command}, "workspace": key, **more}
        for _ in range(10):
            action = desk.post("/actions", body).json
            if not patient or not any("runner does not answer" in reason for reason in action["reasons"]):
                break  # the gate asks the runner for a third of a second, which a busy machine may miss
        return action

    return submit


@pytest.fixture
def says(person):
    """`says(action)`: all sentences of its evidence."""

    def read(action):
        found = person.evidence(action)
        return [text for finding in found["findings"] for text in finding["says"]] or [found["says"]]

    return read


def text_of(page: str) -> str:
    """What a page says, without its tags."""
    return html.unescape(re.sub(r"<[^>]+>", "", page))
