"""Forty approved and twenty denied calls of the real Claude Code and Codex, in a sandbox and in a connected folder.

Each approved call ends exactly as its card showed it, and no denied call leaves a trace.
"""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from approvals.agents.programs import SCRIPTED
from approvals.connect.proof.model import Model, call, run, say
from tests.support.held_calls import HOLD, give
from tests.support.product import Product
from tests.support.waiting import until

from .conftest import VERSIONS, Desk

pytestmark = pytest.mark.timeout(600)  # forty calls, each with a person
SERVER = Path(__file__).with_name("shop_server.py")
FETCH = "127.77.0.9"
SET_UP = """
set -e
git init -q -b main .
git config user.name Robo; git config user.email robo@example.org
git init -q --bare remote.git; git remote add origin "$PWD/remote.git"; echo /remote.git >> .git/info/exclude
echo /node_modules >> .git/info/exclude
mkdir dist lib; echo a > dist/a; echo b > dist/b; echo one > one.txt; echo plain > plain.txt; echo a=1 > calc.txt
echo '{"name": "lib", "version": "1.0.0"}' > lib/package.json; echo '{"name": "app", "version": "1.0.0"}' > package.json
git add -A; git commit -qm start
"""
# What the files and the shop are, but for git's own bookkeeping.
STATE = """
find . -path ./.git -prune -o -path ./remote.git -prune -o -path ./.claude -prune -o -path ./.handrail -prune \
  -o \\( -type f -o -type l \\) -print0 | sort -z | xargs -0 sha256sum
git log --format=%H:%s -3; git -C remote.git log --format=%H:%s -3 2>/dev/null || true
cat ~/shop.log 2>/dev/null || true
"""
# Shape of a call: (block of the model, a command whose output proves that it ran, that output).
LOG = "tail -n 1 ~/shop.log"
SQL = "DELETE FROM orders WHERE id = 2"
# Claude Code reads numbers as doubles; Codex passes an id of 64 bits on with its digits.
PAYS = {
    "claude-code": {"amount": 1299.5, "account": 9007199254740991},
    "codex": {"amount": 1299.5, "account": 1234567890123456789},
}


def shapes(url: str, pays: dict) -> dict[str, tuple[dict, str, str]]:
    return {
        "delete": (run("rm -r dist && rm one.txt"), "ls -d dist one.txt 2>/dev/null || echo gone", "gone\n"),
        "move": (
            run("mv plain.txt moved.txt"),
            "cat moved.txt; ls plain.txt 2>/dev/null || echo gone",
            "plain\ngone\n",
        ),
        "edit": (run("sed -i s/1/2/ calc.txt"), "cat calc.txt", "a=2\n"),
        "commit": (
            run("git add -A && git commit -qm Changed"),
            "git log -1 --format=%s; git status --short",
            "Changed\n",
        ),
        "push": (run("git push -q origin main"), "git -C remote.git log -1 --format=%s main", "Changed\n"),
        "install": (
            run("npm install --offline --no-audit --no-fund ./lib"),
            "cat node_modules/lib/package.json",
            '{"name": "lib", "version": "1.0.0"}\n',
        ),
        "fetch": (run(f"curl -fsS {url} -o fetched.txt"), "cat fetched.txt", "fetched\n"),
        "numbers": (call("mcp__shop__pay", **pays), LOG, json.dumps(["pay", pays]) + "\n"),
        "question": (call("mcp__shop__refund"), LOG, ""),  # what the server heard differs by agent
        "sql": (
            call("mcp__shop__query", sql=SQL),
            LOG,
            json.dumps(["query", SQL]) + "\n",
        ),
    }


DENIED = {
    "delete": run("rm -r lib && rm calc.txt"),  # without -f, which Codex refuses itself after its hook has allowed it
    "move": run("mv moved.txt again.txt"),
    "edit": run("sed -i s/2/3/ calc.txt"),
    "push": run("git push -q --force origin main"),
    "numbers": call("mcp__shop__pay", amount=0.5, account=7),
}


@pytest.fixture(scope="module")
def fetched():
    """The port of a server of one file."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "8")
            self.end_headers()
            self.wfile.write(b"fetched\n")

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer((FETCH, 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def network():
    folder = tempfile.TemporaryDirectory(prefix="handrail-names-")  # an ordinary user reads it, too
    Path(folder.name).chmod(0o755)
    hosts = Path(folder.name, "hosts")
    hosts.write_text(f"{FETCH} fetch.test\n")
    yield {"HANDRAIL_EGRESS_HOSTS": str(hosts), "HANDRAIL_EGRESS_NETWORKS": "127.77.0.0/16"}
    folder.cleanup()


class Place:
    """Where an agent works, and the person beside it."""

    product: Product
    model: Model

    def cards(self) -> list[dict]:
        found = self.product.get("/api/v1/actions?status=pending", self.lead).json["actions"]
        return [each for each in found if each["workspace"] == self.workspace]

    def action(self, card: dict) -> dict:
        return self.product.get(f"/api/v1/actions/{card['id']}", self.lead).json

    def decide(self, card: dict, verdict: str, **more):
        body = {"verdict": verdict, "digest": card["digest"], **more}
        answer = self.product.post(f"/api/v1/actions/{card['id']}/decision", self.lead, body)
        assert answer.status == 200, answer.text

    def ask_before_everything(self):
        now = self.product.get("/api/v1/policies/current", self.lead).json
        body = {"text": 'mode = "everything"\n', "base": (now["version"] or {"number": 0})["number"]}
        answer = self.product.post("/api/v1/policies", self.lead, body)
        assert answer.status == 201, answer.text

    def set_up(self, home: str, python: str = "python3"):
        self.prints(SET_UP)
        source = shlex.quote(SERVER.read_text())
        self.prints(f"printf %s {source} > ~/shop_server.py")
        words = [f"{home}/shop_server.py", home]
        claude = {"mcpServers": {"shop": {"type": "stdio", "command": python, "args": words}}}
        codex = f"\n[mcp_servers.shop]\ncommand = {json.dumps(python)}\nargs = {json.dumps(words)}\n"
        self.prints(f"printf %s {shlex.quote(json.dumps(claude))} > ~/.claude.json")
        self.prints(f"mkdir -p ~/.codex; printf %s {shlex.quote(codex)} >> ~/.codex/config.toml")


class Sandbox(Place):
    """A sandbox with an agent that Handrail starts; its environment lists the host of the file."""

    host = "fetch.test"

    def __init__(self, home: Path, program: str, network: dict, port: int):
        self.port = port
        self.desk = Desk(home, **network)
        self.program, self.product, self.model, self.lead = program, self.desk.product, self.desk.model, self.desk.lead

    def open(self):
        program = self.program
        done = self.product.manage("agents", "install", f"{program}@{VERSIONS[program]}")
        assert done.returncode == 0, done.stderr
        self.workspace = "forty"
        listed = {"agent": [f"{self.host}:{self.port}"]}
        self.desk.post("/environments", self.desk.about | {"name": "forty", "egress": listed}, 201)
        self.desk.post("/workspaces", {"key": "forty", "environment": "forty"}, 201)
        self.product.settled("/api/v1/workspaces/forty", self.lead)
        self.set_up("/home/agent")

    def prints(self, command: str) -> str:
        return self.desk.prints({"workspace": self.workspace}, command)

    def start(self, prompt: str):
        self.run = self.desk.start(self.program, prompt, workspace=self.workspace)

    def end(self):
        self.desk.reaches(self.run, "done")

    def said(self) -> str:
        return str(self.desk.run(self.run))

    def close(self):
        self.product.clean_up()
        self.model.stop()


class Folder(Place):
    """A connected folder of an ordinary user, whose calls are held until a person approves one."""

    host = FETCH

    def __init__(self, home: Path, program: str, network: dict, agents: Path, user: int | None):
        self.program, self.model, self.agents, self.user = program, Model(), agents, user
        self.root = Path(tempfile.mkdtemp(prefix="handrail-forty-", dir="/home" if user is not None else Path.home()))
        self.root.chmod(0o755)
        for name in ("repo", "home"):
            (self.root / name).mkdir()
        give(self.root, user)
        self.product = Product(home, HANDRAIL_HELD="1", **network)
        if user is not None:
            self.product.become(user)

    def open(self):
        program, agents = self.program, self.agents
        self.product.environment |= {"HOME": str(self.root / "home"), "PATH": f"{agents}:{os.environ['PATH']}"}
        self.product.start()
        self.lead = self.product.person_token("lena", "lead")
        self.set_up(str(self.root / "home"))
        done = self.product.manage("connect", program, str(self.root / "repo"))
        assert done.returncode == 0, done.stderr
        self.product.shell(HOLD.format(folder=str(self.root / "repo")))
        self.workspace = "repo"

    def _as_user(self) -> dict:
        return {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}

    def _environment(self) -> dict:
        path = f"{self.agents}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.root / "home"), "LANG": "C.UTF-8", "SHELL": "/bin/bash"}

    def prints(self, command: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command], cwd=self.root / "repo", env=self._environment(), text=True,
            capture_output=True, check=False, **self._as_user(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, prompt: str):
        scripted = SCRIPTED[self.program]
        words = scripted.command(str(self.agents / program_file(self.program)), prompt, self.model.url)
        environment = self._environment() | scripted.variables(self.model.url)
        with (self.root / "output").open("wb") as output:
            self.process = subprocess.Popen(
                words, cwd=self.root / "repo", env=environment, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, **self._as_user(),
            )  # fmt: skip

    def end(self):
        assert self.process.wait(120) == 0, self.said()

    def said(self) -> str:
        return (self.root / "output").read_text(errors="replace")[-3000:]

    def close(self):
        if getattr(self, "process", None) and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.product.manage("disconnect", str(self.root / "repo"))
        self.product.clean_up()
        self.model.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def program_file(program: str) -> str:
    return {"claude-code": "claude"}.get(program, program)


@pytest.fixture(params=["claude-code", "codex"])
def program(request) -> str:
    return request.param


@pytest.fixture(params=["sandbox", "folder"])
def place(request, program, real_agents, tmp_path, network, fetched):
    if request.param == "sandbox":
        made = Sandbox(tmp_path / "home", program, network, fetched)
    else:
        user = request.getfixturevalue("ordinary_user") if os.geteuid() == 0 else None
        made = Folder(tmp_path / "home", program, network, real_agents, user)
    try:
        made.open()
        made.ask_before_everything()
        yield made
    finally:
        made.close()


def settled(place, card: dict) -> dict:
    """The action once it has ended; a question of its server is answered on the way."""

    def ended():
        for other in place.cards():
            if other["tool"] == "elicitation/create":
                content = {"cents": 1250}
                place.decide(other, "edit", arguments=place.action(other)["arguments"] | {"content": content})
        found = place.action(card)
        return found if found["status"] not in ("pending", "approved", "running") else None

    try:
        return until(ended)
    except AssertionError:
        raise AssertionError(f"it has not ended: {place.action(card)}\n{place.said()}") from None


def test_each_call_ends_as_it_was_shown_and_a_denied_one_leaves_no_trace(place, program, fetched):
    made = shapes(f"http://{place.host}:{fetched}/file", PAYS[program])
    blocks = [[made[name][0]] for name in made] + [[block] for block in DENIED.values()]
    place.model.scripts["[forty]"] = [*blocks, [say("That was all.")]]
    place.start("[forty] Work.")
    for name, (_, proof, expected) in made.items():
        card = until(place.cards)[0]
        place.decide(card, "approve")
        action = settled(place, card)
        assert action["status"] == "succeeded", (name, action)
        printed = place.prints(proof)
        if name == "question":
            heard = json.loads(printed)
            expected_answer = {"action": "accept", "content": {"cents": 1250}}
            assert heard[0] == "refund"
            if program != "codex":  # which answers by itself, without a person
                assert heard[1] == expected_answer
        else:
            assert printed == expected, name
    before = place.prints(STATE)
    for name in DENIED:
        card = until(place.cards)[0]
        place.decide(card, "deny", comment="Not this one.")
        until(lambda card=card: card["id"] not in [each["id"] for each in place.cards()])
        assert place.prints(STATE) == before, name
    place.end()
    assert place.prints(STATE) == before
    assert place.model.transcript("[forty]").count("Not this one.") == len(DENIED)
