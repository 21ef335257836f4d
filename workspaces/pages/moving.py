"""The page that moves a workspace to another host, or under another environment; it says first what happens."""

from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext

from dashboard.web.pages import READ_OR_WRITE, carry_out, must, parameters, signed_in
from workspaces.models import Environment, Runner, State
from workspaces.pages.header import load_header
from workspaces.services import environments, hosts
from workspaces.services.hosts import moving


@signed_in
@READ_OR_WRITE
def move(request, team, key):
    """Show where a workspace can go, and what a move does; a POST moves it."""
    head = load_header(request, team, key, "workspace")
    must(request.caller, "move_workspace", head.workspace.team_id)
    here = reverse("workspace", args=[team, key])
    if request.method == "POST":
        return carry_out(
            request,
            lambda: _move(request, head.workspace),
            then=here,
            say=gettext("%(key)s is moved.") % {"key": key} if head.workspace.state == State.ARCHIVED else "",
            otherwise=reverse("workspace-move", args=[team, key]),
        )
    context = {"nav": "workspaces", "head": head, "stays": moving.why_it_stays(head.workspace)}
    context |= {"hosts": _other_hosts(head.workspace), "environments": _others(head.workspace)}
    context["ends"] = head.workspace.state in (State.READY, State.PAUSED)
    return render(request, "workspaces/move.html", context)


def _move(request, workspace):
    named = parameters(request, "host", "environment")
    under = moving.environment_named(workspace, named["environment"], request.caller) if named["environment"] else None
    moving.move(workspace, hosts.find(named["host"]) if named["host"] else None, under, by=request.caller.actor)


def _other_hosts(workspace) -> list[Runner]:
    """Return the other hosts that answer and run workspaces."""
    rows = Runner.objects.members().alive().exclude(pk=workspace.runner_id).filter(lost_at=None, draining_at=None)
    return [row for row in rows.order_by("host") if row.runs("runner")]


def _others(workspace) -> list[Environment]:
    """Return the newest versions of the team's other environments that make no connected folders."""
    rows = environments.newest_versions([workspace.team_id]).to_make_from().order_by("name")
    return [row for row in rows if row.name != workspace.environment.name and not row.capabilities.own_folder]
