"""Allowing for a while from a card, and taking it back."""

from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from approvals import grants
from approvals.models import Action, Grant
from approvals.reading import with_all
from dashboard.pages import asked, came_from, carry_out, must, signed_in


@signed_in
@require_POST
def give(request, pk):
    """Approve this card, and what it covers for a while."""
    action = get_object_or_404(with_all(Action.objects.visible_to(request.caller)), pk=pk)
    must(request.caller, "decide", action.team_id)
    wish = asked(request, "digest", "covers", "minutes", "uses")
    return carry_out(
        request,
        lambda: grants.give(
            action,
            caller=request.caller,
            digest=wish["digest"],
            covers=wish["covers"] or grants.EXACT,
            minutes=_number(wish["minutes"]),
            uses=_number(wish["uses"]),
        ),
        then=reverse("action", args=[pk]),
        say=_given,
    )


def _given(grant) -> str:
    until = f"{timezone.localtime(grant.expires_at):%H:%M}"
    return f"Approved, and allowed until {until}, {grant.uses_left} times at most."


def _number(text: str) -> int:
    """0, which no grant takes, for what is no number."""
    return int(text) if text.isdecimal() and len(text) < 6 else 0


@signed_in
@require_POST
def revoke(request, pk):
    grant = get_object_or_404(Grant.objects.visible_to(request.caller), pk=pk)
    must(request.caller, "decide", grant.team_id)
    return carry_out(
        request,
        lambda: grants.revoke(grant.pk, caller=request.caller),
        then=came_from(request, reverse("policy")),
        say="Taken back. From now on it waits for a person again.",
    )
