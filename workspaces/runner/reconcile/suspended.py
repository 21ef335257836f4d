"""Tell the shims of suspended programs when their Run's memory is kept, resumed or discarded.

The shims wait meanwhile (shim/suspend.py), and the operations of their programs stay open.
"""

import logging
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from django.db.models import Q

from workspaces.drivers.base import Address, DriverError
from workspaces.host import paths
from workspaces.models import Operation, Phase, Run, State, Terminal, Workspace
from workspaces.shim import client
from workspaces.shim.record import read_spec

logger = logging.getLogger("handrail.runner")
OF_PROGRAMS = Q(command__isnull=False) | Q(terminal__isnull=False)


async def announce(job) -> None:
    """Announce that the memory is about to be kept."""
    await _request(job, {"op": "suspend"})


async def confirm(job) -> None:
    """Announce that the memory was kept and the Run has ended."""
    await _request(job, {"op": "suspended"})


async def resume(job, run: Run, address: Address) -> None:
    """Announce a Run resumed from kept memory, whose programs are still frozen; attach its terminals to it."""
    await _request(job, {"op": "resume", "address": asdict(address)})
    terminals = Terminal.objects.filter(workspace=job.workspace.pk, operation__phase=Phase.STARTED)
    await job.thread(terminals.update, run=run)


async def discard(job, why: str) -> None:
    """Announce that the memory was not used or is gone."""
    await _request(job, {"op": "discard", "why": why})


async def _request(job, request: dict) -> None:
    for folder in await job.thread(_folders, job.workspace.pk):
        try:
            await client.request(folder, request)
        except DriverError as error:  # a stuck shim; what it reports later stays valid
            logger.warning("a program of %s did not answer %s: %s", job.workspace.key, request["op"], error)


def _folders(workspace_id) -> list[Path]:
    """Return the program folders whose shim is alive."""
    under_way = Operation.objects.filter(OF_PROGRAMS, workspace=workspace_id, phase=Phase.STARTED)
    found = [paths.program_of(workspace_id, pk) for pk in under_way.values_list("pk", flat=True)]
    return [folder for folder in found if client.status(folder).state == "running"]


def started(runner):
    """Return the operations of programs on this host that have started and are not over."""
    return Operation.objects.filter(OF_PROGRAMS, phase=Phase.STARTED, runner=runner)


async def sweep(daemon) -> None:
    """End suspended programs whose memory is gone or was not used; a crash can leave such programs."""
    rows = started(daemon.row).values_list("workspace", flat=True)
    for workspace_id in await daemon.thread(lambda: set(rows)):
        for folder in await daemon.thread(_folders, workspace_id):
            with suppress(DriverError):
                is_suspended = (await client.request(folder, {"op": "status"}))["suspended"]
                if is_suspended and (why := await daemon.thread(_why_never, workspace_id, folder)):
                    await client.request(folder, {"op": "discard", "why": why})


def _why_never(workspace_id, folder: Path) -> str:
    """Return why a suspended program will never resume; "" while it may, or while an operation is working on it."""
    kept = Path(read_spec(folder).address.memory_file).exists()
    # Checked after the file: a resume that uses the memory wakes the program before the operation is over.
    if Operation.objects.open().filter(workspace=workspace_id, exclusive=True).exists():
        return ""
    if not kept:
        return "its memory is gone."
    is_paused = Workspace.objects.filter(pk=workspace_id, state=State.PAUSED).exists()
    return "" if is_paused else "it was not found when the workspace resumed."
