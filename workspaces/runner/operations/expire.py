"""Delete what retention expires in a workspace that stays: the agent's home and the output of old programs."""

import shutil
from pathlib import Path

from dashboard.database import clock
from workspaces import lifecycle
from workspaces.host import paths
from workspaces.models import Command, State, Terminal, Workspace
from workspaces.programs import kept_recordings
from workspaces.runner.job import Kind

ASLEEP = (State.PAUSED, State.STOPPED, State.FAILED)


class Expire(Kind):
    """Empty the agent's home and delete program folders.

    args: {home: bool, programs: [operation ids]}. Exclusive, so nothing starts meanwhile; idempotent.
    """

    stored = "forget"

    async def perform(self, job):
        workspace = await job.refresh()
        await job.mark_started()
        home = bool(job.args.get("home")) and workspace.state in ASLEEP
        if home:
            await job.thread(_empty, paths.folder_of(workspace.pk) / "home")
        for program in job.args["programs"]:
            await job.thread(kept_recordings.remove, workspace.pk, program)
        return {"ok": True, "home": home}

    def finish(self, job, outcome):
        if not outcome["ok"]:
            return
        now, programs = clock.now(), job.args["programs"]
        if outcome["home"]:
            Workspace.objects.filter(pk=job.workspace.pk).update(home_swept_at=now)
        for model in (Command, Terminal):
            model.objects.filter(workspace=job.workspace.pk, operation__in=programs).update(swept_at=now)
        data = {"home": outcome["home"], "outputs": len(programs)}
        lifecycle.record(job.workspace, job.by, "workspace.forgot", data)


def _empty(folder: Path):
    """Empty a folder but keep the folder itself: the driver set its owner and mode."""
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
