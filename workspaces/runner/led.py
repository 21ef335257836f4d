"""The workspace that a request to the runner is about: one that this runner leads."""

from django.db.models import UUIDField

from dashboard.database.prepared import Prepared, Slot
from dashboard.problems import Problem, not_found
from workspaces.models import Workspace
from workspaces.operations.runner_client import ELSEWHERE

_ROWS = Prepared(
    lambda: Workspace.objects.select_related("team", "environment", "head", "runner").filter(pk=Slot("pk", UUIDField()))
)


async def led_workspace(request) -> Workspace:
    """Return the workspace of the route's `id`. Problem 404, or 421 if another runner leads it."""
    found = next(iter(await request.app["daemon"].thread(_ROWS.rows, pk=request.match_info["id"])), None)
    if found is None or found.purged_at:
        raise not_found("workspace")
    _refuse_led_elsewhere(found, request.app["daemon"].row)
    return found


def _refuse_led_elsewhere(workspace, row):
    """Problem 421 naming the runner that acts for the workspace, unless it is this one or none was chosen yet."""
    lead = workspace.runner
    if lead is not None and lead.pk != row.pk:
        named = {"runner": str(lead.pk), "host": lead.host, "address": lead.address}
        words = f"{workspace.key} is on {lead.host}, which this address cannot reach."
        raise Problem(ELSEWHERE, words, code="elsewhere", host=lead.host, lead=named)
