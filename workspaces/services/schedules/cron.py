"""Read cron texts: their times in a time zone, and what they say in words."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from itertools import islice

from cronsim import CronSim, CronSimError

from dashboard.problems import invalid

FIELDS = 5  # minute, hour, day of the month, month, day of the week; cronsim would also take seconds
SHOWN = 5  # times that pages and the API tell


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
    return [each.astimezone(UTC) for each in islice(CronSim(text, after.astimezone(_zone(zone))), count)]


def following(text: str, zone: str, after: datetime) -> datetime | None:
    """Return the next time after `after`; None if there is none in the next fifty years."""
    return next(iter(times(text, zone, after, 1)), None)


def latest(text: str, zone: str, until: datetime) -> datetime:
    """Return the last time that is not after `until`."""
    from_there = (until + timedelta(seconds=1)).replace(microsecond=0)
    return next(CronSim(text, from_there.astimezone(_zone(zone)), reverse=True)).astimezone(UTC)


def in_words(text: str) -> str:
    """Return what the text says, in English: "At 03:00 every day"."""
    return CronSim(text, datetime.now(UTC)).explain()
