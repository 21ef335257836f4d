"""Programs that sleep with the memory of their Run: told when it is kept, woken when it goes on, ended when it is gone.

Their host processes wait meanwhile (hosts/sleep.py), and the effects that asked for them stay open.
"""

import logging
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from django.db.models import Q

from workspaces import places
from workspaces.drivers.base import Address, DriverError
from workspaces.hosts import client
from workspaces.hosts.folder import read_spec
from workspaces.models import Effect, Phase, Run, State, Terminal, Workspace

logger = logging.getLogger("handrail.runner")
OF_PROGRAMS = Q(command__isnull=False) | Q(terminal__isnull=False)


async def doze(job) -> None:
    """The memory is about to be kept."""
    await _tell(job, {"op": "doze"})


async def fall_asleep(job) -> None:
    """It was kept, and the Run is gone."""
    await _tell(job, {"op": "asleep"})


async def wake(job, run: Run, address: Address) -> None:
    """A Run goes on from their memory; nothing in it moves yet."""
    await _tell(job, {"op": "wake", "address": asdict(address)})
    terminals = Terminal.objects.filter(workspace=job.workspace.pk, effect__phase=Phase.STARTED)
    await job.thread(terminals.update, run=run)


async def forget(job, why: str) -> None:
    """Their memory was not used, or is gone."""
    await _tell(job, {"op": "forget", "why": why})


async def _tell(job, request: dict) -> None:
    for folder in await job.thread(_folders, job.workspace.pk):
        try:
            await client.tell(folder, request)
        except DriverError as error:  # an older host, or one that is stuck: what it shows later is true for it
            logger.warning("a program of %s did not hear %s: %s", job.workspace.key, request["op"], error)


def _folders(workspace_id) -> list[Path]:
    """Those of the programs whose host lives."""
    under_way = Effect.objects.filter(OF_PROGRAMS, workspace=workspace_id, phase=Phase.STARTED)
    found = [places.program_of(workspace_id, pk) for pk in under_way.values_list("pk", flat=True)]
    return [folder for folder in found if client.status(folder).state == "running"]


async def sweep(daemon) -> None:
    """Programs that sleep although nothing is kept of them, or what was kept is in use: a crash came between."""
    started = Effect.objects.filter(OF_PROGRAMS, phase=Phase.STARTED, runner=daemon.row)
    for workspace_id in await daemon.thread(lambda: set(started.values_list("workspace", flat=True))):
        for folder in await daemon.thread(_folders, workspace_id):
            with suppress(DriverError):
                asleep = (await client.tell(folder, {"op": "status"})).get("asleep")
                if asleep and (why := await daemon.thread(_why_never, workspace_id, folder)):
                    await client.tell(folder, {"op": "forget", "why": why})


def _why_never(workspace_id, folder: Path) -> str:
    """Why what sleeps there will not go on; "" while it may, or while something is being done about it."""
    kept = Path(read_spec(folder).address.memory_file).exists()
    # After that: a resume that has used it has woken the program when it is over.
    if Effect.objects.open().filter(workspace=workspace_id, exclusive=True).exists():
        return ""
    if not kept:
        return "its memory is gone."
    asleep = Workspace.objects.filter(pk=workspace_id, state=State.PAUSED).exists()
    return "" if asleep else "it was not found again when the workspace woke."
