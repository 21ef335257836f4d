"""Run commands, services and terminals, each under its own shim."""

import stat
from functools import partial

from django.utils.dateparse import parse_datetime

from dashboard.database import clock
from workspaces import lifecycle
from workspaces.lifecycle import activity
from workspaces.models import Command, ReasonCode, Run, State, Terminal, Workspace
from workspaces.provisioning.scripts import shell_words
from workspaces.runner import programs
from workspaces.runner.job import Kind
from workspaces.runner.reconcile import unseen
from workspaces.runner.refusals import Refused
from workspaces.services import commands


class RunCommand(Kind):
    """Run one program to completion, at most once."""

    is_useful = True  # its first success sets the Run's first_useful_at
    is_asked = True  # by somebody, not by the workspace's own start

    async def perform(self, job):
        command = await job.thread(Command.objects.get, operation=job.operation.pk)
        if command.cancelled_at:
            raise Refused("Cancelled before it started.", ReasonCode.CANCELLED)
        if self.is_asked:
            await unseen.resume_first(job)
        await job.require(State.READY)
        how = {"cwd": command.cwd, "env": command.env, "timeout_s": command.timeout_s or None}
        how["envelope"] = command.envelope
        return await job.run_program(command.argv, **how, begins=partial(self._begins, job, command))

    async def recover(self, job):
        await job.refresh()
        found = await job.find_program()
        return found if found is not None else await self.perform(job)

    def _begins(self, job, command):
        run = Run.objects.filter(workspace=job.workspace, ended_at=None).values("pk")[:1]
        Command.objects.filter(pk=command.pk).update(started_at=clock.now(), run=run)
        self._counts(job)

    def _counts(self, job):
        """Count as activity, both when the command starts and when it ends."""
        activity.touch(job.workspace)

    def finish(self, job, outcome):
        command = Command.objects.get(operation=job.operation.pk)
        told = outcome if "exit_status" in outcome else {}
        command.exit_status, command.signal = told.get("exit_status"), told.get("signal")
        command.output_bytes, command.truncated = told.get("output_bytes", 0), told.get("truncated", False)
        command.started_at = _moment(told.get("started_at")) or command.started_at
        command.ended_at = _moment(told.get("ended_at")) or clock.now()
        command.blocked = told.get("blocked", [])
        ended = ["exit_status", "signal", "output_bytes", "truncated", "started_at", "ended_at", "blocked"]
        command.save(update_fields=ended)
        if command.exit_status == 0 and self.is_useful:
            Run.objects.filter(pk=command.run_id, first_useful_at=None).update(first_useful_at=command.ended_at)
        self._counts(job)
        verb = "command.unclear" if outcome.get("uncertain") else "command.ended"
        data = {"exit_status": command.exit_status, "signal": command.signal, "reason": outcome.get("reason", "")[:500]}
        data |= {"held": True} if told.get("held") else {}
        lifecycle.record(job.workspace, job.by, verb, data, subject=command)


def _moment(text):
    return parse_datetime(text) if isinstance(text, str) else None


class Maintain(RunCommand):
    """Run the environment's maintenance script after a resume. Operations submitted meanwhile wait until it ends."""

    is_useful = is_asked = False

    def finish(self, job, outcome):
        super().finish(job, outcome)
        if outcome.get("exit_status") == 0:
            return
        how = outcome.get("words") or outcome.get("reason") or "it did not run"
        how += shell_words(outcome.get("exit_status"))
        words = f"The maintenance script failed ({how}). Its output is under Commands."
        Workspace.objects.filter(pk=job.workspace.pk, state=State.READY, reason="").update(reason=words)
        lifecycle.record(job.workspace, job.by, "workspace.maintenance_failed", {"reason": how[:1000]})


class RunService(RunCommand):
    """Run a service of the environment while the workspace is up; submitted by reconcile/services.py."""

    is_asked = False

    def _counts(self, job):
        pass  # a service does not keep its workspace from an idle pause


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
        await unseen.resume_first(job)
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
            begins=partial(Terminal.objects.filter(pk=terminal.pk).update, run=run),
        )

    async def recover(self, job):
        await job.refresh()
        found = await job.find_program()
        return found if found is not None else await self.perform(job)

    def finish(self, job, outcome):
        terminal = Terminal.objects.get(operation=job.operation.pk)
        terminal.exit_status = outcome.get("exit_status")
        terminal.bytes = outcome.get("output_bytes", 0)
        terminal.blocked = outcome.get("blocked", [])
        terminal.ended_at = clock.now()
        terminal.save(update_fields=["exit_status", "bytes", "blocked", "ended_at"])
        data = {"exit_status": terminal.exit_status, "reason": outcome.get("reason", "")[:500]}
        data |= {"held": True} if outcome.get("held") else {}
        lifecycle.record(job.workspace, job.by, "terminal.ended", data, subject=terminal)
