"""The page of what was installed in a workspace's home, with the form that keeps it in the environment."""

from django.contrib import messages
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from dashboard.problems import Problem
from dashboard.web.pages import READ_OR_WRITE, carry_out, must, signed_in
from workspaces.models import Environment
from workspaces.pages.header import load_header
from workspaces.services.environments import installed as installed_files
from workspaces.services.environments import newest_of


@signed_in
@READ_OR_WRITE
def installed(request, team, key):
    """Show what its home has that its environment did not give; a POST keeps the ticked folders for new workspaces."""
    head = load_header(request, team, key, "workspace")
    workspace = head.workspace
    context = {"nav": "workspaces", "head": head, "environment": newest_of(workspace.environment)}
    if request.method == "POST":
        must(request.caller, "manage_environments", workspace.team_id)
        wish = {"replace": request.POST.get("replace") == "yes", "by": request.caller.actor}
        try:
            operation = installed_files.keep_in_environment(workspace, request.POST.getlist("folder"), **wish)
        except Problem as problem:
            context["not_kept"] = problem.detail
        else:
            messages.success(request, gettext("It is being kept."))
            return redirect("workspace-operation", team, key, operation.pk)
    try:
        found = installed_files.compare_with_layer(workspace)
    except Problem as problem:
        return render(request, "workspaces/installed.html", context | {"refused": problem.detail})
    context |= {
        "found": found,
        "offered": [folder for folder in found["folders"] if folder["can_be_kept"]],
        "others": [folder for folder in found["folders"] if not folder["can_be_kept"]],
        "may_keep": request.caller.can("manage_environments", workspace.team_id) and not found["why_not"],
        "replaces": found["newest_layer"] if found["newest_layer"] != found["layer"] else None,
    }
    return render(request, "workspaces/installed.html", context)


@signed_in
@require_POST
def go_back(request, pk):
    """Save the environment's next version with the installed files before the present ones."""
    environment = get_object_or_404(Environment.objects.visible_to(request.caller).select_related("team"), pk=pk)
    must(request.caller, "manage_environments", environment.team)
    return carry_out(
        request,
        lambda: installed_files.go_back(environment, by=request.caller.actor),
        then=lambda made: reverse("environment", args=[made.pk]),
        otherwise=reverse("environment", args=[pk]),
        say=lambda made: gettext("Version %(version)s saved.") % {"version": made.version},
    )
