"""The page of the morning: the same as the digest that is sent, with its rows."""

from django.shortcuts import render
from django.views.decorators.http import require_safe

from approvals.evaluation.duty import settings_of
from approvals.notify.morning import morning_of
from dashboard.database import clock
from dashboard.web.pages import signed_in


@signed_in
@require_safe
def morning(request):
    """Show what ended, what asks, what it cost and what looked odd in the last 24 hours, for each team."""
    now = clock.now()
    found = morning_of(request.caller, now)
    context = {"nav": "tasks", "teams": found, "digest_at": settings_of(request.user).digest_at}
    return render(request, "approvals/morning.html", context)
