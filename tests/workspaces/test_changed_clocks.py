"""Times of schedules around every kind of change of clocks, compared with a walk over each minute."""

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from workspaces.services.schedules import cron

TEXTS = [
    "30 2 * * *", "0 0 * * *", "30 0 * * *", "15 1,2 * * *", "0 3 * * 0", "59 23 * * *", "0 2 31 10 *", "45 1-3 * * *",
    "*/20 * * * *", "0 * * * *", "*/15 2 * * *", "*/10 0 * * *", "*/30 1 * * *", "30 * * * 0", "*/7 1-2 * * *",
]  # fmt: skip
CHANGES = [
    ("Europe/Berlin", 2027, 3, 28), ("Europe/Berlin", 2027, 10, 31), ("America/New_York", 2026, 11, 1),
    ("Europe/Dublin", 2026, 10, 25), ("Australia/Lord_Howe", 2027, 4, 3), ("Australia/Lord_Howe", 2026, 10, 3),
    ("America/Sao_Paulo", 2018, 2, 18), ("America/Sao_Paulo", 2018, 11, 4), ("Antarctica/Troll", 2026, 10, 25),
    ("Pacific/Apia", 2011, 12, 30), ("Africa/Casablanca", 2026, 2, 15), ("America/Havana", 2026, 11, 1),
    ("America/St_Johns", 1988, 4, 3), ("America/St_Johns", 2006, 10, 29), ("Asia/Tehran", 2022, 3, 21),
    ("America/Caracas", 2016, 5, 1), ("Asia/Pyongyang", 2015, 8, 14), ("Pacific/Chatham", 2027, 4, 3),
    ("Asia/Kolkata", 2026, 3, 1), ("UTC", 2026, 3, 1), ("Pacific/Kiritimati", 1994, 12, 31),
    ("Africa/Cairo", 2026, 10, 29),
]  # fmt: skip
MINUTE = timedelta(minutes=1)


def due(text: str, zone: str, start: datetime, days: int) -> list[datetime]:
    """Return when the text is due, found by looking at the clock in each minute."""
    minutes = [start + MINUTE * n for n in range(days * 24 * 60)]
    clock = [each.astimezone(ZoneInfo(zone)).replace(tzinfo=None) for each in minutes]
    shown, last = set(), max(clock)
    for each in CronSim(text, min(clock) - MINUTE):
        if each > last:
            break
        shown.add(each)
    if any(field.startswith("*") for field in text.split()[:2]):
        return [minute for minute, at in zip(minutes, clock, strict=True) if at in shown]
    found, left = [], sorted(shown, reverse=True)
    for minute, at in zip(minutes, clock, strict=True):
        if left and at >= left[-1]:
            found.append(minute)
        while left and at >= left[-1]:
            left.pop()
    return found


@pytest.mark.parametrize(("zone", "year", "month", "day"), CHANGES)
def test_times_are_those_that_a_look_at_the_clock_in_each_minute_finds(zone, year, month, day):
    chance = random.Random(f"{zone} {year}")
    start = datetime(year, month, day, tzinfo=UTC) - timedelta(days=3)
    for text in chance.sample(TEXTS, 4):
        found = due(text, zone, start, 6)
        for _ in range(12):
            moment = start + timedelta(
                seconds=chance.randrange(2 * 86400, 4 * 86400), microseconds=chance.choice([0, 7])
            )
            later = [each for each in found if each > moment]
            where = (text, zone, moment.isoformat())
            if later:
                assert cron.following(text, zone, moment) == later[0], where
                assert cron.times(text, zone, moment, min(4, len(later))) == later[:4], where
            if earlier := [each for each in found[1:] if each <= moment]:
                assert cron.latest(text, zone, moment) == earlier[-1], where


@pytest.mark.parametrize("minute", [0, 20, 29, 31, 59])
def test_in_the_repeated_hour_nothing_is_due_a_second_time(minute):
    now = datetime(2027, 10, 31, 1, minute, tzinfo=UTC)
    assert cron.following("30 2 * * *", "Europe/Berlin", now) == datetime(2027, 11, 1, 1, 30, tzinfo=UTC)
    assert cron.latest("30 2 * * *", "Europe/Berlin", now) == datetime(2027, 10, 31, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize("text", ["0 3 29 2 *", "*/30 2 31 10 *", "30 2 31 10 *", "0 0 1 1 *"])
def test_a_rare_text_is_found_in_both_directions(text):
    for zone in ("Europe/Berlin", "Australia/Lord_Howe", "UTC"):
        last = datetime(2027, 10, 31, 3, 7, tzinfo=UTC)
        for _ in range(5):
            following = cron.following(text, zone, last)
            assert following > last
            assert cron.latest(text, zone, following) == following
            assert cron.latest(text, zone, following - timedelta(seconds=1)) < following
            last = following
