"""Make a rule of the policy from a card: which rules it suggests, what each covers, and the way to the editor."""

from dataclasses import dataclass

from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from approvals.models import Action, Tier
from approvals.pages.card import Card, for_rows
from approvals.pages.list_filters import chosen_filters, filter_query
from approvals.reports.policy_changes import proposals
from approvals.reports.policy_changes.proposals import Proposal
from dashboard.database import clock
from dashboard.web.pages import must, signed_in

# {list of a policy: (heading, what a rule in it does)}.
LISTS = {
    Tier.LOW: (gettext_lazy("Let it run"), gettext_lazy("Calls that the rule covers run without approval.")),
    Tier.HIGH: (gettext_lazy("Always ask"), gettext_lazy("Calls that the rule matches need a person's approval.")),
    Tier.FORBIDDEN: (gettext_lazy("Forbid"), gettext_lazy("Calls that the rule matches are refused.")),
}


@dataclass(frozen=True)
class Offer:
    """A rule on the page, and the address of the editor with the rule added."""

    proposal: Proposal
    url: str


@signed_in
@require_safe
def rule_of_card(request, pk):
    action = get_object_or_404(for_rows(Action.objects.visible_to(request.caller)), pk=pk)
    must(request.caller, "write_policy", action.team_id)
    scope = proposals.scope_of(action)
    found = proposals.of_action(action)
    lists = [
        {
            "tier": tier.value,
            "heading": LISTS[tier][0],
            "does": LISTS[tier][1],
            "offers": _offers(scope, action, tier, found),
        }
        for tier in proposals.LISTS
        if found.get(tier.value)
    ]
    context = {"nav": "policy", "card": Card(action, request.caller, clock.now()), "scope": scope, "lists": lists}
    context["place"] = filter_query(chosen_filters(request))
    return render(request, "approvals/policy_rule.html", context)


def _offers(scope, action: Action, tier: Tier, found: dict) -> list[Offer]:
    edit = f"{reverse('policy-edit')}?{scope.query}"
    return [
        Offer(each, f"{edit}&{urlencode({'add': each.rule, 'to': tier.value, 'card': action.number})}")
        for each in found[tier.value]
    ]
