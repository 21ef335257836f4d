"""Ask to take back outside what an action did there."""

from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from approvals.actions import compensations
from approvals.pages.actions import find_action
from dashboard.web.pages import carry_out, must, signed_in


@signed_in
@require_POST
def compensate(request, pk):
    """Submit the compensating call, and show its card."""
    found = find_action(request, pk)
    must(request.caller, "take_back", found.team_id)
    return carry_out(
        request,
        lambda: compensations.compensate(found, caller=request.caller)[0],
        then=lambda made: reverse("action", args=[made.pk]),
        otherwise=reverse("action", args=[pk]),
        say=gettext("Nothing is taken back yet: this call needs approval as any other."),
    )
