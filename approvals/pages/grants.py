"""Give a grant on a card, and revoke it."""

from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.html import format_html
from django.views.decorators.http import require_POST

from approvals import grants
from approvals.evaluation import with_all
from approvals.models import Action, Grant
from dashboard.pages import asked, came_from, carry_out, must, signed_in
from dashboard.templatetags.handrail import clock as clock_time


@signed_in
@require_POST
def give(request, pk):
    """Approve the action and give a grant for what the form chose."""
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
    return format_html(
        "Approved. Auto-approved until {}, at most {} times.", clock_time(grant.expires_at), grant.uses_left
    )


def _number(text: str) -> int:
    """Parse a number; 0, which grants.give refuses, for any other text."""
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
        say="Revoked. These calls need approval again.",
    )
