"""The list beside a card on a wide screen: only the part of it around the card."""

from dataclasses import dataclass

from django.urls import reverse

from approvals.models import Action
from approvals.pages.card import Card, cards_of, for_rows
from approvals.pages.lists import MAX_CARDS, filter_query, narrowed, pending_for

ROWS = 25  # cards in the part
ABOVE = 8  # of them above the card; more only near the end of the list


@dataclass
class ListPart:
    """Some cards in the list's order; the number of cards before and after them; the URLs of the nearest of those."""

    cards: list[Card]
    before: int
    before_url: str
    after: int
    after_url: str


def part_around(action: Action, caller, now, chosen: dict) -> ListPart:
    """Return the part of the list, narrowed by the filters in `chosen`, around an action; its start if not listed."""
    order = list(narrowed(pending_for(caller, caller.user, now), chosen).values_list("pk", flat=True)[:MAX_CARDS])
    place = order.index(action.pk) if action.pk in order else 0
    start = max(0, min(place - ABOVE, len(order) - ROWS))
    shown = order[start : start + ROWS]
    found = {row.pk: row for row in for_rows(Action.objects.visible_to(caller).filter(pk__in=shown))}
    above, below = order[:start], order[start + ROWS :]
    query = filter_query(chosen)
    return ListPart(
        cards=cards_of([found[pk] for pk in shown if pk in found], caller, now),
        before=len(above),
        before_url=reverse("action", args=[above[-1]]) + query if above else "",
        after=len(below),
        after_url=reverse("action", args=[below[0]]) + query if below else "",
    )
