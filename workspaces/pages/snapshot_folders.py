"""Open a snapshot as a folder of its workspace's host, and close it."""

from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from dashboard.web.pages import carry_out, signed_in
from workspaces.changes import history
from workspaces.pages.header import find
from workspaces.services import snapshot_folders


@signed_in
@require_POST
def open_folder(request, team, key, number):
    """Open it for an hour, or for an hour from now on. Who may read the files may."""
    snapshot = history.find_snapshot(find(request, team, key), number)
    return carry_out(
        request,
        lambda: snapshot_folders.open_folder(snapshot, by=request.caller.actor),
        then=reverse("snapshot", args=[team, key, number]) + "#folder",
    )


@signed_in
@require_POST
def close_folder(request, team, key, number):
    snapshot = history.find_snapshot(find(request, team, key), number)
    return carry_out(
        request,
        lambda: snapshot_folders.close_folder(snapshot, by=request.caller.actor),
        then=reverse("snapshot", args=[team, key, number]) + "#folder",
        say=gettext("Closed."),
    )
