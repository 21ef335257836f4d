"""Volumes that outlive the Runs of a workspace: they go when its files leave, and at the latest when it is deleted."""

import logging

from workspaces.drivers.base import DriverError

logger = logging.getLogger("handrail.runner")


async def remove_volumes(job, *, everywhere: bool = True, must: bool = False):
    """Remove the volumes of a workspace that is down; without `everywhere` those that this host has made.

    `must`: raise DriverError if the backend of its environment refuses or does not answer, which else is logged.
    """
    workspace = job.workspace
    for driver in await job.daemon.drivers_here():
        try:
            await driver.remove_volumes(str(workspace.pk), workspace.team.slug, everywhere=everywhere)
        except DriverError as error:
            if must and driver.name == workspace.environment.driver:
                raise
            logger.warning("volumes of %s are left: %s", workspace.key, error)
