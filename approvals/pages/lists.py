"""Pages that list actions: those that need approval, and the history."""

from datetime import timedelta
from urllib.parse import urlencode

from django.db.models import Q
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from approvals.models import UNDO, Action, Decision, Status, Tier
from approvals.pages.card import cards_of, for_rows
from approvals.pages.filter_bar import filter_bar
from approvals.pages.list_filters import MAX_LISTED, chosen_filters, filter_query, listed_for, pending_for
from approvals.pages.list_rows import entries_of, rows_of
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.templatetags.handrail import thousands
from dashboard.text.labels import TIERS
from dashboard.text.labels import UNDO as UNDO_WORDS
from dashboard.web import spans
from dashboard.web.background_requests import takes_parts
from dashboard.web.pages import Slice, as_uuid, go_to, parameters, signed_in, without

FIRST_ROWS = 30  # of the list; the others are fetched when somebody scrolls to them
OUTCOMES = {
    "waiting": (gettext_lazy("Needs approval"), Q(status=Status.PENDING)),
    "ran": (gettext_lazy("Ran"), Q(status__in=[Status.SUCCEEDED, Status.RUNNING, Status.APPROVED, Status.FAILED])),
    "denied": (gettext_lazy("Denied"), Q(status=Status.DENIED)),
    "expired": (gettext_lazy("Expired or cancelled"), Q(status__in=[Status.EXPIRED, Status.CANCELLED])),
    "wrong": (gettext_lazy("Failed or unclear"), Q(status__in=[Status.FAILED, Status.UNCERTAIN])),
    "asked": (gettext_lazy("Asked a person"), ~Q(tier__in=[Tier.LOW, Tier.MEDIUM]) & Q(grant=None)),
}


@signed_in
@require_safe
def waiting(request):
    """Show what waits for approval; on a wide screen lead to the first card, which has the list beside it."""
    caller, now = request.caller, clock.now()
    chosen = chosen_filters(request)
    entries, similar = entries_of(listed_for(caller, now, chosen))
    if entries and opens_beside(request):
        return go_to(request, reverse("action", args=[entries[0].pks[0]]) + filter_query(chosen))
    shown = _row_count(request)
    return render(
        request,
        "approvals/waiting.html",
        {
            "nav": "waiting",
            "rows": rows_of(entries[:shown], caller, now),
            "more": len(entries) - shown,
            "more_url": f"?{urlencode({**_named(chosen), 'rows': shown * 2})}",
            "similar": [group for group in similar if caller.can("decide", group.actions[0].team_id)],
            "place": filter_query(chosen),
            "bar": filter_bar(reverse("waiting"), pending_for(caller, now), now, chosen),
            "filtered": any(value for name, value in chosen.items() if name != "sort"),
            "quiet": quiet_words(caller),
            "first_run": not Agent.objects.visible_to(caller).exists(),
        },
    )


def opens_beside(request) -> bool:
    """Return whether the page is opened, not refreshed, by a browser that is known to have room for list and card."""
    return request.COOKIES.get("handrail-wide") == "1" and not takes_parts(request)


def _row_count(request) -> int:
    """Return how many rows are sent: FIRST_ROWS, and more where somebody scrolled to their end."""
    wanted = request.GET.get("rows", "")
    return min(max(int(wanted), FIRST_ROWS), MAX_LISTED) if wanted.isdecimal() and len(wanted) < 6 else FIRST_ROWS


def _named(chosen) -> dict[str, str]:
    return {name: value for name, value in chosen.items() if value}


def _chip(request, name, value, words, chosen, count=None):
    query = request.GET.copy()
    is_chosen = chosen[name] == value
    if is_chosen:
        query.pop(name)
    else:
        query[name] = value
    query.pop("before", None)
    return f"?{query.urlencode()}", words, is_chosen, count


def quiet_words(caller) -> str:
    """Return what an empty queue says: "Nothing needs approval. 4 agents are working; 31 actions ran today …"."""
    now = timezone.now()
    agents = Agent.objects.visible_to(caller).filter(last_seen_at__gte=now - timedelta(minutes=30)).count()
    today = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    unasked = Q(tier__in=[Tier.LOW, Tier.MEDIUM]) | Q(grant__isnull=False)
    ran = Action.objects.visible_to(caller).filter(unasked, created_at__gte=today).count()
    works = gettext("No agent is working")
    if agents:
        works = ngettext("One agent is working", "%(n)s agents are working", agents) % {"n": agents}
    acted = ngettext("1 action auto-approved today", "%(n)s actions auto-approved today", ran) % {"n": thousands(ran)}
    return gettext("Nothing needs approval. %(works)s; %(acted)s.") % {"works": works, "acted": acted}


@signed_in
@require_safe
def history(request):
    caller = request.caller
    chosen = parameters(request, "outcome", "agent", "workspace", "tier", "undo", "person", "rule")
    rows, span = Action.objects.visible_to(caller), None
    if parameters(request, "since")["since"]:
        span = spans.span_of(request, clock.now())
        inside = Q(created_at__lt=span.until) if span.until else Q()
        rows = rows.filter(inside, created_at__gte=span.since)
    page = Slice(request, for_rows(_filtered_history(rows, chosen)))
    cards = cards_of(page, caller, clock.now())
    chips = [(f"?{without(request, 'outcome')}", gettext("All"), not chosen["outcome"], None)]
    chips += [_chip(request, "outcome", name, words, chosen) for name, (words, _) in OUTCOMES.items()]
    return render(
        request,
        "approvals/history.html",
        {
            "nav": "history",
            "page": page,
            "cards": cards,
            "days": _by_day(cards),
            "chosen": chosen,
            "span_words": spans.in_words(span) if span else "",
            "without_span": f"?{without(request, *spans.NAMES)}",
            "filtered": bool(span) or any(chosen.values()),
            "outcomes": chips,
            "agents": Agent.objects.visible_to(caller).select_related("owner").order_by("name")[:200],
            "tiers": [(tier.value, TIERS[tier.value][0]) for tier in Tier],
            "undos": [(undo, UNDO_WORDS[undo][0]) for undo in UNDO],
        },
    )


def _filtered_history(actions, chosen):
    if chosen["outcome"]:
        actions = actions.filter(OUTCOMES[chosen["outcome"]][1]) if chosen["outcome"] in OUTCOMES else actions.none()
    if chosen["agent"]:
        actions = actions.filter(agent=as_uuid(chosen["agent"]))
    if chosen["workspace"]:
        actions = actions.filter(workspace__key=chosen["workspace"])
    if chosen["tier"]:
        actions = actions.filter(tier=chosen["tier"])
    if chosen["undo"]:
        actions = actions.filter(undo=chosen["undo"])
    if chosen["person"]:
        actions = actions.filter(pk__in=Decision.objects.filter(user__username=chosen["person"]).values("action"))
    if chosen["rule"]:
        actions = actions.filter(revisions__rule__icontains=chosen["rule"]).distinct()
    return actions


def _by_day(cards) -> list[dict]:
    days: dict = {}
    for card in cards:
        days.setdefault(timezone.localtime(card.action.created_at).date(), []).append(card)
    return [{"day": day, "id": f"day-{day.isoformat()}", "cards": found} for day, found in days.items()]
