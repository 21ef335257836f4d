"""The fortnight of demonstration data: real rows, trees and recordings at times in the past."""

import html
import io
import zipfile
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from approvals.models import Action, AgentSession, Status
from dashboard.database import clock
from dashboard.event_log.verify import verify_in_time
from dashboard.models import Event, Membership, Role, Team
from deploy.demo.fortnight import story, telling
from workspaces.changes import changed_lines
from workspaces.changes.comparisons import Point
from workspaces.changes.forks import compare_forks
from workspaces.models import (
    Artifact,
    Command,
    Environment,
    HandOver,
    Lesson,
    NoteVersion,
    Operation,
    Snapshot,
    Workspace,
)
from workspaces.programs import recordings

pytestmark = pytest.mark.django_db


@pytest.fixture
def main(admin_user):
    team = Team.objects.create(slug="main", name="Main")
    Membership.objects.create(team=team, user=admin_user, role=Role.ADMIN)
    return team


def test_a_day_of_it_is_told_with_real_rows_trees_and_recordings(main, admin_user, browser_of):
    days, now = [], wednesday_afternoon()
    telling.Telling(now, days=1).tell(days.append)
    assert [day.split(",")[0] for day in days] == ["Tuesday", "Wednesday"]
    team = Team.objects.get(slug="demo")
    check_team(team, admin_user)
    check_log(team, now)
    check_trees(team)
    check_forks(team)
    check_recording()
    check_conversations(browser_of(team.memberships.get(user__username="mia").user))
    check_memory(browser_of(team.memberships.get(user__username="ben").user))
    waiting = Action.objects.pending()
    assert [waiting.count(), waiting.filter(expires_at__lte=clock.now()).count()] == [3, 0]
    with pytest.raises(CommandError, match="there already"):
        call_command("demo", "--fortnight")


@pytest.mark.parametrize("turn", [0, len(story.PLACES[0].features)])
def test_the_same_task_is_done_differently_each_time(turn):
    """Two forks of a place have differences to compare, even if all features of the place exist already."""
    place, random = story.PLACES[0], Random(1)
    files = story.first_files(place)
    if turn:
        files[f"src/{place.package}/{place.features[0]}.py"] = "total = 0\n"
    first, second = (
        next(step.files for step in story.task(place, turn, random, files).steps if step.files) for _ in range(2)
    )
    assert first != second


def wednesday_afternoon():
    """A working day, so that each run of this test tells the same."""
    today = timezone.localtime(clock.now()).replace(hour=16, minute=0, second=0, microsecond=0)
    return today - timedelta(days=(today.weekday() - 2) % 7 or 7)


def check_team(team, admin_user):
    """It stands in a team of its own, which the people of the desk can open."""
    assert not Event.objects.exclude(team=team).exists()
    assert Membership.objects.get(team=team, user=admin_user).role == Role.ADMIN
    roles = set(Membership.objects.filter(team=team).values_list("role", flat=True))
    assert roles == {"admin", "lead", "reviewer", "viewer"}
    assert Workspace.objects.filter(team=team, head__isnull=False).count() == 8


def check_forks(team):
    """Two forks of one workspace went on with the same task, and each can be put beside another."""
    short, tests_first = (
        Workspace.objects.get(team=team, key=f"web-shop-cart-{it}") for it in ("short", "tests-first")
    )
    points = (Point(place, place.head.number) for place in (short, tests_first))
    found = compare_forks(*points)
    assert found.base.workspace.key == "web-shop-cart"
    counts = found.counts()
    assert counts["different"] > 0
    assert counts["alike"] > 0


def check_log(team, now):
    """The chain holds, in the order of the times."""
    while not (proof := verify_in_time(team)).is_whole:
        assert proof.holds
    times = list(Event.objects.filter(team=team).order_by("seq").values_list("at", flat=True))
    assert [pair for pair in pairwise(times) if pair[0] > pair[1]] == []
    assert now - timedelta(days=1) < times[0] < times[-7] <= now  # the last six are of the three that wait


def check_trees(team):
    """The snapshot after a written file holds it."""
    wrote = Action.objects.filter(tool="Write", status=Status.SUCCEEDED).latest("number")
    later = Snapshot.objects.filter(workspace=wrote.workspace, number__gt=wrote.snapshot_before.number)
    after = later.earliest("number")
    assert changed_lines.between(team.pk, wrote.snapshot_before.tree_hex, after.tree_hex)[0] > 0
    assert after.created_at > wrote.created_at


def check_recording():
    command = Command.objects.filter(check_name="tests").earliest("started_at")
    output = b"".join(recordings.of(command).pieces())
    assert output.endswith(b"s\n")
    assert len(output) == command.output_bytes


def check_conversations(lead):
    """Each session has one, in whose page its calls link their actions; what waits is the last of an open one."""
    sessions = Action.objects.values("session").distinct()
    assert AgentSession.objects.count() == sessions.count()
    assert Action.objects.filter(said__kind="call").count() == Action.objects.count()
    denied = Action.objects.filter(status=Status.DENIED).latest("number")
    session = denied.said.get(kind="call").session
    assert str(session) in page(lead, reverse("conversations"))
    said = page(lead, reverse("conversation", args=[session.pk]))
    assert [f"A-{denied.number} was denied." in said, "All tests pass" in said or "still fails" in said] == [True, True]
    assert session.ended_at is not None
    waiting = AgentSession.objects.get(native_id=Action.objects.pending().latest("number").session)
    assert [waiting.ended_at, waiting.messages.latest("seq").kind] == [None, "call"]


def check_memory(reviewer):
    """Notes have versions of agents and an edit that waits; lessons are in force in later files; artifacts download."""
    edited = NoteVersion.objects.get(given_at=None)
    here = [edited.workspace.team.slug, edited.workspace.key]
    assert "The auditors come on Thursday" in page(reviewer, reverse("workspace-notes", args=here))
    assert set(NoteVersion.objects.given().values_list("by__type", flat=True)) == {"agent"}
    lesson = Lesson.objects.filter(state="accepted").earliest("created_at")
    assert lesson.text.split("`")[0] in html.unescape(page(reviewer, reverse("lessons")))
    later = Snapshot.objects.filter(workspace__lessons=lesson, created_at__gt=lesson.decided_at)
    assert not later.exists() or later.latest("number").manifest.body["notes"]["lessons_sha256"]
    kept = Artifact.objects.latest("created_at")
    assert kept.name in page(reviewer, reverse("artifacts"))
    zipped = b"".join(reviewer.get(reverse("artifact-zip", args=[kept.pk])).streaming_content)
    assert "changes.md" in zipfile.ZipFile(io.BytesIO(zipped)).namelist()
    assert not Operation.objects.open().filter(kind="promote").exists()
    handed = HandOver.objects.get()
    there = [handed.workspace.team.slug, handed.workspace.key, handed.pk]
    assert "The facets are done" in page(reviewer, reverse("hand-over", args=there))


def page(client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_desk_in_use_is_left_as_it_is(main):
    environment = Environment.objects.create(team=main, name="default")
    Workspace.objects.create(team=main, key="real", environment=environment)
    with pytest.raises(CommandError, match="--beside-real-data"):
        call_command("demo", "--fortnight")
    assert not Team.objects.filter(slug="demo").exists()
