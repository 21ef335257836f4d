"""How a workspace lives, on pages: kept awake, proven, kept as found, set up again, its size, its services."""

from datetime import timedelta
from urllib.parse import unquote_to_bytes

from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard import clock
from dashboard.pages import asked, carry_out, must, signed_in
from dashboard.problems import Problem, conflict, invalid
from workspaces import capacity, environments, history, idle, lifecycle, programs, proofs, usage
from workspaces.head import find, look
from workspaces.models import Effect, Run

READ_OR_WRITE = require_http_methods(["GET", "HEAD", "POST"])


def _carry(request, team, key, verb, do, *, then="workspace", say="", moves=False):
    """Who may, do it, and back to a page of the workspace; with `moves` to the page of the effect that `do` gave."""
    workspace = find(request, team, key)
    must(request.caller, verb, workspace.team_id)
    here = reverse(then, args=[team, key])
    to_move = lambda effect: reverse("workspace-move", args=[team, key, effect.pk])  # noqa: E731
    return carry_out(request, lambda: do(workspace), then=to_move if moves else here, otherwise=here, say=say)


@signed_in
@require_POST
def keep_awake(request, team, key):
    """For so many hours from now; none takes it back."""
    hours = asked(request, "hours")["hours"]

    def keep(workspace):
        if hours and not (hours.isdecimal() and len(hours) < 4):
            raise invalid("Keep it awake for a number of hours.")
        until = clock.now() + timedelta(hours=int(hours)) if hours else None
        idle.keep_awake(workspace, until, by=request.caller.actor)

    return _carry(request, team, key, "use_workspace", keep)


@signed_in
@require_POST
def stop_move(request, team, key, pk):
    """Ask a snapshot or a restore to stop; the page of the move then says how it ended."""
    head = look(request, team, key, "workspace")
    effect = get_object_or_404(Effect, pk=pk, workspace=head.workspace)
    must(request.caller, lifecycle.right_to_stop(effect) or "use_workspace", head.workspace.team_id)
    there = reverse("workspace-move", args=[team, key, effect.pk])
    return carry_out(
        request,
        lambda: lifecycle.stop_move(head.workspace, effect, by=request.caller.actor),
        then=there,
        otherwise=there,
    )


@signed_in
@require_POST
def prove(request, team, key):
    return _carry(request, team, key, "use_workspace", lambda w: proofs.prove(w, by=request.caller.actor), moves=True)


@signed_in
@require_POST
def keep_found(request, team, key):
    return _carry(request, team, key, "restore", lambda w: proofs.keep_found(w, by=request.caller.actor), moves=True)


@signed_in
@READ_OR_WRITE
def renew(request, team, key):
    """The page before, in words; then the newest version's set-up on the files that are there."""
    if request.method == "POST":
        return _carry(
            request,
            team,
            key,
            "manage_environments",
            lambda w: environments.renew(w, by=request.caller.actor),
            moves=True,
        )
    head = look(request, team, key, "workspace")
    must(request.caller, "manage_environments", head.workspace.team_id)
    return render(request, "workspaces/renew.html", {"nav": "workspaces", "head": head})


@signed_in
@require_POST
def undo_renewal(request, team, key, pk):
    def undo(workspace):
        effect = get_object_or_404(Effect, pk=pk, workspace=workspace)
        return environments.undo_renewal(workspace, effect, by=request.caller.actor)

    return _carry(request, team, key, "restore", undo, moves=True)


@signed_in
@require_safe
def size(request, team, key):
    """What is big here, with a way to remove it that needs no program to run."""
    head = look(request, team, key, "workspace")
    context = {"nav": "workspaces", "head": head, "is_saved": not capacity.is_short_of_room()}
    context["usage"] = usage.of_workspace(head.workspace)
    try:
        found = history.largest(head.workspace)
        context["largest"] = [(path.decode("utf-8", "surrogateescape"), size) for path, size in found]
    except Problem as problem:
        context["refused"] = problem.detail
    return render(request, "workspaces/size.html", context)


@signed_in
@require_POST
def remove(request, team, key):
    """Remove a file or a folder of the live tree; what is there is saved first, while there is room for that."""
    path = unquote_to_bytes(request.POST.get("path", ""))

    def do(workspace):
        if not capacity.is_short_of_room():
            lifecycle.save_first(workspace, by=request.caller.actor, label="before something big was removed")
        history.delete_file(workspace, path)
        lifecycle.record(workspace, request.caller.actor, "file.deleted", history.named("path", path))

    return _carry(request, team, key, "use_workspace", do, then="workspace-size", say="Removed.")


@signed_in
@require_POST
def start_service(request, team, key):
    name = asked(request, "service")["service"]

    def start(workspace):
        run = Run.objects.filter(workspace=workspace, ended_at=None, ready_at__isnull=False).first()
        if run is None:
            raise conflict(f"{key} is not up; its services start with it.")
        programs.start_service(workspace, run, name, by=request.caller.actor)

    return _carry(request, team, key, "use_workspace", start, then="workspace-checks")
