"""Periodic snapshots, so that hours of an agent's work are saved even if no action asked for one."""

from datetime import timedelta

from django.conf import settings
from django.db.models import F, Q

from dashboard.database import clock
from dashboard.models import Actor
from workspaces import operations
from workspaces.models import Operation, State, Workspace

BY = Actor.system("clock")
KIND = "periodic"


def due(runner):
    """Return the runner's workspaces that are up, have no recent snapshot and were used since their newest."""
    if not settings.HANDRAIL_SNAPSHOT_SECONDS:
        return Workspace.objects.none()
    up = Workspace.objects.kept().filter(runner=runner, state=State.READY, head__isnull=False)
    old = up.filter(head__created_at__lt=clock.now() - timedelta(seconds=settings.HANDRAIL_SNAPSHOT_SECONDS))
    busy = Operation.objects.open().filter(exclusive=True).values("workspace")
    return old.filter(Q(last_active_at__gt=F("head__created_at"))).exclude(pk__in=busy)


def sweep(runner):
    """Submit a snapshot of each workspace that is due for one."""
    now, every = clock.now(), settings.HANDRAIL_SNAPSHOT_SECONDS
    for workspace in due(runner):
        # A failed one (for example because a file contains a secret) is retried after the next interval.
        operations.submit(
            "snapshot",
            workspace=workspace,
            by=BY,
            args={"kind": KIND, "label": "by time"},
            exclusive=True,
            dedupe=f"periodic:{workspace.pk}:{int(now.timestamp()) // every}",
        )
