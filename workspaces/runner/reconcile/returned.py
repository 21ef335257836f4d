"""Of a host that was declared lost and is back: end what others lead since, and keep its files aside.

HANDRAIL_HOME/quarantine/returned-WORKSPACE has them, for 30 days or until a person has answered. The host gets
workspaces again once all is aside.
"""

import logging
import os
import time
from pathlib import Path
from uuid import UUID

from django.conf import settings

from dashboard.models import Actor, Team
from workspaces import lifecycle
from workspaces.drivers import lead_epochs
from workspaces.host.quarantine import KEPT
from workspaces.models import Run, Runner, Workspace
from workspaces.runner import removing

logger = logging.getLogger("handrail.runner")
RUNNER = Actor.system("runner")
PREFIX = "returned-"


def folder_of(workspace_id) -> Path:
    return settings.HANDRAIL_HOME / "quarantine" / f"{PREFIX}{workspace_id}"


async def sweep(daemon):
    """End and put aside what this host has of workspaces that it does not lead, if it was declared lost.

    What another host has taken over goes on.
    """
    await daemon.thread(_forget_old, daemon.row)
    if not await daemon.thread(Runner.objects.filter(pk=daemon.row.pk, lost_at__isnull=False).exists):
        return
    others = {str(each.pk): each for each in await daemon.thread(_led_by_others, daemon.row)}
    for driver in await daemon.drivers_here():
        for owner in await driver.records():
            if owner.workspace_id not in others:
                continue
            if await daemon.thread(_goes_on, owner.run_id):
                await driver.let_go(owner)
            else:
                await driver.stop(owner, grace_s=0.0)
                await driver.clear(owner)
    for workspace in others.values():
        async with daemon.tree_lock(workspace.pk):
            await daemon.thread(_put_aside, workspace, daemon.row)
    await daemon.thread(Runner.objects.filter(pk=daemon.row.pk).update, lost_at=None)
    logger.warning("this host was declared lost and is back; files of %d workspaces are aside", len(others))


def _led_by_others(row: Runner) -> list[Workspace]:
    """Return the workspaces that have a folder here and are led by another runner, or by none."""
    names = [path.name for path in (settings.HANDRAIL_HOME / "workspaces").glob("*") if _is_uuid(path.name)]
    return list(Workspace.objects.filter(pk__in=names).exclude(runner=row))


def _goes_on(run_id: str) -> bool:
    """Return whether another host has taken over a Run that this one started."""
    return _is_uuid(run_id) and Run.objects.filter(pk=run_id, ended_at=None).exists()


def _put_aside(workspace: Workspace, row: Runner):
    lead_epochs.take(settings.HANDRAIL_HOME, str(workspace.pk), workspace.lead_epoch)
    aside = folder_of(workspace.pk)
    aside.parent.mkdir(mode=0o700, exist_ok=True)
    removing.remove(aside)
    (settings.HANDRAIL_HOME / "workspaces" / str(workspace.pk)).rename(aside)
    os.utime(aside)
    with Team.objects.turn(workspace.team_id):
        known = Workspace.objects.locked().get(pk=workspace.pk)
        if known.owed.get("host") == row.host:
            Workspace.objects.filter(pk=known.pk).update(owed=known.owed | {"found": True})
            data = {
                "host": row.host,
                "reason": f"Files of {known.key} are on {row.host}, as they were when it was lost.",
            }
            lifecycle.record(known, RUNNER, "workspace.returned", data)


def _forget_old(row: Runner):
    """Remove what nobody has answered for 30 days; nothing is owed then."""
    for aside in (settings.HANDRAIL_HOME / "quarantine").glob(f"{PREFIX}*"):
        if time.time() - aside.stat().st_mtime > KEPT.total_seconds():
            removing.remove(aside)
            workspace = Workspace.objects.filter(pk=aside.name.removeprefix(PREFIX)).first()
            if workspace is not None and workspace.owed.get("host") == row.host:
                Workspace.objects.filter(pk=workspace.pk).update(owed={})


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
