"""A desk under fire: an agent and a person who insist, a workspace whose commands leave a line each, a checker."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from tests.support import CHECKOUT
from tests.support.product import Answer, Product
from tests.support.visitor import Visitor

POINTS = ("K0", "K1", "K2", "K3", "K4", "K5", "K6", "program.asked", "K7", "K8", "K9")
LIFE_POINTS = ("create.tree", "create.snapshot", "up.row", "up.started", "resume.proved")
LIFE_POINTS += ("down.stopped", "down.closed", "down.snapshot", "sleep.snapshot", "sleep.kept", "up.woken")
LIFE_POINTS += ("restore.frozen", "restore.saved", "restore.placed", "restore.back")
LIFE_POINTS += ("archive.stopped", "archive.verified", "archive.marked", "archive.removing", "archive.back")
LIFE_POINTS += ("archive.returned", "archive.changes_kept", "create.given")
LIFE_POINTS += ("checkpoint_files.kept", "checkpoint_files.saved", "checkpoint_files.placed")
LIFE_POINTS += ("revise.saved", "revise.fetched", "revise.placed", "revise.merged", "revise.taken")
LIFE_POINTS += ("push.looked", "push.begun", "push.sent")
LIFE_POINTS += ("way_back.found", "take_back.looked", "take_back.put_back")
LIFE_POINTS += ("move.stopped", "move.kept", "move.sent", "arrive.restored", "arrive.proved")
LIFE_POINTS += ("arrive.switched", "arrive.placed", "leave.started")
ENDS = ("denied", "expired", "cancelled", "succeeded", "failed", "uncertain")
TRUTH = 5.0  # seconds after the parts answer again within which pages and API must be true
KILLS = 4  # of one start: the supervisor pauses twice as long before each next one


class ArmedProduct:
    """`asked` is all that the agent was told to be accepted: {action id: tag}."""

    def __init__(self, home: Path, cartridges: Path, **environment):
        self.cartridges = cartridges
        armed = [f"{point}:{cartridges / point}" for point in POINTS + LIFE_POINTS]
        armed += [f"{point}=stop:{cartridges / point}.stop" for point in LIFE_POINTS]
        self.product = Product(home, HANDRAIL_FAILPOINT=",".join(armed), **environment)
        self.product.lend_images()
        self.product.start()
        self.agent = self.product.agent_token("steady")
        self.person = self.product.person_token("rita", "lead")
        self.asked: dict[str, str] = {}
        self.kills = 0
        self.key = "bench"
        assert self.insist("POST", "/workspaces", self.agent, {"key": self.key}).status == 201
        assert self.settled()["state"] == "ready"
        self._visitor = Visitor.named(self.product, "rita", "lead")

    # Calls

    def call(self, method: str, path: str, token: str, body=None, key: str | None = None) -> Answer:
        headers = {"Content-Type": "application/json"} | ({"Idempotency-Key": key} if key else {})
        return self.product.call(method, f"/api/v1{path}", token, body, headers=headers)

    def insist(self, method: str, path: str, token: str, body=None, key: str | None = None, within=90.0) -> Answer:
        """Try again until there is an answer that is none of an outage, as a good client does."""
        deadline = time.monotonic() + within
        while True:
            try:
                answer = self.call(method, path, token, body, key)
                if answer.status not in (502, 503):
                    return answer
                seen = answer.body
            except OSError as error:
                seen = error
            if time.monotonic() > deadline:
                raise AssertionError(f"{method} {path}: {seen}\n{self.product.log[-3000:]}")
            time.sleep(0.1)

    def settled(self) -> dict:
        while (found := self.insist("GET", f"/workspaces/{self.key}?wait=5", self.agent).json)["busy"]:
            pass
        return found

    def wish(self, tag: str, mode: str = "broker", seconds: float = 0) -> dict:
        """A call that a person must answer, and that leaves the tag in `operations` each time it runs."""
        command = f"echo {tag} >> operations; sleep {seconds}; eval true"
        return {"tool": "Bash", "arguments": {"command": command}, "workspace": self.key, "mode": mode}

    def ask(self, tag: str, **more) -> dict:
        answer = self.insist("POST", "/actions", self.agent, self.wish(tag, **more), key=tag)
        assert answer.status in (200, 201), answer.body
        self.asked[answer.json["id"]] = tag
        return answer.json

    def decide(self, action: dict, verdict: str, **more) -> Answer:
        body = {"verdict": verdict, "digest": action["digest"], **more}
        return self.insist("POST", f"/actions/{action['id']}/decision", self.person, body)

    def action(self, action_id: str) -> dict:
        return self.insist("GET", f"/actions/{action_id}", self.person).json

    def over(self, action_id: str, within: float = 90) -> dict:
        """As the person sees it once it has ended."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            if (found := self.action(action_id))["status"] in ENDS:
                return found
            time.sleep(0.1)
        raise AssertionError(f"it never ended: {found}\n{self.product.log[-3000:]}")

    def runs_of(self, tag: str) -> int:
        answer = self.insist("GET", f"/workspaces/{self.key}/files/operations", self.agent)
        return answer.body.decode().split().count(tag) if answer.status == 200 else 0

    # Faults

    def arm(self, point: str):
        """The next process that comes to this point is killed there."""
        (self.cartridges / point).touch()

    def has_fired(self, point: str) -> bool:
        return not (self.cartridges / point).exists()

    def survives(self, point: str, call) -> OSError | Answer:
        """What a call comes to when a process dies at the point: the error, or the answer if it was another process."""
        self._spare_the_supervisor()
        self.arm(point)
        try:
            return call()
        except OSError as error:
            return error

    @contextmanager
    def standing_at(self, point: str, call):
        """Make the call, and hold the runner at the point as long as this lasts."""
        flag = f"{point}.stop"
        self.arm(flag)
        runner = self.product.part_pid("runner")
        # A call may wait for what comes behind the point, and a runner that stands too long is taken for a dead one.
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(call)
            try:
                self.tells(lambda: self.has_fired(flag) or f"{point} was never reached", within=60)
                self.tells(lambda: (state := state_of(runner)) == "T" or f"the runner is {state}", within=20)
                yield
            finally:
                os.kill(runner, signal.SIGCONT)
            asked.result()

    def _spare_the_supervisor(self):
        """It pauses longer each time; a fresh one starts at once, and that is a restart more to live through."""
        self.kills += 1
        if self.kills > KILLS:
            self.restart()

    def restart(self):
        self.product.stop()
        self.product.start()
        self.kills = 1

    def kill(self, part: str):
        """kill -9 a part, or the supervisor, and wait until all parts work again."""
        if part == "supervisor":
            self.product.process.kill()
            self.product.process.wait()
            self.product.start()
            self.kills = 0
        else:
            self._spare_the_supervisor()
            before = self.product.part_pid(part)
            os.kill(before, signal.SIGKILL)
            self._until_replaced(part, before)
            self.product.wait_for("/readyz", within=90)

    def _until_replaced(self, part: str, before: int):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if self.product.part_pid(part) != before:
                    return
            except (AssertionError, OSError):
                pass
            time.sleep(0.05)
        raise AssertionError(f"{part} was not started again:\n{self.product.log[-3000:]}")

    def host_of(self, action_id: str, within: float = 30) -> int:
        """The process id of the host process that runs this action's program."""
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            for claim in self.product.home.glob("workspaces/*/programs/*/claim"):
                found = json.loads(claim.read_text())
                spec = (claim.parent / "spec.json").read_text()
                if self.asked[action_id] in spec and (claim.parent / "shim.json").exists():
                    return found["pid"]
            time.sleep(0.05)
        raise AssertionError("no host process runs it")

    # The truth

    def page(self, path: str) -> str:
        return self._visitor.get(path)

    def tells(self, look, within: float = TRUTH):
        """`look()` holds within these seconds, whatever fails meanwhile."""
        deadline, seen = time.monotonic() + within, None
        while True:
            try:
                seen = look()
            except OSError as error:
                seen = error
            if seen is True:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"not true within {within} s: {seen}\n{self.product.log[-3000:]}")
            time.sleep(0.1)

    def check(self, seed):
        """I1 to I3, and the log: nothing lost, one end each, nothing run twice, every event in its place."""
        actions = self._all_actions()
        assert set(self.asked) <= set(actions), f"seed {seed}: an accepted action is gone"
        assert len(actions) == len(self.asked), f"seed {seed}: an action that nobody was told of"
        ends: dict[str, list[str]] = {action_id: [] for action_id in actions}
        events = self._export()
        for event in events:
            verb = event["verb"].removeprefix("action.")
            if event["subject"]["type"] == "action" and verb in ENDS:
                ends[event["subject"]["id"]].append(verb)
        for action_id, action in actions.items():
            status, tag = action["status"], self.asked[action_id]
            # What was unclear first and settled by a person later has both in the log.
            found = ends[action_id] if status == "uncertain" else [end for end in ends[action_id] if end != "uncertain"]
            assert found == ([status] if status in ENDS else []), f"seed {seed}: {action} {ends[action_id]}"
            allowed = {"succeeded": (1,), "uncertain": (0, 1), "failed": (0, 1), "running": (0, 1)}.get(status, (0,))
            if action["mode"] == "gate":
                allowed = (0,)  # this agent only asks; it never runs anything by itself
            assert self.runs_of(tag) in allowed, f"seed {seed}: {status} and run {self.runs_of(tag)} times: {action}"
        with sqlite3.connect(self.product.home / "handrail.sqlite3") as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], f"seed {seed}"
        database.close()

    def _all_actions(self) -> dict[str, dict]:
        found, cursor = {}, ""
        while cursor is not None:
            page = self.insist("GET", f"/actions?limit=200{cursor and f'&cursor={cursor}'}", self.person).json
            found |= {row["id"]: row for row in page["actions"]}
            cursor = page["cursor"]
        return found

    def _export(self) -> list[dict]:
        """The log as exported, after `python -m approvals.audit verify` has found it whole."""
        text = self.page("/log/export/")
        file = self.cartridges / "log.jsonl"
        file.write_text(text)
        verified = subprocess.run(
            [sys.executable, "-m", "approvals.audit", "verify", str(file)],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert verified.returncode == 0, verified.stdout + verified.stderr
        return [json.loads(line) for line in text.splitlines()]


def new_tag() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


def state_of(pid: int) -> str:
    """As the kernel has it: T for one that is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
