"""The button that restores the hook of a connected folder."""

from django.urls import reverse
from django.views.decorators.http import require_POST

from approvals.connect import hook_watch
from dashboard.pages import came_from, carry_out, must, signed_in
from dashboard.problems import conflict, unavailable
from workspaces import operations
from workspaces.pages.header import find

RUNNER_TIMEOUT = 10  # seconds


@signed_in
@require_POST
def put_back(request, team, key):
    """Restore the hook and return to the page with the button, with the runner's message."""
    workspace = find(request, team, key)
    must(request.caller, "put_hook_back", workspace.team_id)

    def put() -> str:
        operation = operations.wait(hook_watch.put_back(workspace, by=request.caller.actor), RUNNER_TIMEOUT)
        if not operations.is_over(operation):
            raise unavailable("The runner isn't responding. It restores the hook when it is back.")
        if not operation.outcome["ok"]:
            raise conflict(operation.outcome["reason"])
        return operation.outcome["reason"]

    here = reverse("workspace", args=[team, key])
    return carry_out(request, put, then=came_from(request, here), say=lambda said: said)
