"""What a person has reviewed of a workspace's changes, and what can be compared with it."""

from dashboard.database import clock
from workspaces.changes.comparisons import Comparison
from workspaces.models import SeenFile, Workspace

MAX_OTHERS = 200  # workspaces that a page offers to compare with; an address may name any


def set_seen(workspace: Workspace, user, digests: list[str], is_seen: bool):
    """Note that a person has seen these changes, or take that back. It is the person's own, so no event tells of it."""
    if is_seen:
        rows = [SeenFile(workspace=workspace, user=user, digest=digest, at=clock.now()) for digest in digests]
        SeenFile.objects.bulk_create(rows, ignore_conflicts=True)
    else:
        SeenFile.objects.filter(workspace=workspace, user=user, digest__in=digests).delete()


def seen_digests(comparison: Comparison, user) -> frozenset[str]:
    """Return the digests of the changes that the person has seen in the workspaces of a comparison."""
    places = {comparison.old.workspace.pk, comparison.new.workspace.pk}
    return frozenset(SeenFile.objects.filter(workspace__in=places, user=user).values_list("digest", flat=True))


def others(workspace: Workspace, caller) -> list[str]:
    """Return the keys of the other workspaces of its team that the caller sees, those used last first."""
    rows = Workspace.objects.visible_to(caller).kept().filter(team=workspace.team_id).exclude(pk=workspace.pk)
    return list(rows.order_by("-last_active_at").values_list("key", flat=True)[:MAX_OTHERS])
