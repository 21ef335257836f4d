"""The broker: the runner carries out an approved action's stored bytes, at most once."""

import base64
import hashlib

from django.db import transaction
from django.db.models import Q

from approvals import gate
from approvals.calls import beneath, root_of
from approvals.endings import end_if_due, mark_uncertain, record_carried
from approvals.models import Action, Status
from approvals.reading import content, with_all
from dashboard import clock
from dashboard.models import Actor
from dashboard.problems import Problem, conflict
from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.models import Command, Run, State
from workspaces.runner.job import Kind
from workspaces.runner.kinds.running import RunCommand
from workspaces.store import StoreError

RUNNER = Actor.system("runner")
DEFAULT_TIMEOUT_S = 3600
SHOWN_TAIL = 4000


class Broker(Kind):
    """Snapshot, use the approval up, then run the command or write the file."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state != State.READY:
            raise conflict(f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}, so it was not started.")
        action, call = await job.thread(_ready, job)
        if action.status == Status.APPROVED:
            snapshot = await _saved(job, action) if action.tier in gate.SAVED_FIRST else None
            await job.started()
            await job.thread(_take, job, action, call, snapshot)
        if action.tool == "Bash":
            return await self._run(job, call)
        return await self._write(job, call)

    async def recover(self, job):
        """What certainly never began is begun; everything else is found out, or said to be unclear."""
        await job.refresh()
        if await job.thread(Command.objects.filter(effect=job.effect.pk).exists):
            found = await job.find_program()
            if found is not None:
                return found
        return await self.perform(job)

    def finish(self, job, outcome):
        if Command.objects.filter(effect=job.effect.pk).exists():
            RunCommand().finish(job, outcome)
        action = Action.objects.get(pk=job.args["action"])
        if outcome.get("uncertain"):
            # Approved as well: a database put back to yesterday does not know yet what this host has carried out.
            either = Q(status__in=[Status.APPROVED, Status.RUNNING])
            mark_uncertain(action, outcome["reason"], by=RUNNER, when=either)
        elif not record_carried(action, told(outcome), by=RUNNER, when=Q(status=Status.RUNNING)):
            note = f"It did not run: {outcome.get('reason') or 'the runner gave it back.'}"
            gate.withdraw(action, RUNNER, note, why="not started")

    async def _run(self, job, call) -> dict:
        argv, timeout_s = _program(call)
        try:
            return await job.run_program(argv, cwd=call["cwd"], timeout_s=timeout_s)
        except DriverError as error:
            return {"ok": False, "reason": str(error)}

    async def _write(self, job, call) -> dict:
        """Put the file's next content there; after a crash only over what was there before."""
        path = beneath(call["arguments"]["file_path"], call["cwd"], root_of(job.workspace))
        now = await _read(job, path)
        known = job.effect.progress
        if known.get("after") and known["after"] == _digest(now):
            return {"ok": True, "reason": "Written.", "path": path}
        if known.get("after") and known["before"] != _digest(now):
            reason = "The runner stopped while it wrote, and the file is neither as it was nor as it was to be."
            return {"ok": False, "uncertain": True, "reason": reason}
        after = next_content(call["arguments"], now)
        await job.progress(before=_digest(now), after=_digest(after))
        is_new = await job.write_file(path, after)
        return {"ok": True, "reason": "Made a new file." if is_new else "Written.", "path": path, "bytes": len(after)}


broker = Broker()


def _ready(job) -> tuple[Action, dict]:
    """The action and its call, if it may be carried out now; Problem 409 says why not."""
    action = with_all(Action.objects.filter(pk=job.args["action"])).get()
    if action.status == Status.RUNNING and action.digest == job.args["digest"]:
        return action, content(action)  # the runner that took it is gone
    action = end_if_due(action)
    gate.check_consumable(action, job.args["digest"])
    if action.agent.paused_at:
        raise conflict(f"{action.agent.name} is paused.")
    return action, content(action)


async def _saved(job, action: Action):
    try:
        async with job.lock(), job.live():
            await job.recover_tree()
            return await job.snapshot("action", gate.before(action))
    except StoreError as error:
        raise conflict(f"The files could not be saved first: {error}") from error


@transaction.atomic
def _take(job, action: Action, call: dict, snapshot):
    """Use the approval up; a command gets its row with it, so that it can be watched and cancelled like any other."""
    if not gate.take(action, job.args["digest"], by=RUNNER, snapshot=snapshot):
        raise conflict("It was taken back.")
    if action.tool == "Bash":
        argv, timeout_s = _program(call)
        Command.objects.get_or_create(
            effect=job.effect,
            defaults={
                "workspace": job.workspace,
                "run": Run.objects.filter(workspace=job.workspace, ended_at=None).first(),
                "argv": argv,
                "timeout_s": timeout_s,
                "shown": call["arguments"]["command"],
                "cwd": call["cwd"],
                "by": job.effect.by,
                "started_at": clock.now(),
            },
        )


def _program(call: dict) -> tuple[list[str], int]:
    """argv and the time it may take, in seconds."""
    arguments = call["arguments"]
    timeout_s = -(-arguments["timeout"] // 1000) if "timeout" in arguments else DEFAULT_TIMEOUT_S
    return ["bash", "-c", arguments["command"]], timeout_s


async def _read(job, path: str) -> bytes | None:
    try:
        return await job.read_file(path)
    except Problem as problem:
        if problem.status == 404:
            return None
        raise


def _digest(data: bytes | None) -> str:
    return "none" if data is None else hashlib.sha256(data).hexdigest()


def next_content(arguments: dict, now: bytes | None) -> bytes:
    """The file after a Write or an Edit of what it holds now; Problem 409 when the edit does not fit."""
    if "content" in arguments:
        return arguments["content"].encode()
    old, new = arguments["old_string"].encode(), arguments["new_string"].encode()
    if not old:
        if now:
            raise conflict("The edit is for a new file, and this one is there already.")
        return new
    found = (now or b"").count(old)
    if not found:
        raise conflict("The text to replace is not in the file.")
    if found > 1 and not arguments.get("replace_all"):
        raise conflict(f"The text to replace is in the file {found} times; say which, or replace_all.")
    return now.replace(old, new)


def told(outcome: dict) -> dict:
    """An effect's outcome as an action's result: a program that ended with an error is a failure."""
    if "exit_status" not in outcome:
        return outcome
    kept = {name: outcome[name] for name in ("exit_status", "signal", "output_bytes", "truncated") if name in outcome}
    tail = base64.b64decode(outcome.get("tail") or "").decode("utf-8", "replace")[-SHOWN_TAIL:]
    reason = outcome.get("words") or outcome.get("reason") or ""
    return {"ok": outcome.get("ok") and outcome["exit_status"] == 0, "reason": reason, "tail": tail} | kept
