"""Context for the policy: the files that earlier calls of the workspace downloaded."""

from datetime import timedelta

from django.utils import timezone

from approvals.models import Revision, Status

MAX_CALLS = 60
REMEMBERED = timedelta(hours=24)
NEVER_RAN = (Status.PENDING, Status.DENIED, Status.CANCELLED, Status.EXPIRED)


def downloads_for(commands: list, workspace) -> dict:
    """Return {"downloaded": {path: host}} if the entries of a first verdict run something, {} if there is nothing."""
    if not any(step.get("runs") for step in commands):
        return {}
    recent = Revision.objects.filter(
        action__workspace_id=workspace.pk, action__tool="Bash", action__created_at__gt=timezone.now() - REMEMBERED
    ).exclude(action__status__in=NEVER_RAN)
    latest = recent.order_by("-pk").values_list("commands", flat=True)[:MAX_CALLS]
    found = {path: host for steps in latest for step in steps for path, host in step.get("brings", {}).items()}
    return {"downloaded": found} if found else {}
