"""Real Claude Code against the real product: a scripted model behind it, a person beside it, a proxy in between."""

import os
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from tests.approvals.agents.claude_code.model import Model
from tests.approvals.agents.claude_code.session import Project
from tests.approvals.agents.claude_code.wire import Wire
from tests.support.product import Product

HOLD = 2  # seconds that the product named `brief` holds a hook


@pytest.fixture(scope="session")
def claude(require):
    """The executable: HANDRAIL_TEST_CLAUDE, or what install.sh brings."""
    named = os.environ.get("HANDRAIL_TEST_CLAUDE")
    if named:
        return named
    script = Path(__file__).with_name("install.sh")
    done = subprocess.run([script], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        require("claude", (done.stderr.strip().splitlines() or ["install.sh failed"])[-1])
    return done.stdout.strip()


class Reviewer:
    """A person who answers over the API, and an agent's token beside them."""

    def __init__(self, product: Product):
        self.product = product
        self.agent_token = product.agent_token("claude-code")
        self._token = product.person_token("rita", "reviewer")
        self._sessions: dict[str, str] = {}  # of each action; the product of other tests may hold hundreds

    def actions(self, session: str) -> list[dict]:
        """All actions of a Claude Code session, oldest first."""
        rows = self.product.get("/api/v1/actions?limit=50", self._token).json["actions"]
        of_it = [row["id"] for row in reversed(rows) if self._sessions.get(row["id"], session) == session]
        whole = [self.product.get(f"/api/v1/actions/{pk}", self._token).json for pk in of_it]
        self._sessions |= {action["id"]: action["session"] for action in whole}
        return [action for action in whole if action["session"] == session]

    def cards(self, session: str, count: int = 1, within: float = 30) -> list[dict]:
        """The session's cards once so many wait, oldest first."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            found = [action for action in self.actions(session) if action["status"] == "pending"]
            if len(found) >= count:
                return found
            time.sleep(0.05)
        raise AssertionError(f"{count} cards did not come within {within} s: {self.actions(session)}")

    def card(self, session: str) -> dict:
        return self.cards(session)[0]

    def settled(self, card: dict, status: str, within: float = 60):
        """Wait until the action has this status."""
        deadline = time.monotonic() + within
        while (now := self.product.get(f"/api/v1/actions/{card['id']}", self._token).json)["status"] != status:
            assert time.monotonic() < deadline, now
            time.sleep(0.1)

    def answer(self, card: dict, verdict: str, **more):
        body = {"verdict": verdict, "digest": card["digest"], **more}
        answered = self.product.post(f"/api/v1/actions/{card['id']}/decision", self._token, body)
        assert answered.status == 200, answered.body


@pytest.fixture(scope="session")
def reviewer(product):
    return Reviewer(product)


@pytest.fixture(scope="module")
def brief(tmp_path_factory):
    """A product that soon says "not yet", for tests that restart and kill it."""
    running = Product(tmp_path_factory.mktemp("brief"), HANDRAIL_HOLD_SECONDS=str(HOLD))
    running.start()
    yield running
    running.clean_up()


@pytest.fixture(scope="module")
def brief_reviewer(brief):
    return Reviewer(brief)


@pytest.fixture
def model():
    running = Model()
    yield running
    running.stop()


@pytest.fixture
def session():
    return str(uuid.uuid4())


@pytest.fixture
def wired():
    """`wired(product)`: a recording proxy before it. No answer that ever passed may be one that runs a tool unasked."""
    made = []

    def to(product: Product) -> Wire:
        made.append(Wire(product.url))
        return made[-1]

    yield to
    for wire in made:
        wire.stop()
        assert wire.faults() == []


@pytest.fixture
def project_at(claude, model):
    """`project_at(url, token)`: a project whose hooks go to that address."""
    made = []

    def at(url: str, token: str) -> Project:
        made.append(Project(claude, model.url, url, token))
        return made[-1]

    yield at
    for project in made:
        project.close()


@pytest.fixture
def wire(wired, product):
    running = wired(product)
    yield running
    assert all(exchange.answer for exchange in running.exchanges)  # this product is never killed


@pytest.fixture
def project(project_at, wire, reviewer):
    """Gated by the session's product, through the recording proxy."""
    return project_at(wire.url, reviewer.agent_token)
