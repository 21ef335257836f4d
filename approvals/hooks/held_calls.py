"""Claude Code's shell calls in a connected folder that is held: which ones, and the changed call that they become."""

import json
import secrets
import shlex
import shutil
from contextlib import suppress
from datetime import datetime
from itertools import accumulate
from pathlib import Path

from django.conf import settings
from django.db import transaction

from approvals.actions.transitions import record
from approvals.evaluation.calls import Call
from approvals.evaluation.context import code_host
from approvals.evaluation.judge import content, current
from approvals.models import Action
from dashboard.files.atomic_write import replace_file
from dashboard.problems import conflict
from workspaces.drivers import handrail_run
from workspaces.operations import runner_client

RUNNER_TIMEOUT = 5  # seconds
MAX_OUTPUT = 30_000  # characters of a recorded output that are given to the agent: it reads no more of any command
MAX_COMMAND = 1_000  # characters of the original command in the one that stands for it
# Linux starts no program with a longer argument than 128 KiB, and Claude Code quotes the command once more.
MAX_QUOTED = 100_000  # bytes of the output
APOSTROPHE = 17  # bytes that one takes when it was quoted twice
MAX_SHOWN = 20  # reads of a call that its event names
CONTEXT = (
    "Handrail runs shell commands of this folder in a box that the kernel holds: it reaches the hosts that its "
    "environment's list allows and a loopback of its own, secrets are masked, and only this folder and tool caches can "
    "be written."
)


def wrapped(call: Call, arguments: dict, action: Action, caller) -> dict:
    """Return the whole tool input, with a command that runs the original in the box. Problem when the box is not up."""
    command, reads = arguments["command"], _reads(action, caller)
    body = json.dumps({"command": command, "cwd": call.cwd, "envelope": action.envelope, "reads": reads}).encode()
    ticket = runner_client.ask("POST", call.workspace, "tickets", body=body, timeout=RUNNER_TIMEOUT)["ticket"]
    return arguments | {"command": command_line(program(), ticket, command)}


def _reads(action: Action, caller) -> list[dict]:
    """Return how the reads at the code host of a call are run, and record them. Problem 409 if that changed."""
    commands = current(action).commands
    if not any(entry.get("code_host_read") for entry in commands):
        return []
    try:
        plans = code_host.plans_for(commands, action.workspace)
    except code_host.NotRead as why:
        raise conflict(f"This read at the code host is not run: {why}.") from None
    ran = [{"at": plan["at"][:200], "argv": plan["argv"]} for plan in plans]
    with transaction.atomic():
        record(action, "action.read_at_code_host", caller.actor, {"reads": ran[:MAX_SHOWN]})
    return plans


def ticket_in(ran: str, original: str) -> str | None:
    """Return the ticket of a command that is what `wrapped` makes of the original; None if it is anything else."""
    mark = secrets.token_hex(16)
    before, _, after = command_line(program(), mark, original).partition(mark)
    given = ran[len(before) : len(ran) - len(after)]
    with suppress(ValueError):
        words = shlex.split(given)
        if len(words) == 1 and command_line(program(), words[0], original) == ran:
            return words[0]
    return None


def ended(workspace, ticket: str, since: datetime) -> dict:
    """Return what the runner says of a call that has ended, allowed `since`. Problem if no box is up.

    {blocked: [{kind, what}], ports: [{port, host_port}]}, as `workspaces/runner/held_calls.py` has it.
    """
    body = json.dumps({"ticket": ticket, "since": since.isoformat()}).encode()
    return runner_client.ask("POST", workspace, "tickets/ended", body=body, timeout=RUNNER_TIMEOUT)


def is_first(call: Call, caller) -> bool:
    """Return whether this is the session's first call that runs in the box."""
    earlier = Action.objects.filter(agent=caller.agent, session=call.session, envelope__isnull=False)
    return earlier.filter(consumed_at__isnull=False)[:2].count() < 2


def replayed(action: Action) -> str:
    """Return a shell command that ends as a rehearsal did whose result was applied: with its output and its status."""
    output = output_of(action)
    command = content(action)["arguments"]["command"][:MAX_COMMAND]
    said = f"Applied as a person approved it, so it does not run again: {command}"
    printed = f"printf %s {shlex.quote(_end_that_fits(output))}"
    return f": {shlex.quote(said)}\n{printed}\n(exit {int(action.result['exit_status'])})"


def output_of(action: Action) -> str:
    """Return what a rehearsal printed whose result was applied."""
    return action.rehearsal.output if action.rehearsal else action.result["tail"]


def _end_that_fits(output: str) -> str:
    """Return the end of an output, as long as a shell command may hold it."""
    sizes = (APOSTROPHE if char == "'" else len(char.encode()) for char in reversed(output[-MAX_OUTPUT:]))
    count = sum(size <= MAX_QUOTED for size in accumulate(sizes))
    return output[len(output) - count :]


def command_line(path: str, ticket: str, command: str) -> str:
    """Return a shell command that ends as the original would: with its output, its status, and in its last folder."""
    line = shlex.join([path, ticket, command])
    return f'{{ d=$(exec {line} 8>&1 >&9); }} 9>&1; r=$?; [ -z "$d" ] || cd -- "$d" 2>/dev/null; (exit $r)'


def program() -> str:
    """Return the path of handrail-run beside the connection files; write it if it is not there as it should be."""
    path = settings.HANDRAIL_HOME / "connections" / "handrail-run"
    source = Path(handrail_run.__file__).read_text("utf-8")
    python = next(found for found in ("/usr/bin/python3", shutil.which("python3")) if found and Path(found).exists())
    text = source.replace("#!/usr/bin/python3 -IS", f"#!{python} -IS", 1)
    try:
        if path.read_text("utf-8") == text:
            return str(path)
    except OSError:
        pass
    replace_file(path, text.encode(), mode=0o755)
    return str(path)
