"""Give programs of a Run that this host has taken over a shim here, which records all that they print.

Repeated, it finds what it has done before: a shim of an earlier attempt ends with the connection of that attempt.
"""

import asyncio
import shutil
from pathlib import Path

from django.conf import settings

from dashboard.keys.keyring import Unreadable
from workspaces.drivers.base import DriverError, RunRecord
from workspaces.host import paths, program_leads
from workspaces.lifecycle import led_on
from workspaces.models import ProgramLead
from workspaces.shim import client
from workspaces.shim.pool import REDACTION
from workspaces.shim.record import Handed, ShimSpec

ENDS_S = 15.0  # how long a shim may take to find out that its connection is gone


async def adopt_all(job, owner: RunRecord) -> list[str]:
    """Adopt the programs that wait for this host, and end the others that the former host listened to.

    Return the operations of those that go on, as text. Raise DriverError if the Run cannot be reached.
    """
    waiting = await job.thread(led_on.waiting, owner.run_id)
    found = await asyncio.gather(*(_adopt(job, row, owner) for row in waiting))
    await job.driver.end_unadopted(owner)
    return [str(row.pk) for row, is_adopted in zip(waiting, found, strict=True) if is_adopted]


async def _adopt(job, row: ProgramLead, owner: RunRecord) -> bool:
    """Start a shim for a program that has none here; return whether it is recorded."""
    folder = paths.program_of(job.workspace.pk, row.pk)
    if await job.thread(folder.exists):
        end = (await client.wait(folder, ENDS_S)).exit
        if end is not None and end.reason != "lost":
            return True
        await job.thread(shutil.rmtree, folder)
    try:
        spec, handed = await job.thread(_shim_of, row, owner)
        await client.start(folder, spec, handed)
    except (DriverError, Unreadable):
        pass
    return await _is_recorded(job, folder)


async def _is_recorded(job, folder: Path) -> bool:
    """Return whether a shim records the program, or has recorded its end; without one, its folder is removed."""
    found = await job.thread(client.status, folder)
    if found.state == "running" or (found.exit is not None and found.exit.reason != "lost"):
        return True
    await job.thread(shutil.rmtree, folder, ignore_errors=True)
    return False


def _shim_of(row: ProgramLead, owner: RunRecord) -> tuple[ShimSpec, Handed]:
    led = program_leads.read(row)
    spec = ShimSpec(
        address=owner.address,
        cap_bytes=settings.HANDRAIL_OUTPUT_BYTES,
        kept_as=str(row.pk),
        began_at=row.operation.started_at.isoformat(timespec="milliseconds"),
        **led.fields | {"argv": tuple(led.fields["argv"])},
    )
    return spec, Handed(hidden=led.hidden, packages=REDACTION)
