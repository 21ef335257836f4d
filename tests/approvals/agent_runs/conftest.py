"""A product whose model relay leads to a scripted model, with the real programs of agents; and rows without either."""

import os
import re
from pathlib import Path

import pytest

from approvals import agent_runs
from approvals.connect.proof.model import Model
from dashboard.people.access import caller_of
from tests.pages.conftest import make_workspace
from tests.support import CHECKOUT
from tests.support.product import Product
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, OPTIONS
from workspaces import extensions
from workspaces.models import Environment, Operation, Phase

from .steps import WISH, follow

PINNED = (CHECKOUT / "deploy" / "agents.txt").read_text()
VERSIONS = {
    "claude-code": re.search(r"/claude-code@(\S+)", PINNED)[1],
    "codex": re.search(r"/codex@(\S+)", PINNED)[1],
    "opencode": re.search(r"opencode-ai@(\S+)", PINNED)[1],
}
KEYS = {"anthropic": "key-of-anthropic-0123456789", "openai": "key-of-openai-0123456789"}
MODELS = {"claude-code": "claude-sonnet-4-5", "codex": "gpt-5", "opencode": "claude-sonnet-4-5"}
SECRETS = """
from dashboard.models import Actor, Team
from workspaces import secrets
team, by = Team.objects.get(slug="main"), Actor.system("tests")
for name, value in {keys!r}.items():
    secrets.save(team, f"KEY_{{name.upper()}}", "models", value, by=by)
"""


@pytest.fixture(scope="session")
def real_agents(require) -> Path:
    """The folder of the programs."""
    folder = os.environ.get("HANDRAIL_TEST_AGENTS")
    if not folder:
        require("agents", "HANDRAIL_TEST_AGENTS names no folder; `deploy/agents.sh` makes one and prints it")
    return Path(folder)


class Desk:
    """The product with the scripted model, and a lead who starts agents at it."""

    def __init__(self, home: Path, **environment):
        self.model = Model()
        upstreams = f"anthropic={self.model.url} openai={self.model.url}"
        engine = OPTIONS["docker"]["address"]
        self.product = Product(
            home,
            HANDRAIL_MODEL_UPSTREAMS=upstreams,
            **{"HANDRAIL_DOCKER_HOST": engine} if engine else {},
            **environment,
        )
        self.product.start()
        self.product.shell(SECRETS.format(keys=KEYS))
        self.lead = self.product.person_token("lena", "lead")
        access = {name: {"secret": f"KEY_{name.upper()}", "models": ["claude-*", "gpt-5"]} for name in KEYS}
        programs = [f"{name}@{version}" for name, version in VERSIONS.items()]
        self.about = about = {"agent_programs": programs, "model_access": access}
        self.post("/environments", about | {"name": "agents"}, 201)
        in_container = {"driver": "docker", "image": IMAGES["docker"], "minimum_isolation": "container"}
        self.post("/environments", about | in_container | {"name": "containers"}, 201)

    def call(self, method: str, path: str, body=None, status: int = 200):
        answer = self.product.call(method, f"/api/v1{path}", self.lead, body)
        assert answer.status == status, answer.text
        return answer.json

    def post(self, path: str, body=None, status: int = 200):
        return self.call("POST", path, {} if body is None else body, status)

    def get(self, path: str):
        return self.call("GET", path)

    def start(self, program: str, task: str, **wish) -> dict:
        about = {"program": program, "task": task, "model": MODELS[program]}
        where = {} if {"workspace", "environment"} & set(wish) else {"environment": "agents"}
        return self.post("/agent-runs", about | where | wish, 201)

    def run(self, started: dict) -> dict:
        return self.get(f"/agent-runs/{started['id']}")

    def reaches(self, started: dict, *states: str, within: float = 120) -> dict:
        """The run once it is in one of these states."""

        last = {}

        def found():
            last.update(self.run(started))
            return last["state"] in states

        try:
            until(found, within=within)
        except AssertionError:
            raise AssertionError(f"it is no {states}: {last}\n{self.product.log[-3000:]}") from None
        return last

    def card_of(self, started: dict, within: float = 120) -> dict:
        """The one action of its workspace that waits for a person."""

        def found():
            waiting = self.get("/actions?status=pending")["actions"]
            own = [each for each in waiting if each["workspace"] == started["workspace"]]
            return own[0] if own else None

        return until(found, within=within)

    def decide(self, card: dict, verdict: str, comment: str = ""):
        self.post(f"/actions/{card['id']}/decision", {"verdict": verdict, "digest": card["digest"], "comment": comment})

    def prints(self, started: dict, command: str) -> str:
        """What a command prints in the run's workspace."""
        made = self.post(f"/workspaces/{started['workspace']}/commands", {"command": command}, 201)
        ended = self.product.settled(f"/api/v1/commands/{made['id']}", self.lead)
        assert ended["exit_status"] == 0, ended
        return self.product.get(f"/api/v1/commands/{made['id']}/output", self.lead).text


@pytest.fixture(scope="module")
def desk(real_agents, tmp_path_factory):
    made = Desk(tmp_path_factory.mktemp("agent-runs") / "home")
    for name, version in VERSIONS.items():
        done = made.product.manage("agents", "install", f"{name}@{version}")
        assert done.returncode == 0, done.stderr
    yield made
    made.product.clean_up()
    made.model.stop()


@pytest.fixture(params=[*VERSIONS])
def program(request) -> str:
    return request.param


# Without the programs -------------------------------------------------------------------------------------------------

ACCESS = {"anthropic": {"secret": "A_KEY", "models": ["claude-x", "claude-*"]}}


@pytest.fixture
def installed(monkeypatch, settings, tmp_path):
    """Two programs as `manage.py agents install` leaves them."""
    settings.HANDRAIL_HOME = tmp_path
    for name, program in extensions.agent_programs.items():
        folder = tmp_path / "agents" / name / "1.2.3" / "bin"
        folder.mkdir(parents=True)
        (folder / program.link).write_text("")


@pytest.fixture
def workspace(team, agent, installed):
    made = make_workspace(team, agent, "repo-task-1")
    fields = {"agent_programs": ["claude-code@1.2.3", "codex@1.2.3"], "model_access": ACCESS}
    Environment.objects.filter(pk=made.environment_id).update(**fields)
    made.environment.refresh_from_db()
    return made


@pytest.fixture
def started(workspace, lena):
    return agent_runs.start(workspace, WISH, caller=caller_of(lena))


@pytest.fixture
def working(started):
    """A run whose program runs."""
    follow()  # asks for the snapshot
    Operation.objects.filter(kind="snapshot").update(phase=Phase.SETTLED, outcome={"ok": True, "snapshot": 2})
    return follow()
