"""A product of some checkout with two connected folders, one of them held, and a workspace: what `bench.calls` asks."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import aiohttp

from bench.desk import Desk
from tests.support import CHECKOUT
from tests.support.held_calls import HOLD, give
from tests.support.product import Product

COUNTING = Path(__file__).parents[1] / "counting"
FILES = 200
LET_GO = """
from dashboard.models import Actor
from workspaces import operations
from workspaces.models import Workspace
from workspaces.services import folders
workspace = Workspace.objects.get(source__path={folder!r}, trashed_at=None)
if workspace.held:
    assert operations.wait(folders.box_calls(workspace, False, by=Actor.system("bench")), 60).outcome
"""
# The build beside it may be older than the name.
BOX_CALLS = """
from workspaces.services import folders
folders.box_calls = getattr(folders, "box_calls", None) or folders.hold
"""
CONNECTED = """
from workspaces.models import Workspace
for each in Workspace.objects.filter(environment__driver="folder"):
    print(each.pk, each.source["path"])
"""


class Build:
    """One build, started in a folder of its own; `user` runs it and owns the files, None for this process's user."""

    def __init__(self, name: str, checkout: Path, top: Path, user: int | None, database: str):
        self.name, self.user, self.folders = name, user, {each: top / each for each in ("free", "held")}
        for folder in (top, top / "home", top / "counts", *self.folders.values()):
            folder.mkdir(mode=0o755)
        for folder in self.folders.values():
            for number in range(FILES):
                (folder / f"module{number}.py").write_text(f"VALUE = {number}\n" * 50)
        give(top, user)
        self.counts = top / "counts"
        more = {"PYTHONPATH": str(COUNTING), "COUNT_SQL_INTO": str(self.counts), "HANDRAIL_HELD": "1"}
        self.product = Product(top / "desk", **more, **({"DATABASE_URL": database} if database else {}))
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(top / "home"), "CI": "1"}
        if user:
            self.product.become(user)
        if checkout != CHECKOUT:
            self.product.checkout, self.product.python = checkout, str(checkout / ".venv/bin/python")

    async def begin(self):
        self.product.start()
        for folder in self.folders.values():
            done = self.product.manage("connect", "claude-code", str(folder))
            assert done.returncode == 0, done.stderr
        self.product.shell(BOX_CALLS + HOLD.format(folder=str(self.folders["held"])))
        self.product.shell(BOX_CALLS + LET_GO.format(folder=str(self.folders["free"])))
        printed = self.product.shell(CONNECTED)
        files = {path: key for key, path in (line.split(" ", 1) for line in printed.splitlines())}
        connections = self.product.home / "connections"
        self.tokens = {
            name: json.loads((connections / f"{files[str(folder)]}.json").read_text())["token"]
            for name, folder in self.folders.items()
        }
        connector = aiohttp.TCPConnector(limit=0)
        self.session = aiohttp.ClientSession(self.product.url, connector=connector)
        agent, person = self.product.agent_token("bench"), self.product.person_token("rita", "lead")
        self.desk = Desk(self.session, agent, person, self.product)
        self.key = await self.desk.workspace()
        self.number = 0

    async def end(self):
        await self.session.close()

    def count(self) -> int:
        """Return how many statements all processes have sent so far."""
        files = [path for path in self.counts.iterdir() if path.name.isdecimal()]
        return sum(int.from_bytes(path.read_bytes(), sys.byteorder) for path in files)

    async def hook(self, name: str, command: str) -> str:
        """Return the command that Claude Code runs in this folder after its hook."""
        self.number += 1
        event = {
            "session_id": "calls",
            "cwd": str(self.folders[name]),
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": f"call-{self.number}",
        }
        headers = {"Authorization": f"Bearer {self.tokens[name]}"}
        async with self.session.post("/hooks/claude-code", json=event, headers=headers) as answer:
            said = (await answer.json())["hookSpecificOutput"]
        if said["permissionDecision"] != "allow":
            raise RuntimeError(f"{self.name}: {said}")
        return said.get("updatedInput", {}).get("command", command)

    # What is measured; each returns {part: seconds} ----------------------------------------------------------------

    async def call_that_runs(self) -> dict:
        began = time.perf_counter()
        changed = await self.hook("free", f"ls module{self.number % FILES}.py")
        seconds = time.perf_counter() - began
        if "handrail-run" in changed:
            raise RuntimeError(f"{self.name}: the call is held")
        return {"a hook call that runs": seconds}

    async def held_call(self) -> dict:
        began = time.perf_counter()
        changed = await self.hook("held", f"ls module{self.number % FILES}.py")
        answered = time.perf_counter()
        if "handrail-run" not in changed:
            raise RuntimeError(f"{self.name}: the call is not held: {changed}")
        as_user = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        done = subprocess.run(
            ["bash", "-c", changed],
            cwd=self.folders["held"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            **as_user,
        )
        if done.returncode:
            raise RuntimeError(f"{self.name}: {done}")
        ended = time.perf_counter()
        return {"a held call in a box": ended - began, "  its hook": answered - began, "  its run": ended - answered}

    async def command(self) -> dict:
        began = time.perf_counter()
        asked = await self.desk.call("POST", f"/workspaces/{self.key}/commands", self.desk.agent, {"argv": ["true"]})
        ended = await self.desk.finished(asked)
        if ended["exit_status"] != 0:
            raise RuntimeError(f"{self.name}: the command ended otherwise: {ended}")
        return {"a command through the API": time.perf_counter() - began}

    async def prepare_approval(self):
        self.asked = await self.desk.ask()
        self.poll = asyncio.create_task(self.desk.poll(self.asked))
        await asyncio.sleep(0.5)

    async def approval(self) -> dict:
        began = time.perf_counter()
        await self.desk.approve(self.asked)
        await self.poll
        return {"approve, until the agent hears": time.perf_counter() - began}
