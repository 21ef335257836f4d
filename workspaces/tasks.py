"""What the queue runs now and then; each may run later, twice or again."""

import logging

from dashboard.models import Actor, Event, Team
from workspaces import places, retention
from workspaces.store import Store

logger = logging.getLogger("handrail.tasks")


def sweep_retention():
    retention.sweep()


def collect_garbage():
    for slug, report in retention.collect_garbage().items():
        logger.info("garbage collection of %s: %s", slug, report)


def verify_stores(full: bool = False):
    """Check each team's store; what is damaged is an event, so that the Desk shows it."""
    for team in Team.objects.all():
        path = places.store_of(team.pk)
        if not path.exists():
            continue
        report = Store.open(path).verify(full=full)
        if not report.ok:
            data = {"problems": [str(problem) for problem in report.problems[:50]]}
            Event.objects.record(team, actor=Actor.system("verify"), verb="store.damaged", subject=team, data=data)
        logger.info("store of %s: %s", team.slug, report)
