"""Forms of a card: snooze it for oneself, bring it back, ask one person by name."""

from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext
from django.views.decorators.http import require_POST

from approvals.actions import attention
from approvals.pages.actions import find_action
from approvals.pages.list_filters import chosen_filters, filter_query
from dashboard.templatetags.handrail import clock as clock_time
from dashboard.web.pages import carry_out, must, parameters, signed_in


@signed_in
@require_POST
def snooze(request, pk):
    """Hide the card from one's own list for a while."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    typed = parameters(request, "minutes")["minutes"]
    minutes = int(typed) if typed.isascii() and typed.isdigit() and len(typed) < 6 else 0
    then = reverse("waiting") + filter_query(chosen_filters(request))

    def said(until) -> str:
        return format_html(gettext("Snoozed for you until {}."), clock_time(until))

    return carry_out(
        request, lambda: attention.snooze(found, caller=request.caller, minutes=minutes), then=then, say=said
    )


@signed_in
@require_POST
def wake(request, pk):
    """Bring the card back into one's own list."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    here = reverse("action", args=[pk]) + filter_query(chosen_filters(request))
    say = gettext("It is back in your list.")
    return carry_out(request, lambda: attention.wake(found, caller=request.caller), then=here, say=say)


@signed_in
@require_POST
def pass_to(request, pk):
    """Ask one person by name to decide."""
    found = find_action(request, pk)
    must(request.caller, "decide", found.team_id)
    name = parameters(request, "to")["to"][:150]
    here = reverse("action", args=[pk]) + filter_query(chosen_filters(request))
    say = gettext("Passed to %(name)s. Others may still decide.") % {"name": name}
    return carry_out(request, lambda: attention.pass_to(found, caller=request.caller, name=name), then=here, say=say)
