"""Pause a workspace."""

from workspaces.models import EndCode, State
from workspaces.runner.steps.shutdown import EndRun, pause_run


class Pause(EndRun):
    state, verb, end_code = State.PAUSED, "workspace.paused", EndCode.PAUSED

    async def end(self, job) -> str:
        return await pause_run(job)
