"""Pages that revert one file or hunk, fork a workspace, or download its commits as a bundle."""

from functools import partial
from urllib.parse import quote_from_bytes, unquote_to_bytes, urlencode

from django.contrib import messages
from django.http import HttpResponseNotAllowed
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from dashboard.problems import Problem, invalid
from dashboard.web.pages import (
    READ_OR_WRITE,
    ask_first,
    carry_out,
    download,
    is_confirmed,
    must,
    parameters,
    signed_in,
    take_form,
)
from workspaces import lifecycle, operations
from workspaces.changes import downloads
from workspaces.changes.comparisons import find_point
from workspaces.models import Operation
from workspaces.pages.forms import ForkForm
from workspaces.pages.header import load_header
from workspaces.provisioning import isolation
from workspaces.services import environments, git_export, revert


@signed_in
@READ_OR_WRITE
def revert_file(request, team, key):
    """Restore one file of the Changes page, content and path, from one of the two points.

    A GET asks first. So does a POST that leaves nothing in the place of what it deletes, until it was confirmed.
    """
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "restore", head.workspace.team_id)
    fields = request.POST if request.method == "POST" else request.GET
    wish = parameters(request, "from")
    paths = [unquote_to_bytes(path) for path in fields.getlist("path")]
    caller, workspace = request.caller, head.workspace
    if request.method != "POST" and not paths:
        return HttpResponseNotAllowed(["POST"])
    if request.method != "POST" or (
        not is_confirmed(request) and _only_deletes(request, workspace, wish["from"], paths)
    ):
        return _ask_to_revert(request, workspace, wish["from"], paths)
    return carry_out(
        request,
        lambda: revert.file(workspace, find_point(wish["from"], workspace, caller), paths, by=caller.actor),
        then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
        otherwise=_changes(team, key, wish["from"]),
    )


def _only_deletes(request, workspace, from_: str, paths: list[bytes]) -> bool:
    """Whether none of the paths is at the point; a wish that has an error is left to whoever carries it out."""
    try:
        return bool(paths) and revert.removed(find_point(from_, workspace, request.caller), paths) == paths
    except Problem:
        return False


def _ask_to_revert(request, workspace, from_: str, paths: list[bytes]):
    """Say which of the files are deleted, as they are not at the point, and which are replaced."""
    back = _changes(workspace.team.slug, workspace.key, from_)
    try:
        gone = revert.removed(find_point(from_, workspace, request.caller), paths)
    except Problem as problem:
        return carry_out(request, partial(_again, problem), then=back)
    point = gettext("snapshot %(number)s") % {"number": from_} if from_.isdecimal() else from_
    lost = gettext("%(paths)s is deleted: it is not in %(point)s.") % {"paths": _listed(gone), "point": point}
    kept = gettext("The current files are saved as a snapshot first, so this can be undone.")
    title = gettext("Restore %(paths)s from %(point)s?") if len(gone) < len(paths) else gettext("Remove %(paths)s?")
    return ask_first(
        request,
        title=title % {"paths": _listed(paths), "point": point},
        says=f"{lost} {kept}" if gone else kept,
        verb=gettext("Restore") if len(gone) < len(paths) else gettext("Remove"),
        back=back,
    )


def _listed(paths: list[bytes]) -> str:
    return ", ".join(path.decode("utf-8", "surrogateescape") for path in paths)


def _again(problem: Problem):
    raise problem


@signed_in
@require_POST
def revert_hunk(request, team, key):
    """Revert one hunk of a file to its lines at the point on the left."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "restore", head.workspace.team_id)
    wish = parameters(request, "from", "index", "seen")
    path = unquote_to_bytes(request.POST.get("path", ""))
    return carry_out(
        request,
        lambda: revert.hunk(
            head.workspace,
            find_point(wish["from"], head.workspace, request.caller),
            path,
            _number(wish["index"]),
            wish["seen"],
            by=request.caller.actor,
        ),
        then=_changes(team, key, wish["from"]),
        say=lambda saved: _reverted(request, team, key, path, saved.outcome["snapshot"]),
    )


def _reverted(request, team, key, path: bytes, snapshot: int) -> str:
    """Say where the previous content is, with a button that brings it back."""
    form = '{} <form class="inline-form" method="post" action="{}">{}{}{}<button class="plain link">{}</button></form>'
    hidden = [
        format_html('<input type="hidden" name="{}" value="{}">', name, value)
        for name, value in (
            ("csrfmiddlewaretoken", get_token(request)),
            ("from", snapshot),
            ("path", quote_from_bytes(path)),
        )
    ]
    said = gettext("Reverted. The previous content is in snapshot %(number)s.") % {"number": snapshot}
    return format_html(form, said, reverse("change-back", args=[team, key]), *hidden, gettext("Undo"))


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise invalid(gettext("Not a number."))
    return int(text)


def _changes(team, key, from_) -> str:
    query = f"?{urlencode({'from': from_, 'to': 'live'})}" if from_ else ""
    return reverse("workspace-changes", args=[team, key]) + query


@signed_in
@READ_OR_WRITE
def fork(request, team, key, number):
    """Create a workspace with a snapshot's files, under the same or another environment."""
    head = load_header(request, team, key, "workspace-snapshots")
    must(request.caller, "create_workspace", head.workspace.team_id)
    wish = parameters(request, "environment")["environment"]
    form = ForkForm(request.POST or None, workspace=head.workspace, others=_others(head.workspace))

    def forked(fields):
        how = {"caller": request.caller, "number": number, "environment": wish}
        return lifecycle.fork(head.workspace, fields["key"], **how)

    def shown(form):
        context = {"nav": "workspaces", "head": head, "number": number, "form": form}
        return render(request, "workspaces/fork.html", context)

    if request.method != "POST":
        return shown(form)
    return take_form(
        request,
        form,
        forked,
        shown=shown,
        then=lambda made: reverse("workspace", args=[team, made.key]),
        otherwise=reverse("snapshot-fork", args=[team, key, number]),
        at="environment" if wish and "environment" in form.fields else "key",
    )


def _others(workspace) -> list:
    """Return the newest versions of environments that a fork can be under besides the workspace's own version."""
    rows = environments.newest([workspace.team_id]).to_make_from().exclude(pk=workspace.environment_id)
    return list(rows.filter(driver__in=isolation.available()).order_by("name"))


@signed_in
@require_POST
def bundle(request, team, key):
    """Download a git bundle of the commits."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)

    try:
        bundled = git_export.bundle(head.workspace, by=request.caller.actor)
        _ended(bundled, gettext("The bundle isn't ready yet. Try again."))
        pieces = downloads.read_bundle(head.workspace)
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("workspace-export", team, key)
    return download(request, pieces, f"{key}.bundle")


def _ended(operation: Operation, still: str) -> Operation:
    """Return the operation once it has ended well. Problem 422 with what went wrong, or `still`."""
    operation = operations.wait(operation, 120)
    if not operations.is_over(operation) or not operation.outcome["ok"]:
        raise invalid((operation.outcome or {}).get("reason") or still)
    return operation
