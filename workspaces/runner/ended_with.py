"""Whether a program whose end nobody saw ended together with its Run, and why that ended."""

import asyncio

from workspaces.drivers.base import BackendLost, DriverError
from workspaces.models import EndCode, Run
from workspaces.operations import endings

# Kinds of programs whose end with the Run is told by the end of that; an approved call has an outcome of its own.
TOLD_BY_THE_RUN = ("command", "maintain", "service", "terminal")
LOOKS, PAUSE_S = 20, 0.1  # a killed Run is seen to be gone a moment after its programs


async def its_run(job, owner) -> str:
    """Return why the Run of the job's program ended, as a sentence; "" if the Run goes on, or nobody can tell."""
    if owner is None:
        run = await job.thread(_last_run, job.workspace)
        return endings.sentence(run.end_code, run.end_reason) if run and run.end_code in endings.BY_ITSELF else ""
    try:
        for _ in range(LOOKS):
            if not await job.driver.alive(owner):
                code = EndCode(await job.driver.end_reason(owner))
                return endings.sentence(code, await endings.reason_of(code, job.driver, owner))
            await asyncio.sleep(PAUSE_S)
    except BackendLost as error:
        job.daemon.probes.due.set()
        return f"It ended with its workspace. {error}"
    except DriverError as error:
        return endings.sentence(EndCode.UNKNOWN, str(error))
    return ""


def _last_run(workspace) -> Run | None:
    return Run.objects.filter(workspace=workspace.pk, ended_at__isnull=False).order_by("-ended_at").first()
