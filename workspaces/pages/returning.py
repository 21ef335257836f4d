"""Before a resume: with which files the workspace comes back."""

from django.contrib import messages
from django.shortcuts import redirect, render
from django.utils.translation import gettext

from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, must, parameters, signed_in
from workspaces.pages.header import load_header
from workspaces.pages.points import points_of
from workspaces.services import environments, returning
from workspaces.services.returning import Choice


@signed_in
@READ_OR_WRITE
def choose(request, team, key):
    """Show the choices; a POST submits one and redirects to the workspace."""
    head = load_header(request, team, key, "workspace")
    workspace, caller = head.workspace, request.caller
    must(caller, "use_workspace", workspace.team_id)
    named, problem = parameters(request, "choice", "snapshot", "environment"), ""
    if request.method == "POST":
        try:
            _must_be_allowed(caller, workspace, named["choice"])
            wish = {"number": _number(named["snapshot"]), "environment": named["environment"]}
            _, kept = returning.come_back(workspace, named["choice"], caller=caller, **wish)
        except Problem as refused:
            problem = refused.detail
        else:
            if kept is not None:
                messages.success(request, gettext("The previous files are kept as %(key)s.") % {"key": kept.key})
            return redirect("workspace", team, key)
    found = {
        "nav": "workspaces",
        "head": head,
        "problem": problem,
        "chosen": named["choice"] or Choice.SAME.value,
        "points": [point for point in points_of(workspace) if point[0] != "live"],
        "clean": returning.clean_source(workspace),
        "beside_notes": returning.source_beside_notes(workspace),
        "environments": environments.to_move_to(workspace) if head.may_rebuild else [],
        "environment": named["environment"],
    }
    return render(request, "workspaces/return.html", found, status=409 if problem else 200)


def _must_be_allowed(caller, workspace, choice: str):
    """Raise PermissionDenied if the choice needs a right that the caller does not have."""
    if needed := returning.NEEDS.get(choice):
        must(caller, needed, workspace.team_id)


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None
