"""Pages that list actions: those that need approval, and the history."""

from datetime import timedelta
from urllib.parse import urlencode

from django.db.models import Case, Exists, IntegerField, OuterRef, Q, Value, When
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, ngettext
from django.views.decorators.http import require_safe

from approvals.models import Action, Decision, Status, Tier
from approvals.pages.alike_groups import groups_of
from approvals.pages.card import Card, cards_of, for_rows
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.templatetags.handrail import thousands
from dashboard.text.labels import TIERS
from dashboard.web.pages import Slice, as_uuid, parameters, signed_in, without

MAX_CARDS = 200  # cards listed on Approvals
FILTERS = ("tier", "workspace", "agent", "undo")  # query parameters: the filters of the list a card was opened from
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
    caller, now = request.caller, clock.now()
    chosen = parameters(request, *FILTERS)
    pending = pending_for(caller, request.user, now)
    rows = narrowed(pending, chosen)[:MAX_CARDS]
    cards = cards_of(rows, caller, now)
    return render(
        request,
        "approvals/waiting.html",
        {
            "nav": "waiting",
            "cards": cards,
            "groups": open_groups(cards),
            "place": filter_query(chosen),
            "filters": _waiting_filters(request, pending, chosen),
            "filtered": any(chosen.values()),
            "quiet": quiet_words(caller),
            "first_run": not Agent.objects.visible_to(caller).exists(),
        },
    )


def open_groups(cards: list[Card]) -> list[dict]:
    """Return the groups among the listed cards that this person may answer: [{label, count, first, is_alike}]."""
    groups = groups_of(card.action for card in cards if card.may_decide)
    return [
        {"label": each.label, "count": len(each.actions), "first": each.actions[0].pk, "is_alike": each.is_alike}
        for each in groups
    ]


def pending_for(caller, user, now):
    """Return the pending actions: those of the person's own agents first, then those that expire soonest."""
    mine = Case(When(agent__owner=user, then=Value(0)), default=Value(1), output_field=IntegerField())
    pending = Action.objects.visible_to(caller).pending().filter(expires_at__gt=now)
    return for_rows(pending.annotate(mine=mine)).order_by("mine", "expires_at", "pk")


def narrowed(actions, chosen):
    if chosen["tier"]:
        actions = actions.filter(tier=chosen["tier"])
    if chosen["workspace"]:
        actions = actions.filter(workspace__key=chosen["workspace"])
    if chosen["agent"]:
        actions = actions.filter(agent__name=chosen["agent"])
    if chosen["undo"]:
        actions = actions.filter(undo="no")
    return actions


def filter_query(chosen) -> str:
    """Return the list's filters as a query string, for the URLs of its cards and back to the list; "" if none."""
    query = urlencode({name: value for name, value in chosen.items() if value})
    return f"?{query}" if query else ""


def _waiting_filters(request, pending, chosen):
    """Return a filter chip for each value to choose from: (URL, label, whether chosen, count)."""
    plain = pending.select_related(None).prefetch_related(None).order_by()
    kinds = list(plain.values_list("tier", "workspace__key", "agent__name", "undo"))
    chips = [("?", gettext("All"), not any(chosen.values()), len(kinds))]
    for place, name, words in ((0, "tier", lambda t: TIERS[t][0]), (1, "workspace", str), (2, "agent", str)):
        values = [kind[place] for kind in kinds if kind[place]]
        if len(set(values)) > 1 or chosen[name]:
            chips += [_chip(request, name, v, words(v), chosen, values.count(v)) for v in sorted(set(values))]
    if final := sum(kind[3] == "no" for kind in kinds):
        chips.append(_chip(request, "undo", "no", gettext("Can't be undone"), chosen, final))
    return chips


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
    chosen = parameters(request, "outcome", "agent", "workspace", "tier", "person", "rule")
    page = Slice(request, for_rows(_filtered_history(Action.objects.visible_to(caller), chosen)))
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
            "filtered": any(chosen.values()),
            "outcomes": chips,
            "agents": Agent.objects.visible_to(caller).select_related("owner").order_by("name")[:200],
            "tiers": [(tier.value, TIERS[tier.value][0]) for tier in Tier],
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


def chosen_filters(request) -> dict[str, str]:
    """Return the list filters in the URL's query, for GET and POST."""
    return {name: request.GET.get(name, "").replace("\0", "").strip() for name in FILTERS}


def next_card(caller, action, now, chosen) -> Action | None:
    """Return the next action in the list that this person may still decide; after the last one the first."""
    teams = [team for team in caller.team_ids if caller.can("decide", team)]
    # Looked up for each pending action; a list of all that this person ever answered would be long.
    answered = Exists(Decision.objects.filter(user=caller.user, action=OuterRef("pk")))
    listed = narrowed(pending_for(caller, caller.user, now), chosen).filter(~answered, team__in=teams)
    rows = list(listed.exclude(pk=action.pk).values_list("mine", "expires_at", "pk")[:MAX_CARDS])
    here = (0 if action.agent.owner_id == caller.user.pk else 1, action.expires_at, action.pk)
    below = next((row for row in rows if row > here), rows[0] if rows else None)
    return below and Action.objects.get(pk=below[2])
