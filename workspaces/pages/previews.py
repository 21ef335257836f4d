"""Open the preview of a port: a ticket for its own host name, in a new tab."""

from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from dashboard.web.pages import must, signed_in, take_form
from workspaces.pages import network
from workspaces.pages.header import load_header
from workspaces.services import previews


@network.may_lead_to_previews
@signed_in
@never_cache
@require_POST
def open_one(request, team, key):
    head = load_header(request, team, key, "workspace-network")
    must(request.caller, "preview", head.workspace.team_id)

    def opened(fields) -> str:
        session_key = request.session.session_key
        return previews.open_for(head.workspace, fields["port"], caller=request.caller, session_key=session_key)

    return take_form(
        request,
        network.preview_form(request.POST),
        opened,
        shown=lambda form: network.shown(request, head, preview_form=form),
        then=lambda address: address,
        otherwise=reverse("workspace-network", args=[team, key]),
        at="port",
    )
