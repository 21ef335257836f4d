"""An agent's page: whose it is, where it may work, and what it did on a day."""

from datetime import timedelta

from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from approvals.agent_day import actions_of, day_of, places_of
from approvals.pages.card import cards_of, for_rows
from approvals.pages.changed import Row
from dashboard import clock, spans
from dashboard.models import Agent, Token
from dashboard.pages import Slice, asked, signed_in

MAX_PLACES = 20  # workspaces listed at the top


@signed_in
@require_safe
def agent(request, pk):
    caller, now = request.caller, clock.now()
    found = get_object_or_404(Agent.objects.visible_to(caller).select_related("owner", "team"), pk=pk)
    today = timezone.localtime(now).date()
    day = spans.day_of(asked(request, "day")["day"]) or today
    since, until = spans.moment_of(f"{day}"), spans.moment_of(f"{day}", days=1)
    page = Slice(request, for_rows(actions_of(found, caller, since, until)))
    places = list(places_of(found, caller)[: MAX_PLACES + 1])
    did = day_of(found, caller, since, until)
    return render(
        request,
        "approvals/agent.html",
        {
            "nav": "agents",
            "agent": found,
            "places": places[:MAX_PLACES],
            "more_places": len(places) > MAX_PLACES,
            "tokens": Token.objects.live().visible_to(caller).filter(agent=found).count(),
            "day": day,
            "days": _days(day, today),
            "did": did,
            "changed": [Row(each) for each in did.changed.rows],
            "page": page,
            "cards": cards_of(page, caller, now),
        },
    )


def _days(day, today) -> list[tuple]:
    """Return today, yesterday, and the days beside the shown one, for parts/filters.html."""
    named = {today: gettext("Today"), today - timedelta(days=1): gettext("Yesterday")}
    beside = {day - timedelta(days=1): gettext("The day before"), day + timedelta(days=1): gettext("The day after")}
    others = {each: label for each, label in beside.items() if each not in named and each < today}
    return [(f"?day={each}", label, each == day, None) for each, label in (named | others).items()]
