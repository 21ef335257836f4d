"""Give a grant on a page of its card, and revoke it."""

from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlencode

from django.contrib import messages
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_POST

from approvals.actions import expiry, grant_scopes, grants
from approvals.models import Action, Grant
from approvals.pages.card import Card, for_rows
from approvals.pages.list_filters import chosen_filters, filter_query
from approvals.reports.policy_changes import proposals
from dashboard.database import clock
from dashboard.templatetags.handrail import clock as clock_time
from dashboard.web.pages import READ_OR_WRITE, came_from, carry_out, must, parameters, signed_in

TODAY = "today"  # until midnight in the zone of the person who gives the grant
DURATIONS = [
    ("30", gettext_lazy("30 minutes")),
    ("120", gettext_lazy("2 hours")),
    ("480", gettext_lazy("8 hours")),
    (TODAY, gettext_lazy("Today")),
]
USES = [
    ("1", gettext_lazy("once")),
    ("5", gettext_lazy("5 times")),
    ("20", gettext_lazy("20 times")),
    ("100", gettext_lazy("100 times")),
]
MAX_EXAMPLES = 3


@dataclass(frozen=True)
class Choice:
    """A scope on the page: what it would have covered in the last week, and the address that makes a rule of it."""

    scope: grant_scopes.Scope
    covered: list[Action]
    rule_url: str

    @property
    def shown(self) -> list[Action]:
        return self.covered[:MAX_EXAMPLES]

    @property
    def more(self) -> int:
        return len(self.covered) - len(self.shown)


@signed_in
@READ_OR_WRITE
def allow(request, pk):
    """Show what calls like this could be allowed, and for how long; or approve this one and give the grant."""
    action = get_object_or_404(for_rows(Action.objects.visible_to(request.caller)), pk=pk)
    expiry.end_if_due(action)
    must(request.caller, "decide", action.team_id)
    if request.method == "POST":
        return _give(request, action)
    card = Card(action, request.caller, clock.now())
    scopes = grant_scopes.of_action(action) if card.may_decide else []
    if not scopes:
        messages.info(request, gettext("This request offers nothing to allow beyond itself."))
        return redirect(reverse("action", args=[pk]) + filter_query(chosen_filters(request)))
    context = {
        "nav": "waiting",
        "card": card,
        "choices": [_choice(request, action, scope) for scope in scopes],
        "durations": DURATIONS,
        "uses": USES,
        "days": grants.LOOKS_BACK.days,
        "place": filter_query(chosen_filters(request)),
    }
    return render(request, "approvals/allow.html", context)


def _choice(request, action: Action, scope: grant_scopes.Scope) -> Choice:
    rule_url = ""
    if scope.rules and request.caller.can("write_policy", action.team_id):
        added = urlencode({"add": scope.rules, "card": action.number}, doseq=True)
        rule_url = f"{reverse('policy-edit')}?{proposals.scope_of(action).query}&{added}"
    return Choice(scope, grants.examples(action, scope), rule_url)


def _give(request, action: Action):
    """Approve the action and give a grant for what the form chose."""
    wish = parameters(request, "digest", "covers", "minutes", "uses")
    return carry_out(
        request,
        lambda: grants.approve_and_grant(
            action,
            caller=request.caller,
            digest=wish["digest"],
            covers=wish["covers"] or grants.EXACT,
            minutes=_until_midnight() if wish["minutes"] == TODAY else _number(wish["minutes"]),
            uses=_number(wish["uses"]),
        ),
        then=reverse("action", args=[action.pk]) + filter_query(chosen_filters(request)),
        say=_given,
    )


def _until_midnight() -> int:
    """Return the minutes until the end of today in the viewer's zone, at least one."""
    now = timezone.localtime()
    tomorrow = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return max(1, int((tomorrow - now).total_seconds() // 60))


def _given(grant) -> str:
    return format_html(
        gettext("Approved. Auto-approved until {}, at most {} times."), clock_time(grant.expires_at), grant.uses_left
    )


def _number(text: str) -> int:
    """Parse a number; 0, which grants.approve_and_grant refuses, for any other text."""
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
        say=gettext("Revoked. These calls need approval again."),
    )
