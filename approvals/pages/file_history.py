"""The history of a file, and who wrote each of its lines: pages below the Files tab."""

from urllib.parse import quote_from_bytes

from django.http import Http404
from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.reports import file_history
from dashboard.problems import Problem
from dashboard.web.pages import signed_in
from workspaces.changes.highlight import coloured_lines
from workspaces.pages.header import load_header
from workspaces.pages.points import parse_point, path_in

SHOWN_ACTS = 5  # of one version; the rest is counted


@signed_in
@require_safe
def history(request, team, key):
    """List the versions of a file with what changed it."""
    context, changes = _load(request, team, key)
    context["rows"] = [(change, *_acts(change)) for change in changes]
    return render(request, "approvals/file_history.html", context)


@signed_in
@require_safe
def blame(request, team, key):
    """Show each line of a file beside what it comes from."""
    context, changes = _load(request, team, key)
    try:
        runs = file_history.traced(context["head"].workspace, changes) if changes else []
    except Problem as problem:
        context["refused"], runs = problem.detail, []
    text = b"".join(line for run in runs for line in run.lines).decode("utf-8", "surrogateescape")
    html = coloured_lines(text, context["path"]) if runs else []
    context["runs"] = [(run, *_acts(run.change), html[run.first - 1 : run.first - 1 + len(run.lines)]) for run in runs]
    return render(request, "approvals/file_blame.html", context)


def _load(request, team, key) -> tuple[dict, list]:
    """Return what both pages show, and the file's changes; [] and `refused` if they cannot be read."""
    head = load_header(request, team, key, "workspace-files")
    path, at = path_in(request), parse_point(request.GET.get("at", ""), "live")
    context = {
        "nav": "workspaces",
        "head": head,
        "path": path.decode("utf-8", "surrogateescape"),
        "query": f"?at={at}&path={quote_from_bytes(path)}",
        "at": at,
        "is_folder": head.workspace.environment.capabilities.own_folder,
    }
    try:
        return context, file_history.changes_of(head.workspace, path, at)
    except Problem as problem:
        if problem.status == 404:
            raise Http404(problem.detail) from None
        return context | {"refused": problem.detail}, []


def _acts(change) -> tuple[list, int]:
    """Return the acts that are shown, the newest first, and how many are not."""
    acts = change.acts[::-1]
    return acts[:SHOWN_ACTS], max(0, len(acts) - SHOWN_ACTS)
