"""The Network page of a workspace: blocked and allowed hosts, and the buttons that allow or revoke one."""

from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.pages import as_uuid, asked, carry_out, must, signed_in
from dashboard.problems import invalid
from workspaces.pages.header import load_header
from workspaces.services import box_ports, host_ports, network

SCOPES = [
    ("once", gettext_lazy("Once"), gettext_lazy("for one connection")),
    ("workspace", gettext_lazy("For this workspace"), gettext_lazy("until you revoke it")),
    ("environment", gettext_lazy("For the environment"), gettext_lazy("for this workspace and new ones")),
]
PHASES = {"setup": "setup", "agent": "agent"}


@signed_in
@require_safe
def page(request, team, key):
    head = load_header(request, team, key, "workspace-network")
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
        "may_set_host_ports": may_widen and not workspace.trashed_at,
        "may_close": request.caller.can("use_workspace", workspace.team_id),
        "scopes": [scope for scope in SCOPES if scope[0] != "environment" or may_widen],
    }
    return render(request, "workspaces/network.html", context)


@signed_in
@require_POST
def allow(request, team, key):
    """Allow a blocked host, or any other."""
    head = load_header(request, team, key, "workspace-network")
    wish = asked(request, "host", "port", "scope", "phase")
    verb = "manage_environments" if wish["scope"] == "environment" else "allow_host"
    must(request.caller, verb, head.workspace.team_id)

    def done():
        port = wish.pop("port")
        if port and not (port.isdecimal() and len(port) < 6):
            raise invalid(gettext("A port is a number from 1 to 65535."))
        checked = network.check_request(head.workspace, {**wish, "port": None if port in ("80", "443") else port})
        return network.allow(head.workspace, checked, by=request.caller.actor)

    return carry_out(
        request,
        done,
        then=reverse("workspace-network", args=[team, key]),
        say=lambda made: gettext("%(rule)s is now allowed. No restart needed.") % {"rule": made.rule},
    )


@signed_in
@require_POST
def close_port(request, team, key):
    """Stop forwarding a port of a connected folder's box to this machine."""
    head = load_header(request, team, key, "workspace-network")
    must(request.caller, "use_workspace", head.workspace.team_id)
    port = asked(request, "port")["port"]
    return carry_out(
        request,
        lambda: box_ports.close(head.workspace, int(port) if port.isdecimal() else 0, by=request.caller.actor),
        then=reverse("workspace-network", args=[team, key]),
        say=gettext("Port %(port)s is closed until its program listens again.") % {"port": port},
    )


@signed_in
@require_POST
def set_host_port(request, team, key):
    """Let a connected folder's box reach one more port of this machine, or no longer (`end`)."""
    head = load_header(request, team, key, "workspace-network")
    must(request.caller, "manage_environments", head.workspace.team_id)
    wish = asked(request, "port", "end")

    def done():
        if not (wish["port"].isdecimal() and len(wish["port"]) < 6):
            raise invalid(gettext("A port is a number from 1 to 65535."))
        port, now = int(wish["port"]), head.workspace.host_ports
        wanted = [each for each in now if each != port] if wish["end"] else [*now, port]
        host_ports.set_ports(head.workspace, wanted, by=request.caller.actor)

    ended = gettext("The box can no longer reach port %(port)s of this machine.")
    said = ended if wish["end"] else gettext("The box can now reach port %(port)s of this machine.")
    return carry_out(
        request,
        done,
        then=reverse("workspace-network", args=[team, key]),
        say=said % {"port": wish["port"]},
    )


@signed_in
@require_POST
def revoke(request, team, key):
    head = load_header(request, team, key, "workspace-network")
    must(request.caller, "allow_host", head.workspace.team_id)
    return carry_out(
        request,
        lambda: network.revoke(
            network.find_allowance(head.workspace, as_uuid(asked(request, "allowance")["allowance"])),
            by=request.caller.actor,
        ),
        then=reverse("workspace-network", args=[team, key]),
        say=gettext("Revoked. Connections that it allowed are closed within seconds."),
    )
