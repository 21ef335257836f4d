"""From a ticket to the merge with a git server, Claude Code and Codex: the desk is killed once in each state.

The code host is the house's, written from the published API; the agents' models are scripted, one for each attempt.
"""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from approvals.connect.proof.model import Model, run, say
from tests.approvals.agent_runs.conftest import KEYS, SECRETS, VERSIONS, real_agents  # noqa: F401 - a fixture
from tests.support.code_host import TOKEN
from tests.support.desk import Desk
from tests.support.product import Product

from .test_in_the_product import LABEL, host  # noqa: F401 - a fixture

pytestmark = pytest.mark.timeout(1800)  # real agents work, and the desk is started seven times
WITHIN = 600  # seconds for one state: agents work in between
WEBHOOK = 10  # seconds between two webhooks of the host
PAUSE = 1.0  # seconds between two looks, which the agents need more than the test
ROUND = "echo 'total = round(0)' > till.py && git commit -qam Round"
NOTES = "printf '# Notes\\n\\n## Lesson\\n\\nRound half to even.\\n' > .handrail/notes.md"
MEND = "echo '# to even' >> till.py && git commit -qam Mend"
PROGRAMS = [f"{name}@{VERSIONS[name]}" for name in ("claude-code", "codex")]
ATTEMPTS = [
    {"agent": "claude-code", "model": "claude-sonnet-4-5"},
    {"agent": "codex", "model": "gpt-5"},
    {"agent": "claude-code", "model": "claude-opus-4-1"},
]
ASKS = "Write .env"
LAST_WORDS = "I leave half a cent as it is."
SCRIPTS = {
    "sonnet": [
        [run(f"{ROUND} && {NOTES}")],
        [say("It rounds.")],
        [run(MEND)],
        [say("Both are mended.")],
        [say(LAST_WORDS)],
    ],
    "gpt": [[run("echo 'total = None' > till.py && git commit -qam Empty")], [say("I am not sure.")]],
    "opus": [[run(ROUND)], [run("echo asked >> .env")], [say("It rounds, and .env says so.")]],
}


class OfEachModel(Model):
    """The script of a conversation about the ticket is that of the model's family: agents ask for newer ones too."""

    def _word(self, wire, body):
        is_ticket = "Round the till" in wire.opening(body) and wire.tools(body)
        return next((word for word in self.scripts if is_ticket and word in body["model"]), None)


@pytest.fixture
def model():
    made = OfEachModel()
    made.scripts |= SCRIPTS
    yield made
    made.stop()


@pytest.fixture
def product(real_agents, model, tmp_path):  # noqa: F811
    upstreams = f"anthropic={model.url} openai={model.url}"
    running = Product(tmp_path / "product", HANDRAIL_PRIVATE_SOURCES="1", HANDRAIL_MODEL_UPSTREAMS=upstreams)
    running.start()
    with ThreadPoolExecutor() as both:
        for done in both.map(lambda named: running.manage("agents", "install", named), PROGRAMS):
            assert done.returncode == 0, done.stderr
    yield running
    running.clean_up()


class Flow:
    """One ticket, seen from the API as its lead, and from the host."""

    def __init__(self, product, host):  # noqa: F811
        self.product, self.host = product, host
        self.lead = Desk(product, product.person_token("lead", "lead"))
        self.source = self.number = None

    def set_up(self):
        secret = f"CODE_HOST_127_0_0_1_{self.host.url.rpartition(':')[2]}"
        self.product.shell(SECRETS.format(keys=KEYS) + f"secrets.save(team, '{secret}', 'host', '{TOKEN}', by=by)")
        access = {name: {"secret": f"KEY_{name.upper()}", "models": ["claude-*", "gpt-5"]} for name in KEYS}
        about = {"name": "agents", "agent_programs": PROGRAMS, "model_access": access}
        self.lead.post("/environments", about | {"checks": {"unit": "grep -q round till.py"}})
        wish = {"address": self.host.address, "kind": "gitea", "label": LABEL, "environment": "agents"}
        self.source = self.lead.post("/task-sources", wish | {"attempts": ATTEMPTS}, 200).json
        admin = Desk(self.product, self.product.person_token("admin", "admin"))
        admin.post("/host-accounts", {"person": "lead", "host": self.host.url, "login": "lead-at-host"})

    def task(self) -> dict:
        """The one task, with the lines of the newest snapshots: to count those of the live files takes long."""
        found = self.lead.get("/tasks").json["tasks"]
        assert len(found) <= 1
        return found[0] if found else {}

    def states(self) -> list[str]:
        return [each["state"] for each in self.task().get("attempts", ())]

    def wake(self, name: str):
        body, headers = self.host.webhook(self.source["secret"], name, about=name)
        self.product.post("/hooks/code-host/gitea", body=body, headers=headers.items())

    def reaches(self, ask, name: str = ""):
        """Wait for something; with a name the host sends webhooks meanwhile, which say that it is time to read."""
        began, woken = time.monotonic(), 0
        while not (found := ask()):
            assert time.monotonic() < began + WITHIN, f"not reached: {self.task()}\n{self.product.log[-3000:]}"
            self.lets_pass()
            if name and time.monotonic() >= began + woken * WEBHOOK:
                woken += 1
                self.wake(f"{name} {woken}")
            time.sleep(PAUSE)
        return found

    def lets_pass(self):
        """Approve what asks because a busy machine had no time to judge it; what asks by the policy is left."""
        for each in self.lead.get("/actions?status=pending").json["actions"]:
            if each["title"] != ASKS:
                verdict = {"verdict": "approve", "digest": each["digest"]}
                self.lead.post(f"/actions/{each['id']}/decision", verdict, expect=None)

    def stands(self, state: str, name: str = ""):
        """Wait until the task has this state."""
        self.reaches(lambda: self.task()["state"] == state, name)

    def killed_while(self, state: str):
        """Kill all of Handrail's processes at once while the task has this state, and start it again."""
        self.stands(state)
        pids = [self.product.process.pid]
        for part in ("web", "runner", "queue"):
            with suppress(AssertionError):  # it is about to be started again
                pids.append(self.product.part_pid(part))
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.product.process.wait()
        self.product.start()
        assert len(self.task()["attempts"]) == 3
        if state != "working":
            self.stands(state)

    def said_once(self):
        posts = self.host.posts()
        assert len(posts) == len(set(posts)), posts


@pytest.fixture
def flow(product, host):  # noqa: F811
    made = Flow(product, host)
    made.set_up()
    return made


def test_from_a_ticket_to_the_merge(flow, model):
    started_and_compared(flow)
    mended(flow, model)
    merged(flow)


def started_and_compared(flow):
    """Three attempts; one fails its checks, one asks in the thread and is answered there, one is ready."""
    flow.number = flow.host.issue("Round the till", "It rounds wrongly.")
    flow.host.label(flow.number, LABEL, "lead-at-host")
    flow.reaches(lambda: len(flow.states()) == 3, "labelled")
    flow.killed_while("working")
    flow.reaches(lambda: flow.states() == ["ready to review", "checks failed", "asks you"])
    flow.killed_while("asks you")
    asked = flow.lead.get("/actions?status=pending").json["actions"]
    assert [each["title"] for each in asked] == [ASKS]
    name = f"A-{asked[0]['number']}"
    flow.reaches(lambda: any(f"**{name} asks**" in post for post in flow.host.posts()), "asked")
    flow.host.comment(flow.number, f"@handrail approve {name} it is only a note", "lead-at-host")
    flow.reaches(lambda: flow.states() == ["ready to review", "checks failed", "ready to review"], "answered")
    flow.killed_while("ready to review")
    third = flow.task()["attempts"][2]["workspace"]
    assert flow.lead.run(third, "cat .env") == b"asked\n"
    flow.said_once()


def mended(flow, model):
    """The choice in the thread opens a pull request; its failed check and its review go to the agent, once."""
    key = flow.task()["attempts"][0]["workspace"]
    flow.host.comment(flow.number, "@handrail choose 1", "lead-at-host")
    flow.reaches(lambda: flow.host.pulls and flow.task()["thread"]["pull_request"], "chosen")
    number, branch = flow.host.pulls[0]["number"], f"handrail/{key}"
    sha = flow.host.tip(branch)
    flow.host.status(sha, "ci", "failed", "till.py loses a cent")
    flow.host.review(number, "Round half to even.", "lead-at-host", "till.py", 1)
    flow.reaches(lambda: flow.host.tip(branch) != sha, "failed")
    flow.host.status(flow.host.tip(branch), "ci", "failed", "till.py loses half a cent")
    flow.reaches(lambda: flow.task()["thread"]["rounds"] == 2, "failed again")
    mender = flow.task()["attempts"][0]["agent_run"]
    flow.reaches(lambda: flow.lead.get(f"/agent-runs/{mender}").json["summary"] == LAST_WORDS)
    flow.killed_while("checks failed")
    transcript = model.transcript("sonnet")
    once = ("loses a cent", "“Round half to even.”", "loses half a cent")
    assert [transcript.count(each) for each in once] == [1, 1, 1]
    flow.host.status(flow.host.tip(branch), "ci", "passed")
    flow.stands("ready to review", "passed")
    flow.killed_while("ready to review")
    assert [(pull["head"], pull["title"]) for pull in flow.host.pulls] == [(branch, "Round the till")]


def merged(flow):
    key = flow.task()["attempts"][0]["workspace"]
    flow.host.merge(flow.host.pulls[0]["number"], "lead-at-host")
    flow.stands("merged", "merged")
    flow.killed_while("merged")
    flow.reaches(lambda: flow.lead.get(f"/workspaces/{key}").json["state"] == "archived")
    flow.reaches(lambda: flow.lead.get("/lessons?state=proposed").json["lessons"])
    [lesson] = flow.lead.get("/lessons?state=proposed").json["lessons"]
    assert lesson["text"] == "Round half to even."
    flow.reaches(lambda: any(post.startswith("A lesson was proposed") for post in flow.host.posts()))
    flow.said_once()
    digest = flow.product.shell(
        "from approvals.notify import messages; from django.contrib.auth import get_user_model;"
        "from dashboard.database import clock;"
        "print(messages.digest(get_user_model().objects.get(username='lead'), clock.now())[1])"
    )
    assert "1 task ended." in digest
