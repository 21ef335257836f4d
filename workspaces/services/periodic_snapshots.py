"""Periodic snapshots, so that hours of an agent's work are saved even if no action asked for one."""

from datetime import timedelta

from django.conf import settings
from django.db.models import F, Q

from dashboard import clock
from dashboard.models import Actor
from workspaces import operations
from workspaces.models import Operation, State, Workspace

BY = Actor.system("clock")
KIND = "periodic"


def sweep(runner):
    """Submit a snapshot of each workspace that is up, has no recent one and was used since its newest."""
    if not settings.HANDRAIL_SNAPSHOT_SECONDS:
        return
    now, every = clock.now(), settings.HANDRAIL_SNAPSHOT_SECONDS
    up = Workspace.objects.kept().filter(runner=runner, state=State.READY, head__isnull=False)
    due = up.filter(head__created_at__lt=now - timedelta(seconds=every))
    used = due.filter(Q(last_active_at__gt=F("head__created_at")))
    busy = Operation.objects.open().filter(exclusive=True).values("workspace")
    for workspace in used.exclude(pk__in=busy):
        # A failed one (for example because a file contains a secret) is retried after the next interval.
        operations.submit(
            "snapshot",
            workspace=workspace,
            by=BY,
            args={"kind": KIND, "label": "by time"},
            exclusive=True,
            dedupe=f"periodic:{workspace.pk}:{int(now.timestamp()) // every}",
        )
