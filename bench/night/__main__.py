"""A scripted night: three agents start from schedules, ask twice each, and meet kills, a budget and a late approval.

    deploy/agents.sh                  # prints the folder of the programs
    deploy/frameworks.sh
    python -m bench.night FOLDER --wait 3600

Claude Code works in a container, Codex and a LangGraph program in sandboxes, on scripted models. Web and the runner
are killed once each while calls wait. One approval comes after --wait seconds, and Codex meets its budget. In the
morning all three are done, each approved command ran once and no other one ran. The exit status is 1 if not.
Needs root, a Docker engine's program and mmdebstrap.
"""

import argparse
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from approvals.connect.proof.model import Model, run, say
from tests.support import CHECKOUT
from tests.support.engine import Engine, lacks
from tests.support.product import Product

PACKAGES = CHECKOUT / ".venv-frameworks/lib"
PINNED = dict(re.findall(r"^@\S+/([\w-]+)@(\S+)$", (CHECKOUT / "deploy/agents.txt").read_text(), re.MULTILINE))
IMAGE = "handrail/bench:night"
SECRETS = """
from dashboard.models import Actor, Team
from workspaces import secrets
team, by = Team.objects.get(slug="main"), Actor.system("bench")
for name in ("anthropic", "openai"):
    secrets.save(team, f"KEY_{name.upper()}", "models", f"key-of-{name}-0123456789", by=by)
"""
# It asks one person in every mode, and what it does shows in a file of the workspace; the push itself fails.
ASKS = "echo {word} >> ran.txt; git push origin {word}"
FIRST, SECOND = ASKS.format(word="first"), ASKS.format(word="second")
PROGRAM = f"PYTHONPATH=packages python3 program.py {FIRST!r} {SECOND!r}"
WITHIN = 300  # seconds for each step that waits for nobody


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.night", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where deploy/agents.sh has put the programs")
    parser.add_argument("--wait", type=int, default=90, metavar="SECONDS", help="until the late approval (90)")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    if why := lacks():
        print(why, file=sys.stderr)
        return 2
    engine = Engine()
    engine.start()
    night = None
    try:
        subprocess.run(
            [CHECKOUT / "deploy/images/docker.sh"],
            env=os.environ | {"NAME": IMAGE, "PACKAGES": "procps python3", "DOCKER_HOST": engine.address},
            check=True,
        )
        with tempfile.TemporaryDirectory(prefix="handrail-bench-") as home:
            night = Night(Path(home, "home"), engine.address, asked.wait)
            try:
                return night.pass_by()
            finally:
                night.product.clean_up()
                night.model.stop()
    finally:
        engine.clean_up()


class Night:
    """The product, its scripted models, and what is known of the three agents by name."""

    def __init__(self, home: Path, engine: str, wait: int):
        self.wait, self.model, self.faults = wait, Model(), []
        self.model.scripts = {
            # In workspaces Claude Code asks over HTTP: a call that waits is refused when web or the runner, whose proxy
            # the connection passes, is killed. The model makes it again, and it joins its card.
            "[claude]": [
                [run(FIRST)],
                again(FIRST),
                [run(SECOND)],
                again(SECOND),
                *[[say("Both have run.")]] * 4,
            ],
            "[codex]": [[run(FIRST)], [run(SECOND)], *[[say("Both have run.")]] * 4],
        }
        upstreams = f"anthropic={self.model.url} openai={self.model.url}"
        self.product = Product(home, HANDRAIL_MODEL_UPSTREAMS=upstreams, HANDRAIL_DOCKER_HOST=engine)
        self.product.start()
        for name in ("claude-code", "codex"):
            done = self.product.manage("agents", "install", f"{name}@{PINNED[name]}")
            assert done.returncode == 0, done.stderr
        self.product.shell(SECRETS)
        self.lead = self.product.person_token("lena", "lead")
        self.began = time.monotonic()

    def say(self, *words):
        print(f"{time.monotonic() - self.began:7.0f} s ", *words, flush=True)

    def call(self, method: str, path: str, body=None):
        answer = self.product.call(method, f"/api/v1{path}", self.lead, body)
        assert answer.status < 300, answer.text
        return answer.json

    def until(self, what: str, holds, within: float = WITHIN):
        """Wait for it, over restarts of the desk."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            try:
                if found := holds():
                    return found
            except OSError:
                pass  # the desk is being started again
            time.sleep(1)
        raise AssertionError(f"not within {within:.0f} s: {what}\n{self.product.log[-3000:]}")

    # The evening

    def make_places(self):
        access = {
            name: {"secret": f"KEY_{name.upper()}", "models": ["claude-sonnet-4-5", "gpt-5"]}
            for name in ("anthropic", "openai")
        }
        programs = [f"{name}@{PINNED[name]}" for name in ("claude-code", "codex")]
        common = {"agent_programs": programs, "model_access": access}
        self.call("POST", "/environments", {"name": "boxes"} | common)
        contained = {"name": "containers", "driver": "docker", "image": IMAGE, "minimum_isolation": "container"}
        self.call("POST", "/environments", contained | common)
        upload = self.product.call(
            "POST", "/api/v1/uploads", self.lead, packed_program(), headers=[("Content-Type", "application/gzip")]
        )
        assert upload.status == 201, upload.text
        wish = {"key": "langgraph", "environment": "boxes", "source": {"upload": upload.json["id"]}}
        self.call("POST", "/workspaces", wish)
        self.call("POST", "/workspaces", {"key": "claude", "environment": "containers"})
        self.call("POST", "/workspaces", {"key": "codex", "environment": "boxes"})
        for key in ("langgraph", "claude", "codex"):
            found = self.product.settled(f"/api/v1/workspaces/{key}", self.lead)
            assert found["state"] in ("ready", "paused"), found

    def make_schedules(self):
        due = datetime.now(UTC) + timedelta(minutes=1, seconds=5)
        cron = f"{due.minute} {due.hour} {due.day} {due.month} *"
        agent = {"kind": "agent", "task": "[{}] Run both."}
        jobs = {
            "claude": agent | {"program": "claude-code", "model": "claude-sonnet-4-5", "task": "[claude] Run both."},
            "codex": agent | {"program": "codex", "model": "gpt-5", "task": "[codex] Run both.", "budget_tokens": 1030},
            "langgraph": {"kind": "command", "command": PROGRAM},
        }
        for key, job in jobs.items():
            self.call("POST", "/schedules", {"name": key, "cron": cron, "workspace": key} | job)
        self.say(f"three schedules are due at {due:%H:%M}")

    # At night

    def card_in(self, key: str) -> dict | None:
        waiting = self.call("GET", "/actions?status=pending")["actions"]
        return next((each for each in waiting if each["workspace"] == key), None)

    def approve(self, key: str, word: str):
        card = self.until(f"{key} asks", lambda: self.card_in(key))
        before = self.ran(key)
        if word in before:
            self.faults.append(f"{key} ran {word} before it was approved")
        answer = {"verdict": "approve", "digest": card["digest"]}
        self.call("POST", f"/actions/{card['id']}/decision", answer)
        self.say(f"{key}: approved {word} after {before or 'nothing'} had run")
        self.until(f"{word} runs in {key}", lambda: word in self.ran(key))

    def ran(self, key: str) -> list[str]:
        """Return the words that the approved commands of a workspace have left."""
        answer = self.product.get(f"/api/v1/workspaces/{key}/files/ran.txt", self.lead)
        return answer.text.split() if answer.status == 200 else []

    def kill(self, part: str):
        os.kill(self.product.part_pid(part), signal.SIGKILL)
        self.say(f"killed {part}")
        self.until("the desk is back", lambda: self.product.get("/readyz").status == 200)

    def run_of(self, key: str) -> dict:
        return self.call("GET", f"/agent-runs?workspace={key}")["runs"][0]

    def pass_by(self) -> int:
        self.make_places()
        self.make_schedules()
        for key in ("claude", "codex", "langgraph"):
            self.until(f"{key} asks", lambda key=key: self.card_in(key))
        self.say("all three have asked for the first time")
        self.kill("web")
        for key in ("claude", "codex", "langgraph"):
            self.approve(key, "first")
        for key in ("claude", "langgraph"):
            self.until(f"{key} asks again", lambda key=key: self.card_in(key))
        self.kill("runner")
        self.approve("langgraph", "second")

        asks = self.until("Codex meets its budget", lambda: self.asking("codex"))
        self.say(f"codex asks: {asks['reason']}")
        self.say(f"claude waits for {self.wait} s")
        time.sleep(self.wait)
        self.approve("claude", "second")
        self.call("POST", f"/agent-runs/{asks['id']}/budget", {"budget_tokens": 100_000})
        self.approve("codex", "second")
        return self.morning()

    def asking(self, key: str) -> dict | None:
        found = self.run_of(key)
        return found if found["state"] == "asks" else None

    # In the morning

    def morning(self) -> int:
        for key in ("claude", "codex"):
            done = self.until(f"{key} is done", lambda key=key: self.is_done(key))
            self.expect(f"the summary of {key}", done["summary"], "Both have run.")
            times = 2 if key == "claude" else 1
            calls = [*[FIRST] * times, *[SECOND] * times]
            self.expect(f"the calls in the conversation of {key}", self.said(done, len(calls)), calls)
        schedules = self.call("GET", "/schedules")["schedules"]
        for each in schedules:
            runs = self.until(f"{each['name']} has ended", lambda each=each: self.ended_runs(each))
            self.expect(f"the scheduled run of {each['name']}", [one["state"] for one in runs], ["passed"])
        for key in ("claude", "codex", "langgraph"):
            self.expect(f"what ran in {key}", self.ran(key), ["first", "second"])
            actions = self.call("GET", f"/actions?workspace={key}")["actions"]
            asked = [each for each in actions if each["tier"] == "high" and each["status"] != "cancelled"]
            ends = sorted(each["status"] for each in asked)
            # One that was broken off may have been cancelled and asked anew. The push fails, which not all report.
            self.expect(f"the calls of {key} that asked", set(ends) <= {"succeeded", "failed"} and len(ends) == 2, True)
        for fault in self.faults:
            print("FAULT:", fault)
        self.say(f"the morning: {len(self.faults)} faults")
        return 1 if self.faults else 0

    def is_done(self, key: str) -> dict | None:
        found = self.run_of(key)
        return found if found["state"] == "done" else None

    def ended_runs(self, schedule: dict) -> list[dict]:
        runs = self.call("GET", f"/schedules/{schedule['id']}/runs")["runs"]
        return [] if any(one["state"] in ("waiting", "running") for one in runs) else runs

    def said(self, found: dict, count: int) -> list[str]:
        """Return the commands of the calls in the run's conversation that have a result."""

        def calls():
            messages = self.call("GET", f"/sessions/{found['session']}/messages")["messages"]
            results = {each["call_id"] for each in messages if each["kind"] == "result"}
            told = [each for each in messages if each["kind"] == "call" and each["call_id"] in results]
            commands = [next(iter(json.loads(each["text"]).values())) for each in told]
            return commands if len(commands) >= count else None

        try:
            return self.until("the transcript is read", calls, within=60)
        except AssertionError:
            return self.call("GET", f"/sessions/{found['session']}/messages")["messages"]

    def expect(self, what: str, found, wanted):
        if found != wanted:
            self.faults.append(f"{what}: {found!r}, not {wanted!r}")


def again(command: str):
    """Return a turn that makes the call once more, when Handrail is back."""

    def turn() -> list[dict]:
        time.sleep(20)
        return [run(command)]

    return turn


def packed_program() -> bytes:
    """Return the LangGraph program with the packages that it needs, as an upload."""
    packages = next(PACKAGES.glob("python*/site-packages"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        archive.add(Path(__file__).with_name("program.py"), "program.py")
        for folder, below in ((packages, "packages"), (CHECKOUT / "client", "packages")):
            for path in sorted(folder.rglob("*")):
                parts = path.relative_to(folder).parts
                needless = parts[0] in ("pip", "openai", "agents") or "__pycache__" in parts
                if path.is_file() and not needless:
                    archive.add(path, f"{below}/{path.relative_to(folder)}")
    return packed.getvalue()


if __name__ == "__main__":
    sys.exit(main())
