"""Try a command on a copy of a workspace's files, in a Run of its own, and keep what it did to them."""

import asyncio
import itertools
import os
import subprocess
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from django.conf import settings

from dashboard.database import clock
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.drivers.box import with_repository
from workspaces.drivers.sandbox.driver import UID
from workspaces.envelope.envelope import MEDIUM
from workspaces.host import paths, store_keys, team_stores
from workspaces.models import ReasonCode, Rehearsal, RehearsalStatus, State
from workspaces.operations.needs_approval import is_hook_file
from workspaces.provisioning import capacity
from workspaces.runner import programs, rehearsal_overlay, snapshots
from workspaces.runner.job import Kind
from workspaces.runner.measure.disk_usage import disk_usage
from workspaces.runner.refusals import Refused
from workspaces.runner.refused_to_program import as_blocked
from workspaces.runner.rehearsal_masks import Masks
from workspaces.runner.rehearsal_rules import RehearsalRules
from workspaces.runner.run_spec import agents_spec, uid_of
from workspaces.services import rehearsals
from workspaces.shim import client
from workspaces.store.file_reader import LEFT_OUT

MAX_SECONDS = 600
SHOWN_OUTPUT = 64 * 1024  # bytes of the end of the output that are kept
SHOWN_CHANGES = 200  # changed files that are named without reading the trees
PHASE = "rehearsal"
ROOM_INTERVAL_S = 1.0  # between two looks at the free space of the disk
WALK_EVERY = 10  # of these looks, one measures the copy


class Rehearse(Kind):
    """Copy the files, run the command on the copy without network, store what it left.

    The program is held to the medium envelope; where the driver can hold none, the copy's secrets are masked. The live
    files are only read. Neither the copy nor the program's recording outlives the operation.
    """

    when_cancelled = "Nothing of it is kept."
    when_store_fails = "It could not be tried: "

    async def perform(self, job):
        await job.require(State.READY, State.PAUSED, State.STOPPED)
        if reason := rehearsals.why_not(job.workspace):
            raise Refused(reason)
        if job.driver.capabilities.files_need_run:
            await job.thread(capacity.refuse_when_promised, job.workspace, beside_itself=True)
        await job.mark_started()
        try:
            return {"ok": True, "rehearsal": await _rehearse(job)}
        finally:
            await _clear(job)

    async def recover(self, job):
        """Remove what a crash left behind. The command is not tried again by itself."""
        await job.refresh()
        await _clear(job)
        raise Refused("The runner stopped while it was tried. Try it again.", ReasonCode.RUNNER_STOPPED)

    def finish(self, job, outcome):
        """Move the findings from the outcome to the rehearsal's row, so that they go with it."""
        found = outcome.pop("rehearsal", None)
        if found is None:
            found = {"status": RehearsalStatus.FAILED, "note": outcome["reason"][:2000]}
        else:
            found = found | {"base": bytes.fromhex(found["base"]), "tree": bytes.fromhex(found["tree"])}
        rows = Rehearsal.objects.filter(operation=job.operation.pk, status=RehearsalStatus.RUNNING)
        if rows.update(ended_at=clock.now(), **found):
            data = {name: found[name] for name in ("exit_status", "change_count", "note") if found.get(name)}
            lifecycle.record(job.workspace, job.by, "workspace.rehearsed", {"status": found["status"]} | data)


async def _rehearse(job) -> dict:
    """Return the columns of the Rehearsal; trees as hex."""
    scratch = paths.rehearsal_of(job.workspace.pk, job.operation.pk)
    base = await _copy(job, scratch)
    is_held = job.driver.capabilities.envelopes
    masks = None if is_held else Masks(scratch / "tree", scratch / "masked")
    if masks:
        await job.thread(masks.lay)
    failpoint("rehearse.copied")
    ended, after = await _run(job, scratch, masks)
    obstacle = await job.thread(masks.lift) if masks else ""
    after = after or await job.thread(_scan, job, rehearsal_overlay.tree(scratch))
    failpoint("rehearse.stored")
    return await job.thread(_findings, job, base, after, ended, masks, obstacle)


async def _copy(job, scratch: Path):
    """Store the live files, and lay an overlay over them, or copy them from the store. Return the store's snapshot.

    Those of a guest at rest are the newest snapshot's.
    """
    async with job.lock(), job.open_tree(read=True) as tree:
        await job.recover_tree()
        base = await job.thread(snapshots.scan, job.workspace, tree, cancel=job.cancel)
    store = await job.thread(snapshots.store_of, job.workspace)
    owner = job.driver.file_owner(uid_of(job.workspace).get("uid"))
    if rehearsal_overlay.is_possible(job.driver):
        options = await job.thread(team_stores.mount_options)
        keys = await job.thread(store_keys.keys_of, job.workspace.team_id)
        how = (options, keys, partial(failpoint, "rehearse.mounted"))
        if await job.thread(rehearsal_overlay.lay, store, base.tree, scratch, owner, *how):
            await job.thread(_make_folder, scratch / "home")
            return base
    # What a guest gets is written twice: into a folder, and from there onto its disk.
    room = base.bytes * (2 if job.driver.capabilities.files_need_run else 1)
    if await job.thread(capacity.free_bytes) < room + settings.HANDRAIL_RESERVE_BYTES:
        raise Refused("The disk has no room for a copy of the files.")
    for name in ("tree", "home"):
        await job.thread(_make_folder, scratch / name)
    if job.driver.capabilities.files_need_run and os.geteuid() == 0:
        owner = (UID, UID)  # the guest's user: of files that seem to be others', set-user-ID bits are not restored
    lender = await job.thread(snapshots.tree_at_rest, job.driver, job.workspace)
    how = {"journal": scratch / "journal", "owner": owner, "lender": lender, "cancel": job.cancel}
    await job.thread(store.restore, base.tree, rehearsal_overlay.tree(scratch), **how)
    return base


def _make_folder(path: Path):
    path.mkdir(mode=0o755, parents=True)


async def _run(job, scratch: Path, masks: Masks | None) -> tuple[dict, object]:
    """Run the command in a Run of its own, and end that with all its programs.

    Return how it ended, as `Job.run_program` does, and what it left if that can be read only while the Run is up.
    """
    workspace, driver = job.workspace, job.driver
    how = {"phase": PHASE, "home": scratch / "home", "tree": scratch / "tree"}
    spec = await job.thread(agents_spec, workspace, _run_id(job), **how)
    await driver.prepare(spec)
    if masks:
        await job.thread(masks.remember)
    owner = await driver.start(spec)
    failpoint("rehearse.started")
    rules = RehearsalRules(job.daemon, workspace.pk, workspace.key, PHASE)
    try:
        await job.daemon.network.open(owner, workspace, rules=rules)
        ended = await _while_there_is_room(job, scratch, _program(job, owner, rules, is_held=masks is None))
        failpoint("rehearse.ran")
        if job.cancel.is_set():
            raise Refused("Cancelled. Nothing of it is kept.", ReasonCode.CANCELLED)
        if not ended["ok"]:
            raise Refused(ended["reason"], ReasonCode(ended["reason_code"]))
        if masks:  # what no envelope refuses, only the proxy does
            ended["blocked"] = as_blocked(rules.hosts())
        if not driver.capabilities.files_need_run:
            return ended, None
        await driver.end_programs(owner, grace_s=0.0)
        return ended, await job.thread(_scan, job, driver.tree(owner, cache=scratch / "scan"))
    finally:
        await _end_run(job, owner)


def _program(job, owner, rules: RehearsalRules, *, is_held: bool):
    """Return the run of the command, to be awaited."""
    args = job.args
    seconds = min(args["timeout_s"] or MAX_SECONDS, MAX_SECONDS)
    return programs.run(
        job,
        args["argv"],
        cwd=args["cwd"],
        env={},
        timeout_s=seconds,
        owner=owner,
        phase=None,
        envelope=_envelope(job, seconds) if is_held else None,
        hosts=rules.hosts,
    )


def _envelope(job, seconds: int) -> dict:
    envelope = replace(MEDIUM, seconds=seconds)
    if not job.workspace.environment.capabilities.own_folder:
        return envelope.to_json()
    # The box of a folder shows the caches of the person's own home.
    envelope = replace(envelope, write=tuple(each for each in envelope.write if each != "caches"))
    return with_repository(envelope.to_json(), paths.tree_of(job.workspace))


async def _while_there_is_room(job, scratch: Path, program) -> dict:
    """Await a program, and end it if it fills the disk or outgrows the workspace's limit: Refused."""
    task = asyncio.ensure_future(program)
    try:
        for look in itertools.count(1):
            done, _ = await asyncio.wait({task}, timeout=ROOM_INTERVAL_S)
            if done:
                return task.result()
            if why := await job.thread(_lacks_room, job, scratch, look % WALK_EVERY == 0):
                raise Refused(why)
    finally:
        task.cancel()


def _lacks_room(job, scratch: Path, walk: bool) -> str:
    if capacity.is_short_of_room():
        return "It was ended because the disk is nearly full."
    if not walk or job.driver.capabilities.files_need_run:  # a guest's own disk is its limit
        return ""
    limit = capacity.size_limit(job.workspace)
    if limit and disk_usage(scratch / "tree", scratch / "home") > limit:
        return "It was ended because its files outgrew the workspace's limit."
    return ""


def _run_id(job) -> str:
    return f"rehearse-{job.operation.pk}"


async def _end_run(job, owner):
    await job.driver.stop(owner, grace_s=0.0)
    await job.daemon.network.close(owner.run_id)
    await job.driver.clear(owner)


def _scan(job, tree):
    # File times are the program's to choose, so all content is read.
    return snapshots.scan(job.workspace, snapshots.with_rules(job.workspace, tree), thorough=True, cancel=job.cancel)


def _findings(job, base, after, ended: dict, masks: Masks | None, obstacle: str) -> dict:
    changes = rehearsals.changes(job.workspace, base.tree, after.tree)
    output = programs.tail(programs.folder(job), ended["output_bytes"], SHOWN_OUTPUT)
    exited = ended["reason"] == "exited"
    return {
        "status": RehearsalStatus.DONE.value,
        "base": base.tree,
        "tree": after.tree,
        "exit_status": ended["exit_status"],
        "output": output.decode("utf-8", "replace").replace("\0", "\ufffd"),
        "output_bytes": ended["output_bytes"],
        "changes": [change.as_json() for change in changes[:SHOWN_CHANGES]],
        "change_count": len(changes),
        "tried": ended.get("blocked", []),
        "note": "" if exited else ended["words"],
        "obstacle": obstacle
        or _obstacle(base, after, changes, ended)
        or (masks.why_not_applied(changes) if masks else ""),
    }


def _obstacle(base, after, changes, ended: dict) -> str:
    """Return why what it left cannot be applied; "" if it can."""
    if ended["reason"] != "exited":
        return "It did not end by itself, so its result is not complete."
    if any(skipped.reason == LEFT_OUT for skipped in after.skipped):
        return "It made files that this environment leaves out of snapshots. They can't be applied."
    if {skipped.path for skipped in after.skipped} - {skipped.path for skipped in base.skipped}:
        return "It made something that cannot be stored, such as a socket or an unreadable file."
    if any(is_hook_file(path) for change in changes for path in (change.path, change.old_path) if path):
        return "It changed files of Handrail's hook, or folders with them."
    return ""


async def _clear(job):
    """End the Run if there is one, and remove the copy and the program's recording."""
    owner = await job.daemon.owner_of(job.driver, _run_id(job))
    if owner is not None:
        await _end_run(job, owner)
    recording = programs.folder(job)
    if recording.exists():
        with suppress(DriverError):
            await client.settle(recording)  # no late shim can start it from here on
        await job.thread(_remove, recording)
    scratch = paths.rehearsal_of(job.workspace.pk, job.operation.pk)
    await job.thread(rehearsal_overlay.lift, scratch)
    await job.thread(_remove, scratch)


def _remove(folder: Path):
    """Remove a folder whose content a program made: closed folders too, and those nested deeper than Python's stack."""
    if not folder.exists():
        return
    if os.geteuid() != 0:
        subprocess.run(["/bin/chmod", "-R", "u+rwX", "--", folder], capture_output=True, check=False)
    subprocess.run(["/bin/rm", "-rf", "--", folder], capture_output=True, check=False)
