"""Install an agent's program on this host, because a lead asked for it."""

import asyncio
from functools import partial

from workspaces import operations
from workspaces.provisioning import agent_programs
from workspaces.runner.job import Kind
from workspaces.services import agent_installs


class InstallAgent(Kind):
    """Install a program from npm; args: {program}. Performing it again after a crash is safe: nothing half stays."""

    when_cancelled = "Nothing was installed."

    async def perform(self, job):
        await job.mark_started()
        await job.progress(step="npm", bytes=0)
        install = partial(agent_programs.install, cancel=job.cancel, report=partial(_report, job))
        try:
            folder = await job.thread(install, job.args["program"])
        except asyncio.CancelledError:
            job.cancel.set()  # the runner stops; the next one begins again
            raise
        return {"ok": True, "program": job.args["program"], "folder": str(folder)}

    def finish(self, job, outcome):
        agent_installs.finish(job.operation, outcome, by=job.by)


def _report(job, written: int):
    operations.record_progress(job.operation, job.operation.progress | {"bytes": written})
