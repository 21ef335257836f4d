"""The page of what a workspace's repository says about its set-up. A lead confirms it in the environment's form."""

from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.web.pages import signed_in
from workspaces.pages.header import load_header
from workspaces.services.environments import newest_of


@signed_in
@require_safe
def suggested(request, team, key):
    head = load_header(request, team, key, "workspace")
    workspace = head.workspace
    context = {
        "nav": "workspaces",
        "head": head,
        "environment": newest_of(workspace.environment),
        "may_use": request.caller.can("manage_environments", workspace.team_id) and not workspace.own_folder,
    }
    return render(request, "workspaces/repository_files.html", context)
