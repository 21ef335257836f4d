"""The broker: let the runner carry out an approved action's stored bytes, at most once."""

import base64
import hashlib
from functools import partial

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from approvals.actions import asked_again, bound_files, gate, rehearsals
from approvals.actions.approved_envelope import envelope_of, refused_although_opened
from approvals.actions.approved_hosts import hosts_of
from approvals.actions.expiry import end_if_due, mark_uncertain, record_carried
from approvals.actions.transitions import SNAPSHOT_TIERS, applied_tree, withdraw
from approvals.broker import way_back
from approvals.evaluation.broker_program import program_of
from approvals.evaluation.calls import beneath, root_of
from approvals.evaluation.judge import content, current, with_all
from approvals.models import Action, ActionEndCode, Status
from dashboard.database import clock
from dashboard.problems import Problem, conflict
from workspaces import lifecycle
from workspaces.changes import history
from workspaces.drivers.base import DriverError
from workspaces.envelope.output_refusals import in_short
from workspaces.models import Command, Run, State, Workspace
from workspaces.runner import applying, snapshots
from workspaces.runner.job import Kind
from workspaces.runner.operations.command import RunCommand
from workspaces.runner.reconcile import unseen
from workspaces.runner.refusals import unclear
from workspaces.secrets.masking import without_keys
from workspaces.services.rehearsals import mark_applied
from workspaces.store import StoreError

SHOWN_TAIL = 4000  # characters of the output in an action's result
MAX_CHANGED = 50  # paths that the outcome of a call names
KEPT = ("exit_status", "signal", "output_bytes", "truncated", "changed", "changed_count")


class Broker(Kind):
    """Take a snapshot, consume the approval, then run the command or write the file."""

    async def perform(self, job):
        await unseen.resume_first(job)
        workspace = await job.refresh()
        if workspace.state != State.READY:
            raise conflict(f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}, so it was not started.")
        action, call = await job.thread(_ready, job)
        if await job.thread(applied_tree, action):
            return await self._apply(job, action)
        if action.status == Status.APPROVED:
            snapshot = await _saved(job, action) if action.tier in SNAPSHOT_TIERS else None
            await job.thread(bound_files.verify, action, bound_files.UNHURRIED)
            await way_back.ensure(job, action)
            await job.mark_started()
            await job.thread(_take, job, action, call, snapshot)
        if action.tool == "Bash":
            return await self._run(job, action, call)
        return await self._write(job, call)

    async def recover(self, job):
        """Resume after a crash: wait for a program that was started, else `perform` again. Refused if unclear."""
        await job.refresh()
        if await job.thread(Command.objects.filter(operation=job.operation.pk).exists):
            action = await job.thread(with_all(Action.objects).get, pk=job.args["action"])
            reaches = await job.thread(lambda: hosts_of(action, envelope_of(action)))
            found = await job.find_program(reaches)
            if found is not None:
                return found
        return await self.perform(job)

    def finish(self, job, outcome):
        if Command.objects.filter(operation=job.operation.pk).exists():
            RunCommand().finish(job, outcome)
        action = Action.objects.get(pk=job.args["action"])
        applied = outcome.pop("applied", None)
        if applied:
            mark_applied(action.rehearsal)
            Workspace.objects.filter(pk=job.workspace.pk).update(disk_generation=F("disk_generation") + 1)
        if outcome.get("uncertain"):
            # APPROVED as well: a database restored from a backup may predate the consumption on this host.
            either = Q(status__in=[Status.APPROVED, Status.RUNNING])
            mark_uncertain(action, outcome["reason"], by=job.by, when=either)
        elif not record_carried(
            action, _shown(applied or for_action(outcome)), by=job.by, when=Q(status=Status.RUNNING)
        ):
            if action.digest != job.args["digest"]:
                return  # it needs approval again, for other bytes
            note = f"It did not run: {outcome.get('reason') or 'the runner could not start it.'}"
            withdraw(action, job.by, note, code=ActionEndCode.NOT_STARTED)

    async def _apply(self, job, action) -> dict:
        """Make the files those that the rehearsal left, instead of running the command."""
        rehearsal = action.rehearsal
        if rehearsal is None or rehearsal.tree_hex != await job.thread(applied_tree, action):
            raise conflict("The result that was approved is no longer kept. Ask again.")
        consume = partial(_consume, job, action) if action.status == Status.APPROVED else None
        await applying.apply(job, rehearsal, label=gate.snapshot_label(action), consume=consume)
        return {"ok": True, "applied": rehearsals.outcome_of(rehearsal)}

    async def _run(self, job, action, call) -> dict:
        argv, timeout_s = program_of(call)
        envelope = await job.thread(envelope_of, action)
        reaches = await job.thread(hosts_of, action, envelope)
        how = {"timeout_s": timeout_s, "envelope": envelope, "reaches": reaches}
        outcome = await job.run_program(argv, cwd=call["cwd"], **how)
        if outcome.get("blocked") and envelope:
            outcome["opened_but_refused"] = refused_although_opened(envelope, outcome["blocked"], call["cwd"])
            outcome["how_to_ask"] = await job.thread(_how_to_ask, action, call, outcome["blocked"])
        if outcome.get("blocked") or outcome.get("exit_status"):
            outcome |= await _changed(job, action)
        return outcome

    async def _write(self, job, call) -> dict:
        """Write the file's new content; after a crash only if the file is unchanged since before the operation."""
        path = beneath(call["arguments"]["file_path"], call["cwd"], root_of(job.workspace))
        now = await _read(job, path)
        known = job.operation.progress
        if known.get("after") and known["after"] == _digest(now):
            return {"ok": True, "reason": "Written.", "path": path}
        if known.get("after") and known["before"] != _digest(now):
            reason = "The runner stopped while writing, and the file has neither its old nor its new content."
            raise unclear(reason)
        after = next_content(call["arguments"], now)
        await job.progress(before=_digest(now), after=_digest(after))
        is_new = await job.write_file(path, after)
        return {"ok": True, "reason": "Created." if is_new else "Written.", "path": path, "bytes": len(after)}


def _ready(job) -> tuple[Action, dict]:
    """Return the action and its call if it may be carried out now, else raise Problem 409."""
    action = with_all(Action.objects.filter(pk=job.args["action"])).get()
    if action.status == Status.RUNNING and action.digest == job.args["digest"]:
        return action, content(action)  # a runner that has since stopped consumed the approval
    action = end_if_due(action)
    gate.check_consumable(action, job.args["digest"])
    if action.agent.paused_at:
        raise conflict(f"{action.agent.name} is paused.")
    return action, content(action)


async def _saved(job, action: Action):
    try:
        async with job.lock(), job.open_tree():
            await job.recover_tree()
            return await job.snapshot("action", gate.snapshot_label(action))
    except StoreError as error:
        raise conflict(f"The snapshot before it failed: {error}") from error


def _how_to_ask(action: Action, call: dict, blocked: list[dict]) -> str:
    folders = asked_again.folders_of(current(action).commands, call["cwd"])
    files = asked_again.refused_files(blocked, action.workspace, folders)
    return asked_again.how_to_ask(call["arguments"]["command"], files) if files else ""


async def _changed(job, action: Action) -> dict:
    """Return {changed, changed_count}: the paths that differ from the snapshot before it; {} if that is not known."""
    now = await job.thread(Action.objects.select_related("snapshot_before").get, pk=action.pk)
    if now.snapshot_before is None:
        return {}
    try:
        async with job.lock(), job.open_tree(read=True) as tree:
            after = await job.thread(snapshots.scan, job.workspace, tree)
        trees = (now.snapshot_before.tree_hex, after.tree)
        found = await job.thread(partial(history.changes_of_trees, job.workspace, *trees, count=False))
    except (DriverError, Problem, StoreError):
        return {}  # its files cannot be read now: the page compares them later
    names = (name for change in found for name in (change.old_path, change.path) if name is not None)
    paths = [name.decode("utf-8", "replace") for name in names]
    return {"changed": paths[:MAX_CHANGED], "changed_count": len(paths)}


async def _consume(job, action: Action, snapshot):
    await job.thread(bound_files.verify, action, bound_files.UNHURRIED)
    await job.mark_started()
    if not await job.thread(gate.mark_running, action, job.args["digest"], by=job.by, snapshot=snapshot):
        raise conflict("The approval is no longer valid.")


@transaction.atomic
def _take(job, action: Action, call: dict, snapshot):
    """Consume the approval and, in the same transaction, make a command's row: people can watch and cancel it."""
    if not gate.mark_running(action, job.args["digest"], by=job.by, snapshot=snapshot):
        raise conflict("The approval is no longer valid.")
    if action.tool == "Bash":
        argv, timeout_s = program_of(call)
        Command.objects.get_or_create(
            operation=job.operation,
            defaults={
                "workspace": job.workspace,
                "run": Run.objects.filter(workspace=job.workspace, ended_at=None).first(),
                "argv": argv,
                "timeout_s": timeout_s,
                "envelope": envelope_of(action),
                "shown": call["arguments"]["command"],
                "cwd": call["cwd"],
                "by": job.operation.by,
                "started_at": clock.now(),
            },
        )


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
    """Return the content after a Write or Edit of a file that holds `now`. Problem 409 when the edit does not fit."""
    if "content" in arguments:
        return arguments["content"].encode()
    old, new = arguments["old_string"].encode(), arguments["new_string"].encode()
    if not old:
        if now:
            raise conflict("The edit creates a file, but this file already exists.")
        return new
    if now is None:
        raise conflict("There is no such file to edit.")
    found = now.count(old)
    if not found:
        raise conflict("The text to replace is not in the file.")
    if found > 1 and not arguments.get("replace_all"):
        raise conflict(f"The text to replace occurs {found} times in the file; add context or set replace_all.")
    if len(now) + found * (len(new) - len(old)) > settings.HANDRAIL_FILE_BYTES:
        raise conflict(f"The file would exceed the limit of {settings.HANDRAIL_FILE_BYTES:,} bytes.")
    return now.replace(old, new)


def _shown(outcome: dict) -> dict:
    """Return the outcome with the end of its output, in which what looks like a secret is masked before the cut."""
    return outcome | {"tail": without_keys(outcome["tail"])[-SHOWN_TAIL:]} if "tail" in outcome else outcome


def for_action(outcome: dict) -> dict:
    """Convert an operation's outcome to an action's: a program that exited non-zero has failed."""
    if "exit_status" not in outcome:
        return outcome
    kept = {name: outcome[name] for name in KEPT if name in outcome}
    tail = base64.b64decode(outcome.get("tail") or "").decode("utf-8", "replace")
    if outcome.get("blocked"):
        kept["blocked"] = outcome["blocked"]
    exited = outcome.get("reason") == "exited" and not outcome.get("oom_kills")
    reason = "" if exited else outcome.get("words") or outcome.get("reason") or ""  # the exit status is enough
    reason = reason or outcome.get("held_note", "")
    refused = outcome.get("opened_but_refused")
    if outcome["exit_status"] == 0 and outcome.get("blocked"):
        said = in_short(refused or outcome["blocked"])
        lead = ", but what was approved was refused" if refused else ". Refused meanwhile"
        reason = f"It exited with 0{lead}: {said}."
    reason = " ".join(filter(None, (reason, outcome.get("how_to_ask"))))
    ok = outcome.get("ok") and outcome["exit_status"] == 0 and not refused
    return {"ok": ok, "reason": reason, "tail": tail} | kept
