"""The days that measures are of: whole days in UTC, from one to another."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.utils.translation import gettext

from dashboard.database import clock
from dashboard.problems import invalid

DEFAULT_DAYS = 30
MAX_DAYS = 366


@dataclass(frozen=True)
class Period:
    """The days from `first` to `last`, both included."""

    first: date
    last: date

    @property
    def since(self) -> datetime:
        return datetime.combine(self.first, datetime.min.time(), UTC)

    @property
    def until(self) -> datetime:
        """The end of the last day, which is not in it."""
        return datetime.combine(self.last + timedelta(days=1), datetime.min.time(), UTC)

    @property
    def days(self) -> list[date]:
        return [self.first + timedelta(days=n) for n in range((self.last - self.first).days + 1)]


def read(first: str = "", last: str = "") -> Period:
    """Return the period of two dates as texts; without them the last 30 days. Problem 422."""
    end = _date(last) if last else clock.now().astimezone(UTC).date()
    begin = _date(first) if first else max(date.min, end - timedelta(days=DEFAULT_DAYS - 1))
    if begin > end:
        raise invalid(gettext("The period begins after it ends."))
    if (end - begin).days >= MAX_DAYS:
        raise invalid(gettext("A period has at most %(most)s days.") % {"most": MAX_DAYS})
    return Period(begin, end)


def this_month() -> Period:
    today = clock.now().astimezone(UTC).date()
    return Period(today.replace(day=1), today)


def _date(text: str) -> date:
    try:
        found = date.fromisoformat(text)
    except ValueError:
        raise invalid(gettext("Write a date as 2026-11-24.")) from None
    if not 2000 <= found.year <= 2200:
        raise invalid(gettext("Write a year from 2000 to 2200."))
    return found
