"""A whole log is refused where its own events contradict each other: what ran is what people approved."""

import json
from uuid import uuid4

import pytest

from dashboard.models import Actor, Event, Team
from handrail_verify import log

pytestmark = pytest.mark.django_db
FIRST, OTHER = "a" * 64, "b" * 64


@pytest.fixture
def entries(team):
    """`entries((verb, who, digest, data), …)`: the exported log in which one action had these events."""
    subject = Team(pk=uuid4())

    def made(*events):
        for verb, who, digest, data in events:
            actor = Actor("agent", "1", "claude") if who == "claude" else Actor("person", who, who)
            about = {"number": 7, "digest": digest} | data
            Event.objects.record(team, actor=actor, verb=f"action.{verb}", subject=subject, data=about)
        found = Event.objects.filter(team=team).order_by("seq")
        return [json.dumps(event.as_export()).encode() for event in found]

    return made


def test_a_call_that_ran_as_it_was_approved_verifies(entries):
    lines = entries(
        ("waiting", "claude", FIRST, {"quorum": 2}),
        ("vote", "alice", FIRST, {"votes": 1, "quorum": 2}),
        ("approved", "bob", FIRST, {"votes": 2, "quorum": 2}),
        ("consumed", "claude", FIRST, {}),
    )
    assert log.verify(lines).last == 4


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([("consumed", "claude", FIRST, {})], "Event 1: A-7 ran, and no event before it approved it."),
        (
            [("approved", "bob", FIRST, {"quorum": 1}), ("consumed", "claude", OTHER, {})],
            "Event 2: A-7 ran other bytes than event 1 approved: bbbbbbbbbbbbbbbb… instead of aaaaaaaaaaaaaaaa…",
        ),
        (
            [("approved", "bob", FIRST, {"quorum": 1}), ("consumed", "claude", None, {})],
            "Event 2: A-7 ran, and no digest says which bytes.",
        ),
        (
            [("approved", "claude", FIRST, {"quorum": 1})],
            "Event 1: A-7 was approved by claude, who is no person.",
        ),
        (
            [("vote", "bob", FIRST, {"quorum": 2}), ("approved", "bob", FIRST, {"votes": 2, "quorum": 2})],
            "Event 2: A-7 needed 2 people, and 1 approved these bytes.",
        ),
        (
            [("vote", "alice", OTHER, {"quorum": 2}), ("approved", "bob", FIRST, {"votes": 2, "quorum": 2})],
            "Event 2: A-7 needed 2 people, and 1 approved these bytes.",
        ),
        (
            [
                ("approved", "bob", FIRST, {"quorum": 1}),
                ("reopened", "bob", FIRST, {}),
                ("consumed", "claude", FIRST, {}),
            ],
            "Event 3: A-7 ran, and no event before it approved it.",
        ),
    ],
)
def test_a_contradiction_is_found_at_its_first_event(entries, events, words):
    with pytest.raises(log.BadEvent) as refused:
        log.verify(entries(*events))
    assert str(refused.value) == words


def test_a_part_of_a_log_is_not_judged_by_what_it_lacks(entries):
    lines = entries(("approved", "bob", FIRST, {"quorum": 1}), ("consumed", "claude", FIRST, {}))
    assert log.verify(lines[1:]).first == 2
