"""The list beside a card on a wide screen: only the part of it around the card."""

from dataclasses import dataclass

from django.urls import reverse

from approvals.models import Action
from approvals.pages.filter_bar import FilterBar, filter_bar
from approvals.pages.list_filters import filter_query, listed_for, pending_for
from approvals.pages.list_rows import Row, entries_of, rows_of

ROWS = 25  # rows in the part
ABOVE = 8  # of them above the card's; more only near the end of the list


@dataclass
class ListPart:
    """Some rows in the list's order; the number of rows before and after them; the URLs of the nearest of those."""

    rows: list[Row]
    before: int
    before_url: str
    after: int
    after_url: str
    bar: FilterBar


def part_around(action: Action, caller, now, chosen: dict) -> ListPart:
    """Return the part of the list, narrowed by the filters in `chosen`, around an action; its start if not listed."""
    entries, _ = entries_of(listed_for(caller, now, chosen))
    place = next((number for number, entry in enumerate(entries) if action.pk in entry.pks), 0)
    start = max(0, min(place - ABOVE, len(entries) - ROWS))
    above, below = entries[:start], entries[start + ROWS :]
    query = filter_query(chosen)
    return ListPart(
        rows=rows_of(entries[start : start + ROWS], caller, now, action.pk),
        before=len(above),
        before_url=reverse("action", args=[above[-1].pks[0]]) + query if above else "",
        after=len(below),
        after_url=reverse("action", args=[below[0].pks[0]]) + query if below else "",
        bar=filter_bar(reverse("action", args=[action.pk]), pending_for(caller, now), now, chosen),
    )
