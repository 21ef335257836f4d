"""Old versions of notes: what the rule of that layer deletes, and what stays whatever it says."""

from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Event
from workspaces.models import NoteVersion, RetentionRule
from workspaces.services import retention

from .conftest import make_workspace


def versions(workspace, *ages, given=True):
    """Make versions of these ages in days, the oldest first."""
    for age in ages:
        at = clock.now() - timedelta(days=age)
        number = workspace.notes.count() + 1
        NoteVersion.objects.create(
            workspace=workspace, number=number, text=f"v{number}", created_at=at, given_at=at if given else None
        )


def rule(team, days, newest=0):
    RetentionRule.objects.create(team=team, layer="notes", days=days, keep_newest=newest)


def left(workspace) -> list[int]:
    return list(workspace.notes.order_by("number").values_list("number", flat=True))


def test_by_default_a_year_and_the_newest_ten_stay(team, workspace):
    versions(workspace, *range(420, 408, -1), 30)
    retention.sweep()
    assert left(workspace) == list(range(4, 14))
    told = Event.objects.get(verb="retention.swept").data["items"]
    assert told == {"repo-task-1": [f"notes of repo-task-1, version {n}" for n in (3, 2, 1)]}


def test_what_is_young_stays_and_each_workspace_counts_for_itself(team, agent, workspace):
    other = make_workspace(team, agent, "other")
    versions(workspace, 90, 60, 5, 1)
    versions(other, 90, 80)
    rule(team, 30, newest=1)
    retention.sweep()
    assert (left(workspace), left(other)) == ([3, 4], [2])


def test_the_file_of_the_workspace_and_an_edit_that_waits_always_stay(team, workspace):
    versions(workspace, 900, 800)
    versions(workspace, 700, 600, given=False)
    rule(team, 0)
    retention.sweep()
    assert left(workspace) == [2, 4]


@pytest.mark.parametrize("days", [None, 1000])
def test_for_ever_and_a_longer_time_delete_nothing(team, workspace, days):
    versions(workspace, *[900] * 12)
    rule(team, days)
    retention.sweep()
    assert len(left(workspace)) == 12
