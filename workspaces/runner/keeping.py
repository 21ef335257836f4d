"""Copy the recordings of ended programs into HANDRAIL_BUCKET, one after the other, beside all other work."""

import asyncio
import logging
from pathlib import Path

from django.conf import settings

from workspaces.host import paths
from workspaces.models import Operation, Runner
from workspaces.programs import kept_recordings
from workspaces.store import StoreError

logger = logging.getLogger("handrail.runner")
AGAIN_S = 30.0  # after the bucket did not take one


class Keeping:
    """What is to be copied. A copy that fails is tried again; what a runner left to do, the next one finds."""

    def __init__(self, daemon):
        self._daemon = daemon
        self._waiting: asyncio.Queue[Path] = asyncio.Queue()

    def ended(self, operation: Operation):
        """Note that an operation is over, which may have run a program."""
        if settings.HANDRAIL_BUCKET and operation.workspace_id:
            self._waiting.put_nowait(paths.program_of(operation.workspace_id, operation.pk))

    async def forever(self):
        if not settings.HANDRAIL_BUCKET:
            return
        for folder in await self._daemon.thread(_left_to_do):
            self._waiting.put_nowait(folder)
        while True:
            folder = await self._waiting.get()
            try:
                await self._daemon.thread(_keep, folder, self._daemon.row)
            except (StoreError, OSError) as error:
                logger.warning("the recording of %s is not in the bucket yet: %s", folder.name, error)
                self._waiting.put_nowait(folder)
                await asyncio.sleep(AGAIN_S)


def _left_to_do() -> list[Path]:
    ended = settings.HANDRAIL_HOME.glob("workspaces/*/programs/*/exit.json")
    return [found.parent for found in ended if kept_recordings.is_missing(found.parent)]


def _keep(folder: Path, row: Runner):
    if kept_recordings.is_missing(folder) and not _went_on_elsewhere(folder, row):
        kept_recordings.keep(folder)


def _went_on_elsewhere(folder: Path, row: Runner) -> bool:
    """Return whether another host went on with the program after this one was lost, and recorded all of it."""
    others = Operation.objects.exclude(runner=row).filter(runner__isnull=False)
    return others.filter(pk=folder.name).exists()
