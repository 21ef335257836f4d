"""Small words that people read: ports, days, states of checks, and who decided what."""

from types import SimpleNamespace

from django.utils import timezone

from workspaces.models import Command, Lesson
from workspaces.pages.manifests import lines_of
from workspaces.programs import checks
from workspaces.services import pull_requests
from workspaces.services.notes import lessons
from workspaces.services.retention.preview import Preview


def test_ports_have_no_separators_of_thousands():
    assert lines_of("ports", [8899, {"port": 40000, "program": "node"}]) == ["8899", "port: 40000, program: node"]
    assert lines_of("entries", 40000) == ["40,000"]


def test_a_pull_request_says_what_still_runs_and_what_never_ran():
    assert pull_requests._command(Command(shown="npm start")) == "`npm start`: still runs"
    ended = Command(shown="npm start", ended_at=timezone.now())
    assert pull_requests._command(ended) == "`npm start`: did not end by itself"
    assert pull_requests._state(SimpleNamespace(state=checks.CheckState.NEVER_RUN)) == "never run"


def test_a_proposed_lesson_was_decided_by_nobody_after_its_difference_was_shown(team):
    lesson = Lesson.objects.create(
        team=team, repository="r", number=1, text="Run make.", sha256="0" * 64, author={"label": "a"},
        proposed_by={"label": "a"}, state="proposed", created_at=timezone.now(), workspace_key="w",
    )  # fmt: skip
    assert "> Run make." in lessons.patch(lesson)
    assert (lesson.decided_by, lesson.decided_at) == ({}, None)


def test_snapshots_that_wait_no_day_in_the_trash_are_not_said_to_wait():
    part = SimpleNamespace(layer=None, items=[SimpleNamespace(snapshot_id=1)])
    told = {}
    for days in (0, 1, 30):
        told[days] = Preview._bytes(SimpleNamespace(parts=[part], trash_days=days, forecast=None)).partition("frees.")[
            2
        ]
    assert told == {
        0: "",
        1: " 1 of the snapshots first wait 1 day in the trash.",
        30: " 1 of the snapshots first wait 30 days in the trash.",
    }
