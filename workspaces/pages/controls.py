"""Pages that keep a workspace awake, verify or rebuild it, show its disk usage, and start its services."""

from datetime import timedelta
from urllib.parse import unquote_to_bytes

from django.http import HttpResponseNotAllowed
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from dashboard.database import clock
from dashboard.problems import Problem, conflict, invalid
from dashboard.web.pages import (
    READ_OR_WRITE,
    ask_first,
    came_from,
    carry_out,
    is_confirmed,
    must,
    parameters,
    signed_in,
)
from workspaces import lifecycle
from workspaces.changes import file_writes, history
from workspaces.models import Operation, Run
from workspaces.pages.header import find, load_header
from workspaces.provisioning import capacity
from workspaces.services import commands, environments, idle, integrity, usage
from workspaces.services.hosts import returned


def _carry(request, team, key, verb, do, *, then="workspace", then_to="", say="", to_operation=False):
    """Check the permission, call `do`, and redirect to a page of the workspace or of the operation it returned.

    `then_to`: an address in the place of `then`.
    """
    workspace = find(request, team, key)
    must(request.caller, verb, workspace.team_id)
    here = then_to or reverse(then, args=[team, key])
    operation_page = lambda operation: reverse("workspace-operation", args=[team, key, operation.pk])  # noqa: E731
    return carry_out(
        request, lambda: do(workspace), then=operation_page if to_operation else here, otherwise=here, say=say
    )


@signed_in
@require_POST
def keep_awake(request, team, key):
    """Keep it awake for `hours` from now; an empty value cancels that."""
    hours = parameters(request, "hours")["hours"]

    def keep(workspace):
        if hours and not (hours.isdecimal() and len(hours) < 4):
            raise invalid(gettext("Give a number of hours."))
        until = clock.now() + timedelta(hours=int(hours)) if hours else None
        idle.keep_awake(workspace, until, by=request.caller.actor)

    return _carry(request, team, key, "use_workspace", keep)


@signed_in
@require_POST
def answer_return(request, team, key):
    """Keep what a lost host came back with as a fork, or leave it behind."""
    named = parameters(request, "key", "drop")

    def answer(workspace):
        if not (named["key"] or named["drop"]):
            raise invalid(gettext("Give the fork a key."))
        return returned.answer(workspace, "" if named["drop"] else named["key"], by=request.caller.actor)

    return _carry(request, team, key, "move_workspace", answer, to_operation=True)


@signed_in
@require_POST
def stop_operation(request, team, key, pk):
    """Cancel an operation; its page then shows the outcome."""
    head = load_header(request, team, key, "workspace")
    operation = get_object_or_404(Operation, pk=pk, workspace=head.workspace)
    must(request.caller, lifecycle.permission_to_cancel(operation) or "use_workspace", head.workspace.team_id)
    there = reverse("workspace-operation", args=[team, key, operation.pk])
    return carry_out(
        request,
        lambda: lifecycle.cancel_operation(head.workspace, operation, by=request.caller.actor),
        then=there,
        otherwise=there,
    )


@signed_in
@require_POST
def dismiss_operation(request, team, key, pk):
    """Put away that the outcome of an operation is unknown."""

    def put_away(workspace):
        lifecycle.dismiss(workspace, get_object_or_404(Operation, pk=pk, workspace=workspace), by=request.caller.actor)

    return _carry(request, team, key, "use_workspace", put_away, then_to=came_from(request, "/"))


@signed_in
@require_POST
def dismiss_run(request, team, key, pk):
    """Put away that a workspace ended by itself."""

    def put_away(workspace):
        lifecycle.dismiss(workspace, get_object_or_404(Run, pk=pk, workspace=workspace), by=request.caller.actor)

    return _carry(request, team, key, "use_workspace", put_away, then_to=came_from(request, "/"))


@signed_in
@require_POST
def compare_every_byte(request, team, key):
    return _carry(
        request,
        team,
        key,
        "use_workspace",
        lambda w: integrity.compare_every_byte(w, by=request.caller.actor),
        to_operation=True,
    )


@signed_in
@require_POST
def keep_found(request, team, key):
    return _carry(
        request, team, key, "restore", lambda w: integrity.keep_found(w, by=request.caller.actor), to_operation=True
    )


@signed_in
@READ_OR_WRITE
def rebuild(request, team, key):
    """Show what a rebuild does; a POST runs the newest version's setup on the current files."""
    if request.method == "POST":
        return _carry(
            request,
            team,
            key,
            "manage_environments",
            lambda w: environments.rebuild(w, by=request.caller.actor),
            to_operation=True,
        )
    head = load_header(request, team, key, "workspace")
    must(request.caller, "manage_environments", head.workspace.team_id)
    return render(request, "workspaces/rebuild.html", {"nav": "workspaces", "head": head})


@signed_in
@READ_OR_WRITE
def undo_rebuild(request, team, key, pk):
    """Say what undoing a rebuild replaces and deletes; a POST that was confirmed does it."""
    if not is_confirmed(request):
        return _ask_to_undo_rebuild(request, team, key, pk)

    def undo(workspace):
        operation = get_object_or_404(Operation, pk=pk, workspace=workspace)
        return environments.undo_rebuild(workspace, operation, by=request.caller.actor)

    return _carry(request, team, key, "restore", undo, to_operation=True)


def _ask_to_undo_rebuild(request, team, key, pk):
    workspace = find(request, team, key)
    must(request.caller, "restore", workspace.team_id)
    number = (get_object_or_404(Operation, pk=pk, workspace=workspace).outcome or {}).get("safety_snapshot")
    return ask_first(
        request,
        title=gettext("Undo the rebuild of %(key)s?") % {"key": key},
        says=gettext(
            "The files become those of snapshot %(number)s, and the environment the version from before. Files that "
            "came since then are deleted; the current files are saved as a snapshot first, so this can be undone."
        )
        % {"number": number},
        verb=gettext("Undo the rebuild"),
        back=reverse("workspace-operation", args=[team, key, pk]),
    )


@signed_in
@require_safe
def size(request, team, key):
    """Show disk usage with the largest files and folders, which can be removed here without running a program."""
    head = load_header(request, team, key, "workspace")
    context = {"nav": "workspaces", "head": head, "is_saved": not capacity.is_short_of_room()}
    context["usage"] = usage.of_workspace(head.workspace)
    try:
        found = history.largest(head.workspace)
        head.workspace.refresh_from_db(fields=["vitals"])  # measured meanwhile
        context["largest"] = [(path.decode("utf-8", "surrogateescape"), size) for path, size in found]
    except Problem as problem:
        context["refused"] = problem.detail
    return render(request, "workspaces/size.html", context)


@signed_in
@READ_OR_WRITE
def remove(request, team, key):
    """Remove a file or folder of the live tree, after a safety snapshot if there is disk space; a GET asks first."""
    path = unquote_to_bytes((request.POST if request.method == "POST" else request.GET).get("path", ""))
    if request.method != "POST":
        return _ask_to_remove(request, team, key, path) if path else HttpResponseNotAllowed(["POST"])

    def do(workspace):
        if not capacity.is_short_of_room():
            lifecycle.take_safety_snapshot(workspace, by=request.caller.actor, label="before removing a file")
        file_writes.delete_file(workspace, path, by=request.caller.actor)
        lifecycle.record(workspace, request.caller.actor, "file.deleted", history.path_fields("path", path))

    return _carry(request, team, key, "use_workspace", do, then="workspace-size", say=gettext("Removed."))


def _ask_to_remove(request, team: str, key: str, path: bytes):
    workspace = find(request, team, key)
    must(request.caller, "use_workspace", workspace.team_id)
    kept = gettext("The current files are saved as a snapshot first, so this can be undone.")
    lost = gettext("The disk is too full to save a snapshot first: this can't be undone.")
    return ask_first(
        request,
        title=gettext("Remove %(path)s?") % {"path": path.decode("utf-8", "surrogateescape")},
        says=lost if capacity.is_short_of_room() else kept,
        verb=gettext("Remove"),
        back=reverse("workspace-size", args=[team, key]),
    )


@signed_in
@require_POST
def start_service(request, team, key):
    return _move_service(request, team, key, commands.start_service)


@signed_in
@require_POST
def stop_service(request, team, key):
    """Stop a service, also one that waits for its next try."""
    return _move_service(request, team, key, commands.stop_service)


def _move_service(request, team, key, move):
    name = parameters(request, "service")["service"]

    def do(workspace):
        run = Run.objects.filter(workspace=workspace, ended_at=None, ready_at__isnull=False).first()
        if run is None:
            raise conflict(gettext("%(key)s isn't running; its services start with it.") % {"key": key})
        move(workspace, run, name, by=request.caller.actor)

    return _carry(request, team, key, "use_workspace", do, then="workspace-checks")
