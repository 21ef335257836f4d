"""Spans of time that pages ask about: ready-made ones as links, and dates of a form, in the viewer's zone."""

from dataclasses import dataclass
from datetime import date, datetime, timedelta

from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.timezone import is_naive, make_aware
from django.utils.translation import gettext, gettext_lazy

from dashboard.web.pages import parameters, without

TODAY, YESTERDAY, FRIDAY, WEEK, VISIT = "today", "yesterday", "friday", "week", "visit"
LABELS = {
    VISIT: gettext_lazy("Since my last visit"),
    TODAY: gettext_lazy("Today"),
    YESTERDAY: gettext_lazy("Since yesterday"),
    FRIDAY: gettext_lazy("Since Friday"),
    WEEK: gettext_lazy("Last 7 days"),
}
NAMES = ("since", "until")  # the parameters of a query string


@dataclass(frozen=True)
class Span:
    """A span of time; `until` None is now. `name` is a ready-made one's, "" for dates of the form.

    `first` and `last` are what the form's fields show.
    """

    since: datetime
    until: datetime | None
    name: str = ""
    first: str = ""
    last: str = ""

    @property
    def query(self) -> str:
        """The span as a part of a query string."""
        chosen = self.name or self.first
        return f"since={chosen}" + (f"&until={self.last}" if self.last else "")


def moment_of(text: str, days: int = 0) -> datetime | None:
    """Parse a date as its beginning in the viewer's zone plus `days`, or an exact time; None if invalid."""
    try:
        if day := parse_date(text):
            text = f"{day + timedelta(days=days)}T00:00"
        moment = parse_datetime(text)
    except (ValueError, OverflowError):
        return None
    return make_aware(moment) if moment and is_naive(moment) else moment


def day_of(text: str) -> date | None:
    """Parse a day; None if invalid."""
    try:
        return parse_date(text)
    except ValueError:
        return None


def last_visit(request) -> datetime | None:
    """Return when the person's visit to the Desk before this one ended, as the Desk stored it."""
    return moment_of(request.session.get("desk_since") or "")


def span_of(request, now, default: str = YESTERDAY) -> Span:
    """Return the span that the query string asks for; the default for none or an invalid one."""
    named = parameters(request, *NAMES)
    since, until = named["since"], named["until"]
    ready = _ready(request, now)
    last = moment_of(until, days=1) if until else None
    if since not in ready and (begin := moment_of(since)) and (last is None or begin < last):
        return Span(begin, last, first=since, last=until if last else "")
    name = since if since in ready else default if default in ready else YESTERDAY
    return Span(ready[name], None, name)


def links(request, span: Span, now) -> list[tuple]:
    """Return the ready-made spans for parts/filters.html."""
    rest = without(request, *NAMES)
    return [
        (f"?since={name}" + (f"&{rest}" if rest else ""), LABELS[name], span.name == name, None)
        for name in LABELS
        if name in _ready(request, now)
    ]


def in_words(span: Span) -> str:
    """Return the span in words, for a sentence's beginning."""
    if span.name:
        return str(LABELS[span.name])
    if span.last:
        return gettext("From %(first)s to %(last)s") % {"first": span.first, "last": span.last}
    return gettext("Since %(first)s") % {"first": span.first}


def _ready(request, now) -> dict[str, datetime]:
    """Return the beginnings of the ready-made spans; Friday only if it is before yesterday."""
    today = timezone.localtime(now).date()
    begin = {name: moment_of(f"{day}") for name, day in _days(today).items()}
    visited = last_visit(request)
    return ({VISIT: visited} if visited else {}) | begin


def _days(today: date) -> dict[str, date]:
    friday = today - timedelta(days=(today.weekday() - 4) % 7)
    days = {TODAY: today, YESTERDAY: today - timedelta(days=1), FRIDAY: friday, WEEK: today - timedelta(days=6)}
    if friday >= days[YESTERDAY]:
        days.pop(FRIDAY)
    return days
