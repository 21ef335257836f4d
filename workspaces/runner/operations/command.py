"""Run a command under its own shim."""

from functools import partial

from django.utils.dateparse import parse_datetime

from dashboard.database import clock
from workspaces import lifecycle
from workspaces.lifecycle import activity
from workspaces.models import Command, ReasonCode, Run, State
from workspaces.runner import programs
from workspaces.runner.job import Kind
from workspaces.runner.reconcile import unseen
from workspaces.runner.refusals import Refused


class RunCommand(Kind):
    """Run one program to completion, at most once."""

    is_useful = True  # its first success sets the Run's first_useful_at
    is_asked = True  # by somebody, not by the workspace's own start

    async def perform(self, job):
        command = await job.thread(Command.objects.get, operation=job.operation.pk)
        if command.cancelled_at:
            raise Refused("Cancelled before it started.", ReasonCode.CANCELLED)
        alive = await unseen.resume_first(job) if self.is_asked else None
        if alive is None:
            await job.require(State.READY)
        how = {"cwd": command.cwd, "env": command.env, "timeout_s": command.timeout_s or None}
        how |= {"envelope": command.envelope, "alive": alive}
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
        programs.no_longer_led_on(job)
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
