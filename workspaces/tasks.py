"""What the queue runs now and then; each may run later, twice or again."""

import logging

from workspaces import retention, upkeep
from workspaces.models import Upkeep, Work

logger = logging.getLogger("handrail.tasks")


def sweep_retention():
    retention.sweep()


def collect_garbage():
    for row in upkeep.in_turn(Work.COLLECT):
        logger.info("garbage collection of %s: ok=%s", row.team.slug, row.ok)


def verify_stores(full: bool = False):
    """Check each team's store; what is damaged is an event, and stands on the Desk until a check finds it mended."""
    for row in upkeep.in_turn(Work.CHECK, full=full):
        logger.info("check of %s: ok=%s", row.team.slug, row.ok)


def look_after(pk: str, number: int):
    """What a person has asked for; a round that was asked for again meanwhile is left to that."""
    for row in Upkeep.objects.filter(pk=pk, round=number, ended_at=None, started_at=None):
        upkeep.carry_out(row)
