"""Run a terminal under its own shim."""

import stat
from functools import partial

from dashboard.database import clock
from workspaces import lifecycle
from workspaces.models import State, Terminal
from workspaces.runner import programs
from workspaces.runner.job import Kind
from workspaces.runner.reconcile import unseen
from workspaces.services import commands


async def _starts_in(job) -> str:
    """Return the working directory of the environment; /workspace if the workspace has no such folder (any more)."""
    wanted = commands.working_directory(job.workspace.environment)
    if wanted == commands.WORKSPACE:
        return wanted
    is_folder = await job.thread(_is_folder, await job.readable_tree(), job.workspace.environment.working_directory)
    return wanted if is_folder else commands.WORKSPACE


def _is_folder(tree, path: str) -> bool:
    try:
        with tree.files() as files:
            return stat.S_ISDIR(files.stat(path.encode()).st_mode)
    except OSError:
        return False


class RunTerminal(Kind):
    """Run a program on a pty until it exits, with or without viewers."""

    async def perform(self, job):
        alive = await unseen.resume_first(job)
        if alive is None:
            await job.require(State.READY)
        terminal = await job.thread(Terminal.objects.get, operation=job.operation.pk)
        run = await job.open_run()
        return await programs.run(
            job,
            terminal.argv,
            cwd=await _starts_in(job),
            env={"TERM": "xterm-256color"},
            timeout_s=None,
            pty=True,
            cols=terminal.cols,
            rows=terminal.rows,
            envelope=terminal.envelope,
            alive=alive,
            begins=partial(Terminal.objects.filter(pk=terminal.pk).update, run=run),
        )

    async def recover(self, job):
        await job.refresh()
        found = await job.find_program()
        return found if found is not None else await self.perform(job)

    def finish(self, job, outcome):
        programs.no_longer_led_on(job)
        terminal = Terminal.objects.get(operation=job.operation.pk)
        terminal.exit_status = outcome.get("exit_status")
        terminal.bytes = outcome.get("output_bytes", 0)
        terminal.blocked = outcome.get("blocked", [])
        terminal.ended_at = clock.now()
        terminal.save(update_fields=["exit_status", "bytes", "blocked", "ended_at"])
        data = {"exit_status": terminal.exit_status, "reason": outcome.get("reason", "")[:500]}
        data |= {"held": True} if outcome.get("held") else {}
        lifecycle.record(job.workspace, job.by, "terminal.ended", data, subject=terminal)
