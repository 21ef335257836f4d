"""Pages of workspaces: a new one, the trash, a workspace's timeline and snapshots, and its operations."""

from functools import partial

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.pages import (
    READ_OR_WRITE,
    Slice,
    came_from,
    carry_out,
    download,
    is_confirmed,
    must,
    parameters,
    show_at,
    signed_in,
)
from workspaces import lifecycle
from workspaces.changes import history
from workspaces.changes.comparisons import Restored, deleted
from workspaces.manifests.body import not_kept
from workspaces.models import Operation, Snapshot, Workspace
from workspaces.pages import revisions
from workspaces.pages.forms import HoldForm, NewWorkspace
from workspaces.pages.header import find, load_header, with_display_columns
from workspaces.pages.manifests import shown
from workspaces.pages.operation_view import OperationView
from workspaces.pages.pictures.screenshots import PictureForm
from workspaces.pages.timeline import timeline_of
from workspaces.services import (
    agent_bindings,
    archives,
    collisions,
    git_export,
    retention,
    snapshot_folders,
    store_maintenance,
)
from workspaces.services.retention import holds
from workspaces.services.screenshots import keeping as screenshots
from workspaces.store.file_reader import LEFT_OUT
from workspaces.store.objects import FILE, FOLDER

# New and deleted ones -------------------------------------------------------------------------------------------------


@signed_in
@READ_OR_WRITE
def new(request):
    caller = request.caller
    teams = [team for team in Team.objects.visible_to(caller).order_by("name") if caller.can("create_workspace", team)]
    if not teams:
        must(caller, "create_workspace", None)
    wished = {"key": request.GET.get("key", "")}
    binds_in = [team for team in teams if caller.can("manage_agents", team)]
    form = NewWorkspace(request.POST or None, request.FILES or None, teams=teams, binds_in=binds_in, initial=wished)
    if request.method == "POST" and form.is_valid():
        try:
            made, is_new = lifecycle.create(
                form.cleaned_data["team"], form.cleaned_data["key"], caller=caller, wish=form.wish(by=caller.actor)
            )
        except Problem as problem:
            form.add_error(None, problem.detail)
            form.in_trash = "in_trash_until" in problem.extra
            form.is_gone = "gone_at" in problem.extra
        else:
            if is_new and form.cleaned_data.get("agents"):
                agent_bindings.bind(made, [agent.name for agent in form.cleaned_data["agents"]], by=caller.actor)
            if not is_new:
                messages.info(
                    request, gettext("%(key)s already exists with the same source; starting it.") % {"key": made.key}
                )
            return redirect("workspace", made.team.slug, made.key)
    return render(request, "workspaces/new.html", {"nav": "workspaces", "form": form})


@signed_in
@require_safe
def in_trash(request):
    caller = request.caller
    trashed = with_display_columns(Workspace.objects.visible_to(caller).in_trash())
    page = Slice(request, trashed, by="trashed_at")
    held = {team: holds.Held(team, clock.now()) for team in {workspace.team_id for workspace in page}}
    rows = [
        (each, caller.can("delete_workspace", each.team_id), held[each.team_id].on_workspace(each.pk)) for each in page
    ]
    return render(request, "workspaces/trash.html", {"nav": "workspaces", "page": page, "rows": rows})


@signed_in
@require_POST
def untrash(request, pk):
    workspace = get_object_or_404(Workspace.objects.visible_to(request.caller).select_related("team"), pk=pk)
    must(request.caller, "delete_workspace", workspace.team_id)
    return carry_out(
        request,
        lambda: lifecycle.untrash(workspace, by=request.caller.actor),
        then=reverse("workspace", args=[workspace.team.slug, workspace.key]),
        otherwise=reverse("workspaces-trash"),
        say=gettext("%(key)s restored. Resume starts it.") % {"key": workspace.key},
    )


# One workspace -------------------------------------------------------------------------------------------------------


@signed_in
@require_safe
def timeline(request, team, key):
    head = load_header(request, team, key, "workspace")
    only_files = request.GET.get("only") == "files"
    before, day = parameters(request, "before", "day").values()
    entries = timeline_of(head.workspace, before=before, day=day, only_files=only_files)
    return render(
        request,
        "workspaces/timeline.html",
        {
            "nav": "workspaces",
            "head": head,
            "timeline": entries,
            "only_files": only_files,
            "day": day,
            "colliding": collisions.of_workspace(head.workspace),
            "may_rebase": request.caller.can("use_workspace", head.workspace.team_id),
        },
    )


@signed_in
@require_safe
def snapshots(request, team, key):
    head = load_header(request, team, key, "workspace-snapshots")
    page = Slice(request, Snapshot.objects.filter(workspace=head.workspace), size=50)
    pictures = screenshots.of(head.workspace, [row.number for row in page])
    context = {"nav": "workspaces", "head": head, "page": page, "pictures": pictures}
    return render(request, "workspaces/snapshots.html", context)


@signed_in
@require_safe
def snapshot(request, team, key, number):
    return snapshot_page(request, load_header(request, team, key, "workspace-snapshots"), number)


def snapshot_page(request, head, number: int, refused: HoldForm | None = None):
    """Render the page of a snapshot, with the hold that was refused in the place of its empty form."""
    found = _snapshot(head.workspace, number)
    return render(
        request,
        "workspaces/snapshot.html",
        {
            "nav": "workspaces",
            "head": head,
            "snapshot": found,
            "weight": store_maintenance.freed_by_snapshot(found),
            "picture": screenshots.of(head.workspace, [number]).get(number),
            "picture_form": PictureForm(),
            "folder": snapshot_folders.folder_of(found),
            "may_keep_picture": head.caller.can("keep_screenshot", head.workspace.team_id) and not found.trashed_at,
            "ignored": sum(entry["reason"] == LEFT_OUT for entry in found.skipped),
            **_not_kept(found.skipped),
            "refused_hold": refused,
            "hold_forms": [
                refused if refused and refused.what == what else HoldForm(what=what) for what in HoldForm.WHAT
            ],
        }
        | shown(head.workspace, getattr(found, "manifest", None)),
    )


@signed_in
@require_POST
def pin(request, team, key, number):
    """Pin or unpin a snapshot."""
    workspace = find(request, team, key)
    must(request.caller, "use_workspace", workspace.team_id)
    found = _snapshot(workspace, number)
    return carry_out(
        request,
        lambda: lifecycle.pin(found, parameters(request, "pinned")["pinned"] == "yes", by=request.caller.actor),
        then=reverse("snapshot", args=[team, key, number]),
    )


@signed_in
@READ_OR_WRITE
def archive(request, team, key, number):
    """Download a snapshot's files; a POST submits an operation that prepares the archive, and redirects to it."""
    head = load_header(request, team, key, "workspace-snapshots")
    found = _snapshot(head.workspace, number)
    if request.method == "POST":
        must(request.caller, "use_workspace", head.workspace.team_id)
        operation = archives.ask(found, by=request.caller.actor)
        return redirect("workspace-operation", team, key, operation.pk)
    try:
        chunks = archives.read(found)
    except Problem as problem:
        return HttpResponse(problem.detail + "\n", status=problem.status, content_type="text/plain; charset=utf-8")
    return download(request, chunks, f"{key}-{number}.tar.zst", "application/zstd")


def _snapshot(workspace, number) -> Snapshot:
    rows = Snapshot.objects.select_related("manifest", "parent")
    return get_object_or_404(rows, workspace=workspace, number=number)


# Operations ----------------------------------------------------------------------------------------------------------


def _submit(request, team, key, verb, do, say=""):
    """Check the permission, submit the operation, and redirect to the workspace."""
    workspace = find(request, team, key)
    must(request.caller, verb, workspace.team_id)
    here = reverse("workspace", args=[team, key])
    return carry_out(request, lambda: do(workspace, by=request.caller.actor), then=here, say=say)


@signed_in
@require_POST
def pause(request, team, key):
    return _submit(request, team, key, "use_workspace", lifecycle.pause)


@signed_in
@require_POST
def pause_files(request, team, key):
    """Pause it without the memory of its programs."""
    return _submit(request, team, key, "use_workspace", partial(lifecycle.pause, memory=False))


@signed_in
@require_POST
def resume(request, team, key):
    return _submit(request, team, key, "use_workspace", lifecycle.resume)


@signed_in
@require_POST
def stop(request, team, key):
    return _submit(request, team, key, "use_workspace", lifecycle.stop)


@signed_in
@require_POST
def wanted(request, team, key):
    """Keep an unused workspace, which cancels the warning that it goes to the trash."""
    workspace = find(request, team, key)
    must(request.caller, "use_workspace", workspace.team_id)
    return carry_out(
        request,
        lambda: retention.keep_unused(workspace, by=request.caller.actor),
        then=came_from(request, reverse("workspace", args=[team, key])),
        say=gettext("%(key)s kept.") % {"key": key},
    )


@signed_in
@require_POST
def retry(request, team, key):
    return _submit(request, team, key, "use_workspace", lifecycle.retry)


@signed_in
@require_POST
def take_snapshot(request, team, key):
    workspace = find(request, team, key)
    must(request.caller, "use_workspace", workspace.team_id)
    label = parameters(request, "label")["label"]
    return carry_out(
        request,
        lambda: lifecycle.snapshot(workspace, by=request.caller.actor, label=label),
        then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
        otherwise=reverse("workspace", args=[team, key]),
    )


@signed_in
@READ_OR_WRITE
def restore(request, team, key, number):
    """Show what a restore of the snapshot would change; a POST that was confirmed submits it."""
    head = load_header(request, team, key, "workspace-snapshots")
    found = _snapshot(head.workspace, number)
    must(request.caller, "restore", head.workspace.team_id)
    if is_confirmed(request):
        return carry_out(
            request,
            lambda: lifecycle.restore(head.workspace, number, by=request.caller.actor),
            then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
            otherwise=reverse("snapshot", args=[team, key, number]),
        )
    commits, git_note = history.commits_since(head.workspace, found)
    context = {"nav": "workspaces", "head": head, "snapshot": found, "commits": commits, "git_note": git_note}
    context |= what_would_change(head.workspace, number) | _not_kept(found.skipped)
    show_at(request, reverse("snapshot-restore", args=[team, key, number]))
    return render(request, "workspaces/restore.html", context)


def _not_kept(skipped: list[dict]) -> dict:
    """Return {not_kept: [{path, reason}], not_kept_more: number of those that are not listed}."""
    found = [entry for entry in skipped if entry["reason"] != LEFT_OUT]
    return {"not_kept": not_kept(found), "not_kept_more": len(found) - len(not_kept(found))}


def what_would_change(workspace, number) -> dict:
    """Return the counts {changed, created, removed} of a restore, as its outcome will, or {unknown: reason}.

    `deleted`: the paths that it removes; `lost`: those that no snapshot can keep, so that undoing it does not bring
    them back.
    """
    try:
        found = history.changes(workspace, history.LIVE, number, count=False)
    except Problem as problem:
        return {"unknown": problem.detail}
    lost = [row for row in found if (old := row.change.old) and not old.kept and old.kind not in (FILE, FOLDER)]
    return {**Restored.of(found)._asdict(), "deleted": deleted(found), "all": len(found), "lost": lost}


@signed_in
@READ_OR_WRITE
def reset(request, team, key):
    """Lead to the page that asks before the snapshot taken after setup is restored; a POST does no more."""
    workspace = find(request, team, key)
    must(request.caller, "restore", workspace.team_id)
    if workspace.baseline is None:
        messages.info(request, gettext("%(key)s has no snapshot after setup to restore.") % {"key": key})
        return redirect("workspace", team, key)
    return redirect("snapshot-restore", team, key, workspace.baseline.number)


@signed_in
@require_POST
def bind_agents(request, team, key):
    """Set the agents that may work in it besides its creator."""
    workspace = find(request, team, key)
    must(request.caller, "manage_agents", workspace.team_id)
    return carry_out(
        request,
        lambda: agent_bindings.bind(workspace, request.POST.getlist("agent"), by=request.caller.actor),
        then=reverse("workspace", args=[team, key]),
        say=gettext("Saved."),
    )


@signed_in
@READ_OR_WRITE
def put_away(request, team, key):
    """Say what archiving removes and keeps; a POST submits it."""
    head = load_header(request, team, key, "workspace")
    must(request.caller, "use_workspace", head.workspace.team_id)
    if request.method == "POST":
        here = reverse("workspace", args=[team, key])
        return carry_out(
            request,
            lambda: lifecycle.archive(head.workspace, by=request.caller.actor),
            then=lambda made: reverse("workspace-operation", args=[team, key, made.pk]) if made else here,
            otherwise=here,
        )
    return render(request, "workspaces/put_away.html", {"nav": "workspaces", "head": head})


@signed_in
@READ_OR_WRITE
def delete(request, team, key):
    head = load_header(request, team, key, "workspace")
    must(request.caller, "delete_workspace", head.workspace.team_id)
    if request.method == "POST":
        return carry_out(
            request,
            lambda: lifecycle.trash(head.workspace, by=request.caller.actor),
            then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
            otherwise=reverse("workspace", args=[team, key]),
        )
    context = {"nav": "workspaces", "head": head, "until": retention.trash_date(head.workspace)}
    return render(request, "workspaces/delete.html", context)


@signed_in
@require_safe
def operation(request, team, key, pk):
    """Show the progress and outcome of an operation; for a restore, also how to undo it."""
    head = load_header(request, team, key, "workspace")
    operation = get_object_or_404(Operation, pk=pk, workspace=head.workspace)
    seen = OperationView(operation)
    context = {"nav": "workspaces", "head": head, "operation": seen, "may_stop": head.may_stop(seen)}
    context |= {"may_use": head.may_use, "other_branch": git_export.another_branch(operation)}
    if operation.kind == "revise" and seen.is_over:
        conflicts = revisions.conflicts_of(head.workspace, operation.outcome)
        context |= {"conflicts": conflicts, "task": revisions.task_of(conflicts)}
    return render(request, "workspaces/operation.html", context | _not_undone(operation))


def _not_undone(operation) -> dict:
    """Return what the snapshot before a restore or rebuild could not keep, as `_not_kept` does; {} if it kept all."""
    number = (operation.outcome or {}).get("safety_snapshot")
    saved = number and Snapshot.objects.filter(workspace=operation.workspace_id, number=number).first()
    return _not_kept(saved.skipped) if saved else {}
