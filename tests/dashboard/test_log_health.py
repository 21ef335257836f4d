"""Doctor, Status and the start of Handrail look at the log: its triggers and its chain."""

import pytest
from django.core.cache import cache
from django.db import connection

from dashboard.event_log import triggers
from dashboard.models import Actor, Event
from dashboard.ops import bootstrap, doctor


def finding(*, deep=True):
    [found] = [one for one in doctor.examine(deep=deep) if one.part == "log"]
    return found


@pytest.fixture
def events(team):
    cache.clear()  # it has how far each log was read
    for number in range(5):
        Event.objects.record(team, actor=Actor.system("test"), verb="team.changed", subject=team, data={"n": number})
    return Event.objects.filter(team=team)


@pytest.mark.parametrize("deep", [True, False])
def test_an_unchanged_log_is_fine(events, deep):
    found = finding(deep=deep)
    assert (found.ok, found.words) == (True, "Complete and unchanged.")


def test_missing_triggers_are_found_and_put_back_at_the_next_start(events, team):
    triggers.remove(connection)
    found = finding()
    assert not found.ok
    assert found.needed
    assert found.words.startswith("The database lacks what keeps events unchanged: event_")
    said = []
    bootstrap.migrate(said.append)
    assert ("and has it again: event_" in said[0], len(said)) == (True, 1)
    assert finding().ok
    assert triggers.missing(connection) == []


def test_an_edited_event_is_found_and_where_it_is(events, team):
    edited = events.order_by("seq")[2]
    triggers.remove(connection)
    Event.objects.filter(pk=edited.pk).update(data={"n": "other"})
    triggers.install(connection)
    cache.clear()
    found = finding()
    assert (found.ok, found.needed) == (False, True)
    assert found.words == f"Changed or incomplete: {team.name} at event {edited.seq}."
