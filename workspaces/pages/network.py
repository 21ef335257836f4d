"""The Network page of a workspace: blocked and allowed hosts, and the buttons that allow or revoke one."""

from csp.decorators import csp_update
from django import forms
from django.conf import settings
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST, require_safe

from dashboard.problems import invalid
from dashboard.web.pages import as_uuid, carry_out, must, parameters, signed_in, take_form
from workspaces.pages.forms import HostForm, PortForm
from workspaces.pages.header import load_header
from workspaces.services import box_ports, host_ports, network, previews
from workspaces.services.screenshots import taking

# The answer of the preview's form is a redirect to the preview's host.
may_lead_to_previews = csp_update(
    {"form-action": [previews.origins()]} if settings.HANDRAIL_PREVIEW_HOST else {},
)
SCOPES = [
    ("once", gettext_lazy("Once"), gettext_lazy("for one connection")),
    ("workspace", gettext_lazy("For this workspace"), gettext_lazy("until you revoke it")),
    ("environment", gettext_lazy("For the environment"), gettext_lazy("for this workspace and new ones")),
]
PHASES = {"setup": "setup", "agent": "agent"}


@may_lead_to_previews
@signed_in
@require_safe
def page(request, team, key):
    return shown(request, load_header(request, team, key, "workspace-network"))


def shown(request, head, **refused: forms.Form):
    """Render the page; `refused` is a form with errors, by its name in `_forms`."""
    workspace = head.workspace
    may_allow = request.caller.can("allow_host", workspace.team_id) and not workspace.trashed_at
    may_widen = request.caller.can("manage_environments", workspace.team_id)
    found = network.state_of(workspace)
    context = {
        "nav": "workspaces",
        "head": head,
        **found,
        "phase_words": PHASES[found["phase"]],
        "lists": [(PHASES[phase], hosts, phase == found["phase"]) for phase, hosts in found["lists"].items()],
        "may_allow": may_allow,
        "may_set_host_ports": may_widen and not workspace.trashed_at,
        "no_preview": previews.why_not(workspace),
        "may_preview": request.caller.can("preview", workspace.team_id) and not workspace.trashed_at,
        "no_screenshot": taking.why_not(),
        "may_close": request.caller.can("use_workspace", workspace.team_id),
        "scopes": [scope for scope in SCOPES if scope[0] != "environment" or may_widen],
        **_forms(),
        **refused,
    }
    return render(request, "workspaces/network.html", context)


def _forms() -> dict:
    return {
        "preview_form": preview_form(),
        "host_port_form": _host_port_form(),
        "host_form": HostForm(auto_id="allow-%s"),
    }


def preview_form(data=None) -> PortForm:
    return PortForm(data, label=gettext("Another port"), auto_id="preview-%s")


def _host_port_form(data=None) -> PortForm:
    return PortForm(data, label=gettext("Port of a service here, such as a database"), auto_id="host-%s")


@may_lead_to_previews
@signed_in
@require_POST
def allow(request, team, key):
    """Allow a blocked host, or any other."""
    head = load_header(request, team, key, "workspace-network")
    wish = parameters(request, "port", "scope", "phase")
    verb = "manage_environments" if wish["scope"] == "environment" else "allow_host"
    must(request.caller, verb, head.workspace.team_id)

    def done(fields):
        port = wish.pop("port")
        if port and not (port.isdecimal() and len(port) < 6):
            raise invalid(gettext("A port is a number from 1 to 65535."))
        checked = network.check_request(
            head.workspace, {**wish, **fields, "port": None if port in ("80", "443") else port}
        )
        return network.allow(head.workspace, checked, by=request.caller.actor)

    return take_form(
        request,
        HostForm(request.POST, auto_id="allow-%s"),
        done,
        shown=lambda form: shown(request, head, host_form=form),
        then=reverse("workspace-network", args=[team, key]),
        at="host",
        say=lambda made: gettext("%(rule)s is now allowed. No restart needed.") % {"rule": made.rule},
    )


@signed_in
@require_POST
def close_port(request, team, key):
    """Stop forwarding a port of a connected folder's box to this machine."""
    head = load_header(request, team, key, "workspace-network")
    must(request.caller, "use_workspace", head.workspace.team_id)
    port = parameters(request, "port")["port"]
    return carry_out(
        request,
        lambda: box_ports.close(head.workspace, int(port) if port.isdecimal() else 0, by=request.caller.actor),
        then=reverse("workspace-network", args=[team, key]),
        say=gettext("Port %(port)s is closed until its program listens again.") % {"port": port},
    )


@may_lead_to_previews
@signed_in
@require_POST
def set_host_port(request, team, key):
    """Let a connected folder's box reach one more port of this machine, or no longer (`end`)."""
    head = load_header(request, team, key, "workspace-network")
    must(request.caller, "manage_environments", head.workspace.team_id)
    ends = bool(parameters(request, "end")["end"])

    def done(fields):
        port, now = fields["port"], head.workspace.host_ports
        wanted = [each for each in now if each != port] if ends else [*now, port]
        host_ports.set_ports(head.workspace, wanted, by=request.caller.actor)
        return port

    ended = gettext("The box can no longer reach port %(port)s of this machine.")
    said = ended if ends else gettext("The box can now reach port %(port)s of this machine.")
    return take_form(
        request,
        _host_port_form(request.POST),
        done,
        shown=lambda form: shown(request, head, host_port_form=form),
        then=reverse("workspace-network", args=[team, key]),
        at="port",
        say=lambda port: said % {"port": port},
    )


@signed_in
@require_POST
def revoke(request, team, key):
    head = load_header(request, team, key, "workspace-network")
    must(request.caller, "allow_host", head.workspace.team_id)
    return carry_out(
        request,
        lambda: network.revoke(
            network.find_allowance(head.workspace, as_uuid(parameters(request, "allowance")["allowance"])),
            by=request.caller.actor,
        ),
        then=reverse("workspace-network", args=[team, key]),
        say=gettext("Revoked. Connections that it allowed are closed within seconds."),
    )
