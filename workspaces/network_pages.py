"""The Network page of a workspace: what was held back, what went out, and the buttons that allow a host."""

from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.pages import as_uuid, asked, carry_out, must, signed_in
from dashboard.problems import invalid
from workspaces import network
from workspaces.head import look

SCOPES = [
    ("once", "Once", "for one connection"),
    ("workspace", "For this workspace", "until you take it back"),
    ("environment", "For the environment", "for this workspace, and for each new one"),
]
PHASES = {"setup": "set-up", "agent": "agent"}


@signed_in
@require_safe
def page(request, team, key):
    head = look(request, team, key, "workspace-network")
    workspace = head.workspace
    may_allow = request.caller.can("allow_host", workspace.team_id) and not workspace.trashed_at
    may_widen = request.caller.can("manage_environments", workspace.team_id)
    found = network.shown(workspace)
    context = {
        "nav": "workspaces",
        "head": head,
        **found,
        "phase_words": PHASES[found["phase"]],
        "lists": [(PHASES[phase], hosts, phase == found["phase"]) for phase, hosts in found["lists"].items()],
        "may_allow": may_allow,
        "scopes": [scope for scope in SCOPES if scope[0] != "environment" or may_widen],
    }
    return render(request, "workspaces/network.html", context)


@signed_in
@require_POST
def allow(request, team, key):
    """Allow a host that was held back, or any other."""
    head = look(request, team, key, "workspace-network")
    wish = asked(request, "host", "port", "scope", "phase")
    verb = "manage_environments" if wish["scope"] == "environment" else "allow_host"
    must(request.caller, verb, head.workspace.team_id)

    def done():
        port = wish.pop("port")
        if port and not (port.isdecimal() and len(port) < 6):
            raise invalid("A port is a number from 1 to 65535.")
        checked = network.check_wish(head.workspace, {**wish, "port": None if port in ("80", "443") else port})
        return network.allow(head.workspace, checked, by=request.caller.actor)

    return carry_out(
        request,
        done,
        then=reverse("workspace-network", args=[team, key]),
        say=lambda made: f"{made.rule} may be reached now; nothing has to be restarted.",
    )


@signed_in
@require_POST
def take_back(request, team, key):
    head = look(request, team, key, "workspace-network")
    must(request.caller, "allow_host", head.workspace.team_id)
    return carry_out(
        request,
        lambda: network.take_back(
            network.find_allowance(head.workspace, as_uuid(asked(request, "allowance")["allowance"])),
            by=request.caller.actor,
        ),
        then=reverse("workspace-network", args=[team, key]),
        say="Taken back. Connections that are open stay open.",
    )
