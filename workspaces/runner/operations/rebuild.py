"""Rebuild a workspace on the newest version of its environment, or of another one: run setup again, reversibly."""

from dashboard.models import Team
from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.changes.history import find_snapshot
from workspaces.drivers.base import DriverError
from workspaces.lifecycle.boundaries import KIND as BOUNDARY
from workspaces.models import EndCode, Environment, ReasonCode, State, Workspace
from workspaces.provisioning import eligibility, source_history
from workspaces.runner import rootfs, snapshots
from workspaces.runner.job import Kind
from workspaces.runner.operations.create import Failed, bring_up, set_up
from workspaces.runner.refusals import Refused
from workspaces.runner.steps.shutdown import at_rest, bring_down
from workspaces.services.environments import newest_of
from workspaces.store import StoreError


class Rebuild(Kind):
    """Stop the workspace, snapshot it, run the new setup, and start it again if it was up.

    args: {environment: the version to use, then_resume}, both for another environment than the workspace's own.
    If setup fails, restore the files and the base. The outcome holds `safety_snapshot` (the number to restore for an
    undo), `version` and `environment` (the new ones), and `up`.
    """

    async def perform(self, job):
        workspace = await job.refresh()
        newest = await job.thread(_target, job)
        if newest.driver != workspace.environment.driver:
            raise Refused(f"Version {newest.version} uses another driver; create a new workspace from it.")
        if words := eligibility.why_no_set_up(newest):
            raise Refused(words)
        await job.mark_started()
        was_up = workspace.state == State.READY or job.operation.progress.get("was_up", False)
        moves = newest.name != workspace.environment.name
        await job.progress(was_up=was_up, was=_columns(workspace, moves))
        safety = await self._save(job, newest if moves else None)
        workspace.environment, workspace.base = newest, {}
        try:
            await rootfs.choose(job)
            if newest.setup:
                await set_up(job)
            async with job.lock():
                of = f"{newest.name}, version" if moves else "version"
                made = await job.snapshot("setup", f"rebuilt with {of} {newest.version}")
        except (Failed, DriverError, StoreError) as error:
            await self._put_back(job, safety)
            raise Refused(f"{error}\nThe files are back as they were.", ReasonCode.SETUP, down=True) from error
        told = {"ok": True, "safety_snapshot": safety, "version": newest.version, "environment": str(newest.pk)}
        told |= {"baseline": str(made.pk)} if moves else {}
        try:
            run = await bring_up(job) if was_up or job.args.get("then_resume") else None
        except (DriverError, Problem) as error:
            return told | {"note": f"Setup finished, but it could not be started: {error}", "up": False}
        return told | {"up": run is not None}

    async def _save(self, job, other: Environment | None) -> int:
        """End its programs and keep the files in a snapshot, of its own before another environment; return its number.

        Raise Refused without one.
        """
        if missing_snapshot := await bring_down(job, EndCode.REBUILT):
            raise Refused(f"Nothing was rebuilt: {missing_snapshot}", ReasonCode.SNAPSHOT_MISSING, down=True)
        if other is not None:
            async with job.lock():
                await job.snapshot(BOUNDARY, f"before {other.name}")
        safety = job.workspace.head.number
        await job.progress(safety_snapshot=safety)
        return safety

    async def recover(self, job):
        """Restore the safety snapshot, since it is unknown how far setup got; start over if there is none yet."""
        await job.refresh()
        for owner in await job.driver.records():
            if owner.workspace_id == str(job.workspace.pk):
                await job.driver.stop(owner)
                await job.driver.clear(owner)
        safety = job.operation.progress.get("safety_snapshot")
        if safety is None:
            return await self.perform(job)
        await self._put_back(job, safety)
        words = "The runner stopped during setup. The files were restored."
        raise Refused(words, ReasonCode.RUNNER_STOPPED, down=True)

    async def _put_back(self, job, number: int):
        async with job.lock(), job.open_tree() as tree:
            await job.recover_tree()
            await job.thread(_restore, job.workspace, tree, number, job.operation.progress["was"]["base"])

    def finish(self, job, outcome):
        rows = Workspace.objects.filter(pk=job.workspace.pk)
        with Team.objects.turn(job.workspace.team_id):
            if not outcome["ok"]:
                if outcome.get("down"):
                    rows.update(state=State.STOPPED, reason=outcome["reason"], vitals=at_rest(job.workspace))
                lifecycle.record(
                    job.workspace, job.by, "workspace.rebuild_failed", {"reason": outcome["reason"][:1000]}
                )
                return
            state = State.READY if outcome["up"] else State.STOPPED
            rows.update(environment=outcome["environment"], state=state, reason=outcome.get("note", ""))
            data = {"version": outcome["version"], "safety_snapshot": outcome["safety_snapshot"]}
            if "baseline" in outcome:
                data |= _move(job, outcome)
            lifecycle.record(job.workspace, job.by, "workspace.rebuilt", data)


def _columns(workspace, moves: bool) -> dict:
    """Return the columns that an undo restores."""
    was = {"environment_id": str(workspace.environment_id), "base": workspace.base}
    return was | ({"baseline_id": workspace.baseline_id and str(workspace.baseline_id)} if moves else {})


def _target(job) -> Environment:
    """Return the version to rebuild with."""
    wanted = job.args.get("environment")
    return Environment.objects.get(pk=wanted) if wanted else newest_of(job.workspace.environment)


def _move(job, outcome: dict) -> dict:
    """Save what is different under another environment; return {environment, was} for the event."""
    workspace = Workspace.objects.get(pk=job.workspace.pk)
    was = Environment.objects.get(pk=job.operation.progress["was"]["environment_id"])
    # Secrets of an environment are for its own source: provisioning/eligibility.py
    source = source_history.changed(workspace.source, _foreign)
    Workspace.objects.filter(pk=workspace.pk).update(source=source, baseline=outcome["baseline"])
    return {"environment": workspace.environment.name, "was": str(was)}


def _foreign(source: dict) -> dict:
    return source | {"fork": source["fork"] | {"foreign": True}} if "fork" in source else source


def _restore(workspace, tree, number: int, base: dict):
    """Restore the files of a snapshot and the workspace's previous `base`."""
    target = find_snapshot(workspace, number)
    snapshots.store_of(workspace).restore(target.tree_hex, tree, journal=snapshots.journal_of(workspace))
    Workspace.objects.filter(pk=workspace.pk).update(base=base)
