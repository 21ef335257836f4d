"""Pages that revert one file or hunk, fork a workspace, or export it as a git bundle or a push."""

from urllib.parse import unquote_to_bytes

from django.contrib import messages
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from dashboard.pages import READ_OR_WRITE, asked, carry_out, download, must, signed_in
from dashboard.problems import Problem, invalid
from workspaces import history, lifecycle, operations
from workspaces.pages.header import load_header
from workspaces.services import export, revert


@signed_in
@require_POST
def revert_file(request, team, key):
    """Restore one file of the Changes page, content and path, from the snapshot on the left."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "restore", head.workspace.team_id)
    wish, paths = asked(request, "from"), [unquote_to_bytes(path) for path in request.POST.getlist("path")]
    return carry_out(
        request,
        lambda: revert.file(head.workspace, _number(wish["from"]), paths, by=request.caller.actor),
        then=lambda operation: reverse("workspace-operation", args=[team, key, operation.pk]),
        otherwise=_changes(team, key, wish["from"]),
    )


@signed_in
@require_POST
def revert_hunk(request, team, key):
    """Revert one hunk of a file to its lines in the snapshot on the left."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "restore", head.workspace.team_id)
    wish = asked(request, "from", "index", "seen")
    path = unquote_to_bytes(request.POST.get("path", ""))
    return carry_out(
        request,
        lambda: revert.hunk(
            head.workspace,
            _number(wish["from"]),
            path,
            _number(wish["index"]),
            wish["seen"],
            by=request.caller.actor,
        ),
        then=_changes(team, key, wish["from"]),
        say=gettext("Reverted. The previous content is in the newest snapshot."),
    )


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise invalid(gettext("Not a number."))
    return int(text)


def _changes(team, key, from_) -> str:
    query = f"?from={from_}&to=live" if from_.isdecimal() else ""
    return reverse("workspace-changes", args=[team, key]) + query


@signed_in
@READ_OR_WRITE
def fork(request, team, key, number):
    """Create a workspace with a snapshot's files."""
    head = load_header(request, team, key, "workspace-snapshots")
    must(request.caller, "create_workspace", head.workspace.team_id)
    refused = ""
    name = asked(request, "key")["key"] if request.method == "POST" else f"{key[:50]}-fork"
    if request.method == "POST":
        try:
            made = lifecycle.fork(head.workspace, lifecycle.check_key(name), caller=request.caller, number=number)
            return redirect("workspace", team, made.key)
        except Problem as problem:
            refused = problem.detail
    context = {"nav": "workspaces", "head": head, "number": number, "name": name, "refused": refused}
    return render(request, "workspaces/fork.html", context)


@signed_in
@require_POST
def bundle(request, team, key):
    """Download a git bundle of the commits."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)

    try:
        operation = operations.wait(export.bundle(head.workspace, by=request.caller.actor), 120)
        if not operations.is_over(operation) or not operation.outcome["ok"]:
            raise invalid((operation.outcome or {}).get("reason") or gettext("The bundle isn't ready yet. Try again."))
        pieces = history.read_bundle(head.workspace)
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect(_changes(team, key, ""))
    return download(request, pieces, f"{key}.bundle")


@signed_in
@require_POST
def push(request, team, key):
    """Push HEAD to a branch of the source repository."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "use_workspace", head.workspace.team_id)
    branch = asked(request, "branch")["branch"]

    def pushed():
        operation = operations.wait(export.push(head.workspace, branch, by=request.caller.actor), 120)
        if not operations.is_over(operation) or not operation.outcome["ok"]:
            raise invalid((operation.outcome or {}).get("reason") or gettext("Still pushing; see the timeline."))
        return operation

    return carry_out(request, pushed, then=_changes(team, key, ""), say=lambda operation: operation.outcome["reason"])
