"""Commands and terminals: programs under a host process of their own."""

from django.utils.dateparse import parse_datetime

from dashboard import clock
from workspaces import activity, lifecycle
from workspaces.drivers.base import DriverError
from workspaces.models import Command, Run, State, Terminal
from workspaces.runner import programs
from workspaces.runner.job import Kind


class RunCommand(Kind):
    """Run one program to its end, at most once."""

    async def perform(self, job):
        workspace = await job.refresh()
        command = await job.thread(Command.objects.get, effect=job.effect.pk)
        if command.cancelled_at:
            return {"ok": False, "reason": "It was cancelled before it began."}
        if workspace.state != State.READY:
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        await job.thread(self._begins, job, command)
        try:
            timeout_s = command.timeout_s or None
            return await job.run_program(command.argv, cwd=command.cwd, env=command.env, timeout_s=timeout_s)
        except DriverError as error:
            return {"ok": False, "reason": str(error)}

    async def recover(self, job):
        await job.refresh()
        found = await job.find_program()
        return found if found is not None else await self.perform(job)

    def _begins(self, job, command):
        run = Run.objects.filter(workspace=job.workspace, ended_at=None).first()
        Command.objects.filter(pk=command.pk).update(started_at=clock.now(), run=run)
        self._counts(job)

    def _counts(self, job):
        """A command is activity when it begins and when it ends."""
        activity.touch(job.workspace)

    def finish(self, job, outcome):
        command = Command.objects.get(effect=job.effect.pk)
        told = outcome if "exit_status" in outcome else {}
        command.exit_status, command.signal = told.get("exit_status"), told.get("signal")
        command.output_bytes, command.truncated = told.get("output_bytes", 0), told.get("truncated", False)
        command.started_at = _moment(told.get("started_at")) or command.started_at
        command.ended_at = _moment(told.get("ended_at")) or clock.now()
        command.save(update_fields=["exit_status", "signal", "output_bytes", "truncated", "started_at", "ended_at"])
        if command.exit_status == 0:
            Run.objects.filter(pk=command.run_id, first_useful_at=None).update(first_useful_at=command.ended_at)
        self._counts(job)
        verb = "command.unclear" if outcome.get("uncertain") else "command.ended"
        data = {"exit_status": command.exit_status, "signal": command.signal, "reason": outcome.get("reason", "")[:500]}
        lifecycle.record(job.workspace, job.by, verb, data, subject=command)


def _moment(text):
    return parse_datetime(text) if isinstance(text, str) else None


class RunService(RunCommand):
    """A program of the environment that is there whenever the workspace is up; workspaces/runner/services.py asks."""

    def _counts(self, job):
        pass  # it keeps nothing awake


class RunTerminal(Kind):
    """A program on a pty; it goes on until it ends, whoever looks."""

    async def perform(self, job):
        workspace = await job.refresh()
        terminal = await job.thread(Terminal.objects.get, effect=job.effect.pk)
        if workspace.state != State.READY:
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        run = await job.open_run()
        await job.thread(Terminal.objects.filter(pk=terminal.pk).update, run=run)
        try:
            return await programs.run(
                job,
                terminal.argv,
                cwd="/workspace",
                env={"TERM": "xterm-256color"},
                timeout_s=None,
                pty=True,
                cols=terminal.cols,
                rows=terminal.rows,
            )
        except DriverError as error:
            return {"ok": False, "reason": str(error)}

    async def recover(self, job):
        await job.refresh()
        found = await job.find_program()
        return found if found is not None else await self.perform(job)

    def finish(self, job, outcome):
        terminal = Terminal.objects.get(effect=job.effect.pk)
        terminal.exit_status = outcome.get("exit_status")
        terminal.bytes = outcome.get("output_bytes", 0)
        terminal.ended_at = clock.now()
        terminal.save(update_fields=["exit_status", "bytes", "ended_at"])
        data = {"exit_status": terminal.exit_status, "reason": outcome.get("reason", "")[:500]}
        lifecycle.record(job.workspace, job.by, "terminal.ended", data, subject=terminal)
