"""One row by its id, and one page of a list: no row is missed or repeated, whatever comes and goes meanwhile."""

from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem
from dashboard.web.lookup import find, page_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def teams():
    """Five teams, newest first; the three in the middle were made at the same moment."""
    made = [Team.objects.create(name=f"team {n}", slug=f"team-{n}") for n in range(5)]
    for team, minutes in zip(made, (9, 5, 5, 5, 1), strict=True):
        Team.objects.filter(pk=team.pk).update(created_at=clock.now() - timedelta(minutes=minutes))
    return list(Team.objects.order_by("-created_at", "-pk"))


def walked(size: int, between=lambda: None) -> list:
    found, cursor = [], None
    while True:
        page = page_of(Team.objects.all(), cursor, size=size)
        found += page.rows
        if page.cursor is None:
            return found
        cursor = page.cursor
        between()


@pytest.mark.parametrize("size", [1, 2, 4, 5, 50])
def test_pages_hold_each_row_once_and_newest_first(teams, size):
    assert walked(size) == teams


def test_a_row_that_comes_meanwhile_shifts_nothing(teams):
    names = iter(range(10, 20))

    def come():
        number = next(names)
        Team.objects.create(name=f"team {number}", slug=f"team-{number}")

    assert walked(2, come) == teams


def test_a_row_that_goes_meanwhile_shifts_nothing(teams):
    assert walked(2, lambda: Team.objects.filter(pk=teams[1].pk).delete()) == teams


def test_a_cursor_can_stand_in_an_address_as_it_is(teams):
    cursor = page_of(Team.objects.all(), size=1).cursor
    assert not set(cursor) & set("+&#%? ")


@pytest.mark.parametrize(
    "cursor", ["x", "17", "~", "2026-01-01T00:00:00Z", "2026-01-01~x", "0001-01-01T00:00:00+23:00~" + "0" * 32]
)
def test_a_cursor_of_no_row_is_refused(cursor):
    with pytest.raises(Problem) as refused:
        page_of(Team.objects.all(), cursor)
    assert (refused.value.status, refused.value.detail) == (422, "Invalid cursor.")


def test_a_row_is_found_among_those_that_may_be_seen(teams):
    assert find(Team.objects.all(), str(teams[0].pk), "team") == teams[0]
    for rows, pk in ((Team.objects.exclude(pk=teams[0].pk), teams[0].pk), (Team.objects.all(), "no id")):
        with pytest.raises(Problem) as refused:
            find(rows, pk, "team")
        assert (refused.value.status, refused.value.detail) == (404, "There is no such team.")
