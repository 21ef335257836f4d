"""The outside contract, called for real: one product, and everybody who may knock at it."""

import json
import re
import subprocess
import time
import uuid

import pytest

from tests.support.product import Answer, Product

MAKE_EVERYBODY = """
import json
from dashboard.people.provisioning import agent_of, person_in, team_by_slug, token_for
from dashboard.models import Role
tokens = {}
for slug in ("contract", "strangers"):
    team = team_by_slug(slug)
    for name in ("agent", "other-agent"):
        own = name if slug == "contract" else f"{slug}-{name}"  # an agent is found by its name within its team
        tokens[f"{slug} {name}"] = token_for(team, by="tests", agent=agent_of(team, own))
    for role in Role.values:
        user = person_in(team, f"{slug}-{role}", role)
        tokens[f"{slug} {role}"] = token_for(team, by="tests", user=user)
print(json.dumps(tokens))
"""
PROBLEM = {"type": "str", "title": "str", "status": "int", "detail": "str"}


def kind(value) -> str:
    """The type of a JSON value, as the contract speaks of them."""
    if isinstance(value, str):
        return "time" if re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", value) else "str"
    names = {type(None): "null", bool: "bool", int: "int", float: "float", list: "list", dict: "dict"}
    return names[type(value)]


def kinds(value: dict) -> dict[str, str]:
    """{field: kind} of a JSON object."""
    return {name: kind(inner) for name, inner in value.items()}


def as_promised(value: dict, promised: dict[str, str]) -> dict[str, str]:
    """The promised fields as they are; `int|null` is either. Compare it with what was promised."""
    found = kinds(value)
    return {
        name: words if found.get(name) in words.split("|") else found.get(name, "missing")
        for name, words in promised.items()
    }


class Client:
    """The API with one token; each call says what status it expects."""

    def __init__(self, product: Product, token: str):
        self.product, self.token = product, token

    def call(self, method: str, path: str, body=None, expect: int = 200, **options) -> Answer:
        answer = self.product.call(method, f"/api/v1{path}", self.token, body, **options)
        assert answer.status == expect, (method, path, answer.status, answer.body[:2000])
        if answer.status >= 400:
            assert answer.headers["Content-Type"] == "application/problem+json"
            assert as_promised(answer.json, PROBLEM) == PROBLEM
            assert answer.json["status"] == answer.status
        return answer

    def get(self, path: str, expect: int = 200, **options) -> Answer:
        return self.call("GET", path, None, expect, **options)

    def post(self, path: str, body=None, expect: int = 200, key: str | None = None) -> Answer:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        return self.call("POST", path, {} if body is None else body, expect, headers=headers)

    def workspace(self, **wish) -> str:
        """A new workspace that is up; its key."""
        key = f"c-{uuid.uuid4().hex[:10]}"
        self.post("/workspaces", {"key": key, **wish}, 201)
        assert self.settled(key)["state"] == "ready"
        return key

    def settled(self, key: str) -> dict:
        for _ in range(4):
            found = self.get(f"/workspaces/{key}?wait=25").json
            if found["busy"] is None:
                return found
        raise AssertionError(f"{key} is busy with {found['busy']}")

    def finished(self, command_id: str) -> dict:
        for _ in range(4):
            found = self.get(f"/commands/{command_id}?wait=25").json
            if found["state"] in ("settled", "uncertain"):
                return found
        raise AssertionError(found)

    def over(self, action_id: str, within: float = 60) -> dict:
        """A brokered action once it is over."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            found = self.get(f"/actions/{action_id}?wait=25").json
            if found["status"] not in ("pending", "approved", "running"):
                return found
        raise AssertionError(found)


@pytest.fixture(scope="session")
def everybody(product) -> dict[str, Client]:
    """{"contract lead": Client, "strangers agent": Client, …}: two agents and four roles in each of two teams."""
    return {name: Client(product, token) for name, token in json.loads(product.shell(MAKE_EVERYBODY)).items()}


@pytest.fixture(scope="session")
def agent(everybody):
    return everybody["contract agent"]


@pytest.fixture(scope="session")
def reviewer(everybody):
    return everybody["contract reviewer"]


@pytest.fixture(scope="session")
def lead(everybody):
    return everybody["contract lead"]


@pytest.fixture(scope="session")
def stranger(everybody):
    """Everything in the other team."""
    return everybody["strangers admin"]


@pytest.fixture(scope="session")
def place(agent) -> str:
    """A workspace of a small repository with a file more, for tests that leave it up."""
    repository = agent.product.sources / "contract"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    git = ["git", "-C", str(repository), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    key = agent.workspace(labels={"for": "contract"}, source={"git": str(repository)})
    agent.call("PUT", f"/workspaces/{key}/files/hello.txt", b"hello\n", 201)
    return key


@pytest.fixture
def asked(agent):
    """`asked("git push", mode=…)`: an action of a Bash call, as the API answers it."""

    def ask(command: str = "git push origin main", **more) -> dict:
        return agent.post("/actions", {"tool": "Bash", "arguments": {"command": command}, **more}, 201).json

    return ask
