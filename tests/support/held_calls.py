"""Shell calls in a held folder: the hook is asked as Claude Code asks it, and the command of its answer runs."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

HOLD = """
from dashboard.models import Actor
from workspaces import operations
from workspaces.models import Workspace
from workspaces.services import folders
workspace = Workspace.objects.get(source__path={folder!r}, trashed_at=None)
done = operations.wait(folders.box_calls(workspace, True, by=Actor.system("test")), 60).outcome
assert done.get("held"), done
"""


@dataclass
class Ended:
    """How a call ended: `decision` of the hook and its reason; exit status and output if the command ran."""

    decision: str
    reason: str = ""
    status: int | None = None
    output: bytes = b""

    @property
    def ran(self) -> bool:
        return self.status is not None


class HeldCalls:
    """Calls in a folder; `user` makes them and owns the files, None for this process's user."""

    def __init__(self, folder: Path, home: Path, user: int | None = None):
        self.folder, self._count, self._hooks = folder, 0, {}
        self.as_user = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8", "CI": "1"}

    def connect(self, product):
        """Connect the folder, and hold its calls."""
        done = product.manage("connect", "claude-code", str(self.folder))
        assert done.returncode == 0, done.stderr
        product.shell(HOLD.format(folder=str(self.folder)))
        settings = json.loads((self.folder / ".claude/settings.local.json").read_text())
        for event in ("PreToolUse", "PostToolUse"):
            self._hooks[event] = settings["hooks"][event][-1]["hooks"][0]["command"]

    def ask(self, command: str, **more) -> dict:
        """What the hook answers; it waits as long as a person takes to decide. `more`: of the tool's input."""
        self._count += 1
        return self._asked(self._event("PreToolUse", command, **more))["hookSpecificOutput"]

    def _event(self, name: str, command: str, **more) -> dict:
        event = {"session_id": "calls", "cwd": str(self.folder), "hook_event_name": name, "tool_name": "Bash"}
        return event | {"tool_input": {"command": command, **more}, "tool_use_id": f"call-{self._count}"}

    def _asked(self, event: dict) -> dict:
        done = subprocess.run(
            ["/bin/sh", "-c", self._hooks[event["hook_event_name"]]],
            input=json.dumps(event).encode(),
            stdout=subprocess.PIPE,
            env=self.environment,
            timeout=300,
            **self.as_user,
        )
        return json.loads(done.stdout)

    def call(self, command: str) -> Ended:
        """Ask, and run the command of the answer if the call was allowed and is held."""
        answer = self.ask(command)
        reason = answer.get("permissionDecisionReason", "")
        if answer["permissionDecision"] != "allow":
            return Ended(answer["permissionDecision"], reason)
        changed = answer.get("updatedInput", {}).get("command", command)
        if changed == command:
            return Ended("allow", "it is not held")
        done = self.run(changed)
        return Ended("allow", reason, done.returncode, done.stdout)

    def report(self, ran: str, output: str = "") -> str:
        """Say that the last call ended well, as Claude Code does; what the agent is told of it, or ""."""
        response = {"stdout": output, "stderr": "", "interrupted": False}
        event = self._event("PostToolUse", ran) | {"tool_response": response}
        return self._asked(event).get("hookSpecificOutput", {}).get("additionalContext", "")

    def run(self, command: str) -> subprocess.CompletedProcess:
        """Run a command as Claude Code runs it."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            **self.as_user,
        )


def give(folder: Path, user: int | None):
    """Make a tree the user's."""
    if user is not None and os.geteuid() == 0:
        subprocess.run(["chown", "-hR", f"{user}:{user}", folder], check=True)
