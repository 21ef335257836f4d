"""Holds on a workspace and its snapshots, and the trash of snapshots."""

from datetime import timedelta

from django.contrib import messages
from django.http import Http404
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from dashboard.database import clock
from dashboard.web.pages import came_from, carry_out, must, parameters, show_at, signed_in, take_form
from workspaces.models import Hold, Snapshot
from workspaces.pages.forms import HoldForm
from workspaces.pages.header import find, load_header
from workspaces.pages.workspace import snapshot_page
from workspaces.services.retention import holds, snapshot_trash


def _snapshot(request, team, key, number) -> Snapshot:
    rows = Snapshot.objects.select_related("workspace__team", "workspace__environment")
    return get_object_or_404(rows, workspace=find(request, team, key), number=number)


@signed_in
@require_POST
def hold(request, team, key, number=None):
    """Hold the workspace, or one of its snapshots."""
    head = load_header(request, team, key, "workspace-snapshots")
    workspace = head.workspace
    must(request.caller, "hold", workspace.team_id)
    snapshot = _snapshot(request, team, key, number) if number else None
    from_page = number or _number_of_page(request)

    def held(fields):
        until = clock.now() + timedelta(days=fields["days"]) if fields["days"] else None
        wish = {"workspace": workspace, "snapshot": snapshot, "reason": fields["reason"]}
        return holds.hold(workspace.team, by=request.caller.actor, until=until, **wish)

    return take_form(
        request,
        HoldForm(request.POST, what="snapshot" if number else "workspace"),
        held,
        shown=lambda form: _refused(request, head, from_page, form),
        then=reverse("snapshot", args=[team, key, number]) if number else reverse("workspace", args=[team, key]),
        at="reason",
        say=gettext("On hold: nothing deletes it."),
    )


def _refused(request, head, number: int, form: HoldForm):
    """Show the form's errors on the page of a snapshot, which has the form; without a number as a notice."""
    if number:
        show_at(request, reverse("snapshot", args=[head.workspace.team.slug, head.workspace.key, number]))
        return snapshot_page(request, head, number, form)
    messages.error(request, next(iter(form.errors.values()))[0])
    return redirect("workspace", head.workspace.team.slug, head.workspace.key)


def _number_of_page(request) -> int:
    """Return the number of the snapshot whose page the form is on; 0, which none has, if it doesn't say."""
    text = parameters(request, "number")["number"]
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


@signed_in
@require_POST
def release(request, pk):
    row = Hold.objects.visible_to(request.caller).select_related("team", "workspace", "snapshot").filter(pk=pk).first()
    if row is None:
        raise Http404
    must(request.caller, "hold", row.team_id)
    then = came_from(request, reverse("workspaces"))
    return carry_out(request, lambda: holds.release(row, by=request.caller.actor), then=then, say=gettext("Released."))


@signed_in
@require_POST
def trash(request, team, key, number):
    snapshot = _snapshot(request, team, key, number)
    must(request.caller, "delete_snapshot", snapshot.workspace.team_id)
    return carry_out(
        request,
        lambda: snapshot_trash.trash(snapshot, by=request.caller.actor),
        then=reverse("snapshot", args=[team, key, number]),
        say=gettext("Moved to the trash."),
    )


@signed_in
@require_POST
def untrash(request, team, key, number):
    snapshot = _snapshot(request, team, key, number)
    must(request.caller, "delete_snapshot", snapshot.workspace.team_id)
    return carry_out(
        request,
        lambda: snapshot_trash.untrash(snapshot, by=request.caller.actor),
        then=reverse("snapshot", args=[team, key, number]),
        say=gettext("Restored from the trash, and pinned."),
    )
