"""The buttons of a connected folder: restore its hook; hold the agent's shell calls in a box, or no longer."""

from pathlib import Path

from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from approvals.agents import own_settings
from approvals.connect import hook_watch
from approvals.evaluation.calls import root_of
from dashboard.problems import conflict, unavailable
from dashboard.web.pages import came_from, carry_out, must, signed_in
from workspaces import operations
from workspaces.pages.header import find
from workspaces.services import folders

RUNNER_TIMEOUT = 10  # seconds
START_TIMEOUT = 60


@signed_in
@require_POST
def put_back(request, team, key):
    """Restore the hook and return to the page with the button, with the runner's message."""
    workspace = find(request, team, key)
    must(request.caller, "put_hook_back", workspace.team_id)

    def put() -> str:
        operation = operations.wait(hook_watch.put_back(workspace, by=request.caller.actor), RUNNER_TIMEOUT)
        if not operations.is_over(operation):
            raise unavailable(gettext("The runner isn't responding. It restores the hook when it is back."))
        if not operation.outcome["ok"]:
            raise conflict(operation.outcome["reason"])
        return operation.outcome["reason"]

    here = reverse("workspace", args=[team, key])
    return carry_out(request, put, then=came_from(request, here), say=lambda said: said)


@signed_in
@require_POST
def box_calls(request, team, key):
    """Start the folder's programs again in a box in which calls are held (`on`), or without one."""
    workspace = find(request, team, key)
    must(request.caller, "hold_calls", workspace.team_id)
    on = request.POST.get("on") == "1"

    def change() -> str:
        root = Path(root_of(workspace))
        if on and (other := own_settings.other_hook(root)):
            raise conflict(gettext("Calls cannot be held in this folder: %(other)s") % {"other": other})
        operation = operations.wait(folders.box_calls(workspace, on, by=request.caller.actor), START_TIMEOUT)
        if not operations.is_over(operation):
            raise unavailable(gettext("The runner isn't responding. It carries this out when it is back."))
        if not operation.outcome["ok"] or operation.outcome["held"] != on:
            raise conflict(operation.outcome["reason"])
        if on:
            workspace.refresh_from_db(fields=["remotes"])
            named = ", ".join(f"{name} ({url})" for name, url in workspace.remotes.items())
            if not named:
                return gettext("Shell calls of the agent are held now.")
            words = gettext("Shell calls of the agent are held now. Reads run unasked at %(named)s.")
            return words % {"named": named}
        return gettext("Shell calls of the agent are no longer held.")

    here = reverse("workspace", args=[team, key])
    return carry_out(request, change, then=came_from(request, here), say=lambda said: said)
