"""Snapshots by time in long runs: what an agent did for hours is kept, also where nothing asked before it was done."""

from datetime import timedelta

from django.conf import settings
from django.db.models import F, Q

from dashboard import clock
from dashboard.models import Actor
from workspaces import effects, lifecycle
from workspaces.models import Effect, State, Workspace

BY = Actor.system("clock")
KIND = "periodic"


def sweep(runner):
    """Ask for one of each workspace that is up, was used since its newest snapshot, and has none of late."""
    if not settings.HANDRAIL_SNAPSHOT_SECONDS:
        return
    now, every = clock.now(), settings.HANDRAIL_SNAPSHOT_SECONDS
    up = Workspace.objects.kept().filter(runner=runner, state=State.READY, head__isnull=False)
    due = up.filter(head__created_at__lt=now - timedelta(seconds=every))
    used = due.filter(Q(last_active_at__gt=F("head__created_at")))
    busy = Effect.objects.open().filter(exclusive=True).values("workspace")
    for workspace in used.exclude(pk__in=busy):
        # One that fails (a secret stands in a file) is tried again when the time has passed once more.
        effects.submit(
            f"{lifecycle.KINDS}.snapshot",
            workspace=workspace,
            by=BY,
            args={"kind": KIND, "label": "by time"},
            exclusive=True,
            dedupe=f"periodic:{workspace.pk}:{int(now.timestamp()) // every}",
        )
