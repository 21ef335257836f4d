"""The page of deliveries of action callbacks: the webhooks that tell agents' instances of decisions, and once more."""

from django.core.exceptions import PermissionDenied
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST, require_safe

from approvals.models import AapRequest
from approvals.protocols.aap import deliveries
from dashboard.database import clock
from dashboard.models import Team
from dashboard.web.pages import carry_out, must, signed_in

MAX_INSTANCES = 50


@signed_in
@require_safe
def listing(request):
    """List the instances with a receiver of the teams that this person administers, each with its newest webhooks."""
    teams = [team for team in Team.objects.visible_to(request.caller) if request.caller.can("manage_log_targets", team)]
    if not teams:
        raise PermissionDenied("manage_log_targets")
    now = clock.now()
    rows = [
        (each, deliveries.host_of(each), deliveries.of_instance(each, now))
        for each in deliveries.instances_of([team.pk for team in teams])[:MAX_INSTANCES]
    ]
    return render(request, "approvals/callbacks.html", {"nav": "log-targets", "rows": rows, "now": now})


@signed_in
@require_POST
def send_again(request, pk):
    rows = AapRequest.objects.filter(agent__team__in=request.caller.team_ids)
    found = get_object_or_404(rows.select_related("agent__team", "instance", "action"), pk=pk)
    must(request.caller, "manage_log_targets", found.agent.team)
    return carry_out(
        request,
        lambda: deliveries.send_again(found, caller=request.caller),
        then=reverse("callbacks"),
        say=gettext("It is sent again, with the same id."),
    )
