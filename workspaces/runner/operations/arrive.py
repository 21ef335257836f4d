"""Bring the files of a workspace that moves to this host, or under another driver, and switch its place.

The files are restored into a folder of their own and compared there; nothing of the workspace is touched before the
switch, which one commit makes together with a new epoch of its lead.
"""

import logging

from django.db.models import F

from dashboard.database import clock
from dashboard.models import Team
from dashboard.workers.failpoints import failpoint
from workspaces import lifecycle, operations
from workspaces.drivers.base import DriverError
from workspaces.host import paths
from workspaces.models import Environment, Operation, Phase, ReasonCode, Runner, Snapshot, State, Workspace
from workspaces.provisioning import isolation
from workspaces.runner import removing, snapshots
from workspaces.runner.job import Kind
from workspaces.runner.operations.move import did_not_move, next_step, resume_at
from workspaces.runner.refusals import Again, Refused
from workspaces.runner.run_spec import uid_of
from workspaces.runner.steps import belongings
from workspaces.runner.steps.compare import compare_files, save_proof
from workspaces.runner.steps.staged_tree import staged_tree
from workspaces.runner.steps.volumes import remove_volumes
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")


class Arrive(Kind):
    """args: those of the move, with {was, head, epoch, sent, from}."""

    when_store_fails = "Nothing was moved: "

    async def perform(self, job):
        workspace = await job.refresh()
        if "switched" not in job.operation.progress:
            await job.thread(_refuse_if_used, job)
        workspace.environment = await job.thread(_environment_of, job)
        await job.mark_started()
        if "switched" not in job.operation.progress:
            try:
                await self._restore(job)
            except (StoreError, DriverError, OSError) as error:
                await job.thread(_clear, job)
                raise Refused(f"Nothing was moved: {error}", ReasonCode.STORE) from error
            failpoint("arrive.proved")
            await job.thread(_switch, job)
        failpoint("arrive.switched")
        try:
            async with job.lock():
                await job.thread(belongings.put_in_place, workspace)
        except OSError as error:  # it is here now, so there is no way but on
            await job.thread(operations.put_off, job.operation, str(error))
            raise Again from error
        failpoint("arrive.placed")
        if job.args.get("environment"):
            await remove_volumes(job)  # of the environment that it was under
        await self._name_owners(job)
        return {"ok": True, "proof": job.operation.progress["proof"], "snapshot": workspace.head.number}

    async def _restore(self, job):
        """Restore the files beside what is here, and compare every byte. Raise StoreError if anything differs."""
        workspace, driver = job.workspace, job.driver
        _check_isolation(job)
        await job.thread(paths.make_folders, workspace)
        place = await job.thread(belongings.make_staging, workspace)
        store = await job.thread(snapshots.store_of, workspace)
        head = await job.thread(Snapshot.objects.get, pk=job.args["head"])
        owner = driver.file_owner(uid_of(workspace).get("uid"))
        async with staged_tree(job, place) as tree:
            await job.progress(step="restore")
            how = {"journal": place / "journal", "owner": owner} | job.watch(step="restore")
            await job.thread(store.restore, head.tree_hex, tree, **how)
            failpoint("arrive.restored")
            proof = await job.thread(compare_files, workspace, tree, head, full=True, lend=False, owner=owner)
        if proof["differ"]:
            raise StoreError(f"{proof['differ']:,} entries are not as in snapshot {proof['snapshot']}")
        await job.thread(belongings.receive, workspace, job.args["sent"], driver)
        await job.progress(proof=proof)

    async def _name_owners(self, job):
        """Take a snapshot if the files belong to another user under this driver, so that later proofs hold."""
        head, owner = job.workspace.head, job.driver.file_owner(uid_of(job.workspace).get("uid"))
        try:
            async with job.lock(), job.open_tree() as tree:
                found = await job.thread(compare_files, job.workspace, tree, head)
                if owner is not None and found["differ"]:
                    await job.snapshot("end", f"as snapshot {head.number}, moved")
        except (StoreError, DriverError) as error:  # the next start compares them, and says so
            logger.warning("%s has no snapshot of its new owners: %s", job.workspace.key, error)

    def finish(self, job, outcome):
        was = job.args["was"]
        if not outcome["ok"]:
            did_not_move(job, was, outcome["reason"])
            return
        state = State.PAUSED if was == State.PAUSED else State.STOPPED
        rows = Workspace.objects.filter(pk=job.workspace.pk)
        rows.update(state=state, reason="", missing_snapshot="")
        save_proof(job.workspace, outcome["proof"], {})
        if job.args["from"] not in ("", job.args["runner"]):
            left = Runner.objects.get(pk=job.args["from"])
            next_step(job, "leave", left)
        if was == State.READY:
            resume_at(job.workspace.pk, job.by)


def _clear(job):
    """Remove what was brought here, which is not the workspace's place."""
    workspace = job.workspace
    is_here = str(workspace.runner_id) == job.args["runner"]
    removing.remove(belongings.staging(workspace) if is_here else paths.folder_of(workspace.pk))


def _refuse_if_used(job):
    workspace = job.workspace
    is_same = str(workspace.head_id) == job.args["head"] and workspace.lead_epoch == job.args["epoch"]
    at_rest = (State.STOPPED, State.PAUSED) if job.args["from"] else (State.ARCHIVED,)
    if workspace.state not in at_rest or not is_same:
        raise Refused("Nothing was moved: it was used meanwhile.", ReasonCode.STATE)


def _environment_of(job) -> Environment:
    wanted = job.args.get("environment")
    return Environment.objects.get(pk=wanted) if wanted else job.workspace.environment


def _check_isolation(job):
    environment, offered = job.workspace.environment, job.daemon.isolation_of(job.driver, job.workspace.environment)
    if not isolation.is_enough(offered, environment.minimum_isolation):
        raise DriverError(isolation.too_little(environment.driver, offered, environment.minimum_isolation))


def _switch(job):
    """Make this the workspace's place, with a new epoch of its lead, unless somebody else ended the operation."""
    workspace, args = job.workspace, job.args
    with Team.objects.turn(workspace.team_id):
        if not operations.has_started(job.operation):
            raise operations.StaleEpoch(job.operation.pk)
        # It shares no block with a workspace of its former host.
        vitals = {name: value for name, value in workspace.vitals.items() if name != "shared"}
        fields = {"runner": args["runner"], "placed_at": clock.now(), "lead_epoch": F("lead_epoch") + 1}
        fields["vitals"] = vitals
        if args.get("environment"):
            fields |= {"environment": args["environment"], "base": {}}
        if not Workspace.objects.filter(pk=workspace.pk, lead_epoch=args["epoch"]).update(**fields):
            raise operations.StaleEpoch(job.operation.pk)
        waiting = Operation.objects.filter(workspace=workspace, phase=Phase.DUE).exclude(kind="leave")
        waiting.update(runner=args["runner"])
        operations.record_progress(job.operation, job.operation.progress | {"switched": True})
        known = Runner.objects.filter(pk__in=[pk for pk in (args["from"], args["runner"]) if pk])
        names = {str(row.pk): row.host for row in known}
        data = {"from": names.get(args["from"], ""), "to": names[args["runner"]]}
        proof = job.operation.progress["proof"]
        data |= {"driver": workspace.environment.driver, "environment": str(workspace.environment)}
        data |= {name: proof[name] for name in ("snapshot", "entries", "differ")}
        lifecycle.record(workspace, job.by, "workspace.moved", data)
    workspace.lead_epoch, workspace.runner_id = args["epoch"] + 1, Runner.objects.get(pk=args["runner"]).pk
    if args.get("environment"):
        workspace.base = {}
