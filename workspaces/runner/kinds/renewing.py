"""The newest version of an environment on the files that are there: its set-up runs again, and that can be undone."""

from django.db import transaction

from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.environments import newest_of
from workspaces.history import find_snapshot
from workspaces.models import State, Workspace
from workspaces.runner import roots, snapshots
from workspaces.runner.job import Kind
from workspaces.runner.kinds.ends import at_rest, bring_down
from workspaces.runner.kinds.starts import Failed, bring_up, set_up
from workspaces.store import StoreError


class Renew(Kind):
    """Stop it, save what is there, run the new set-up; put everything back when that fails; up again if it was up.

    The outcome names `safety_snapshot`, which is the way back, and the environment's version before, `was`.
    """

    async def perform(self, job):
        workspace = await job.refresh()
        newest = await job.thread(newest_of, workspace.environment)
        if newest.driver != workspace.environment.driver:
            return {"ok": False, "reason": f"Version {newest.version} uses another driver; make a new workspace of it."}
        await job.started()
        was_up = workspace.state == State.READY or job.effect.progress.get("was_up", False)
        was = {"environment_id": str(workspace.environment_id), "base": workspace.base}
        await job.progress(was_up=was_up, was=was)
        if owed := await bring_down(job, "set up again"):
            return {"ok": False, "reason": f"Nothing was set up: {owed}", "down": True}
        safety = workspace.head.number
        await job.progress(safety_snapshot=safety)
        workspace.environment, workspace.base = newest, {}
        try:
            await roots.choose(job)
            if newest.setup:
                await set_up(job)
            async with job.lock():
                await job.snapshot("setup", f"set up again with version {newest.version}")
        except (Failed, DriverError, StoreError) as error:
            await self._put_back(job, safety)
            return {"ok": False, "reason": f"{error}\nThe files are back as they were.", "down": True}
        told = {"ok": True, "safety_snapshot": safety, "version": newest.version, "environment": str(newest.pk)}
        try:
            run = await bring_up(job) if was_up else None
        except (DriverError, Problem) as error:
            return told | {"note": f"It is set up, and could not be brought up: {error}", "up": False}
        return told | {"up": run is not None}

    async def recover(self, job):
        """Nobody saw how far the set-up got: back to what was saved before it."""
        await job.refresh()
        for owner in await job.driver.owners():
            if owner.workspace_id == str(job.workspace.pk):
                await job.driver.stop(owner)
                await job.driver.clear(owner)
        safety = job.effect.progress.get("safety_snapshot")
        if safety is None:
            return await self.perform(job)
        await self._put_back(job, safety)
        return {"ok": False, "reason": "The runner stopped during the set-up. The files are back.", "down": True}

    async def _put_back(self, job, number: int):
        async with job.lock(), job.live() as tree:
            await job.recover_tree()
            await job.thread(_restore, job.workspace, tree, number, job.effect.progress["was"]["base"])

    def finish(self, job, outcome):
        rows = Workspace.objects.filter(pk=job.workspace.pk)
        with transaction.atomic():
            if not outcome["ok"]:
                if outcome.get("down"):
                    rows.update(state=State.STOPPED, reason=outcome["reason"], vitals=at_rest(job.workspace))
                lifecycle.record(job.workspace, job.by, "workspace.renew_failed", {"reason": outcome["reason"][:1000]})
                return
            state = State.READY if outcome["up"] else State.STOPPED
            rows.update(environment=outcome["environment"], state=state, reason=outcome.get("note", ""))
            data = {"version": outcome["version"], "safety_snapshot": outcome["safety_snapshot"]}
            lifecycle.record(job.workspace, job.by, "workspace.renewed", data)


def _restore(workspace, tree, number: int, base: dict):
    """The files, and what its root was made of."""
    target = find_snapshot(workspace, number)
    snapshots.store_of(workspace).restore(target.tree_hex, tree, journal=snapshots.journal_of(workspace))
    Workspace.objects.filter(pk=workspace.pk).update(base=base)
