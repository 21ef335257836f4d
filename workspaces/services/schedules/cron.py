"""Read cron texts: their times in a time zone, and what they say in words."""

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import chain, islice

from cronsim import CronSim, CronSimError

from dashboard.problems import invalid

FIELDS = 5  # minute, hour, day of the month, month, day of the week; cronsim would also take seconds
SHOWN = 5  # times that pages and the API tell
DAY = timedelta(hours=25)  # more than clocks were ever set back or forth at once


def check(text: str, zone: str) -> str:
    """Return the text with one space between its fields. Problem 422 for one that is no cron text or never due."""
    _zone(zone)
    fields = text.split()
    if len(fields) != FIELDS:
        raise invalid(
            "Write five fields: minute, hour, day of the month, month, day of the week. 0 3 * * * is daily at 3:00.",
            field="cron",
        )
    found = " ".join(fields)
    try:
        next(CronSim(found, datetime.now(UTC)))
    except (CronSimError, StopIteration) as error:
        words = str(error) or "No day is like that"
        raise invalid(f"This isn't a time that cron knows: {words.lower()}.", field="cron") from None
    return found


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise invalid(f"There is no time zone {name!r}.", field="zone") from None


def times(text: str, zone: str, after: datetime, count: int = SHOWN) -> list[datetime]:
    """Return the next times after `after`, in UTC."""
    return list(islice(_after(text, _zone(zone), after), count))


def following(text: str, zone: str, after: datetime) -> datetime | None:
    """Return the next time after `after`; None if there is none in the next fifty years."""
    return next(_after(text, _zone(zone), after), None)


def latest(text: str, zone: str, until: datetime) -> datetime:
    """Return the last time that is not after `until`."""
    place = _zone(zone)
    local, margin = _local(until, place), _margin(until, place)
    found: list[datetime] = []
    for shown in CronSim(text, local + margin + timedelta(seconds=1), reverse=True):
        if found and shown < local - margin:
            break
        found += [each for each in _moments(text, shown, place) if each <= until]
    return max(found)


# cronsim is asked for what a clock shows, without a zone; when the clock shows it is found out here. As in Debian's
# cron, a text with a minute and an hour is due once at each: at the first of two in the hour that clocks repeat, and at
# the end of the hour that they leave out. A text with a star there goes on by real time.


def _after(text: str, place: zoneinfo.ZoneInfo, after: datetime) -> Iterator[datetime]:
    waiting: list[datetime] = []
    last = after
    for shown in chain(CronSim(text, _local(after, place) - _margin(after, place)), [None]):
        moments = _moments(text, shown, place) if shown else []
        while waiting and (not shown or (moments and waiting[0] <= moments[0])):
            moment = heappop(waiting)
            if moment > last:  # several times that are left out are one
                last = moment
                yield moment
        for moment in moments:
            heappush(waiting, moment)


def _local(moment: datetime, place: zoneinfo.ZoneInfo) -> datetime:
    """Return what a clock shows, without its zone."""
    return moment.astimezone(place).replace(tzinfo=None)


def _margin(moment: datetime, place: zoneinfo.ZoneInfo) -> timedelta:
    """Return how far what a clock shows may go back or forth near a moment: not at all on most days."""
    near = {(moment + each).astimezone(place).utcoffset() for each in (-DAY, timedelta(), DAY)}
    return timedelta(seconds=1) if len(near) == 1 else DAY


def _moments(text: str, shown: datetime, place: zoneinfo.ZoneInfo) -> list[datetime]:
    """Return when the text is due at what a clock shows: once, twice or never on the days of a change."""
    once = not any(field.startswith("*") for field in text.split()[:2])
    both = [shown.replace(tzinfo=place, fold=fold).astimezone(UTC) for fold in (0, 1)]
    if _local(both[0], place) != shown:
        return [_end_of_gap(shown, both[1], both[0], place)] if once else []
    return both[:1] if once or both[0] == both[1] else both


def _end_of_gap(shown: datetime, before: datetime, after: datetime, place: zoneinfo.ZoneInfo) -> datetime:
    """Return the moment between two others from which on a clock shows later times."""
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) // 2
        middle = middle.replace(microsecond=0)
        before, after = (before, middle) if _local(middle, place) > shown else (middle, after)
    return after


def in_words(text: str) -> str:
    """Return what the text says, in English: "At 03:00 every day"."""
    return CronSim(text, datetime.now(UTC)).explain()
