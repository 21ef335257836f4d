"""Whoever is in two teams sees of which one a row is; whoever is in one does not."""

import pytest

from dashboard.models import Membership, Team

from .conftest import PUSH

PLACES = ["/actions/", "/workspaces/", "/log/"]


@pytest.mark.parametrize("place", PLACES)
def test_the_team_of_a_row_is_shown_to_whoever_is_in_two(ask, workspace, team, bob, browser_of, read, place):
    Team.objects.filter(pk=team.pk).update(name="Payments of the North")
    ask(PUSH, workspace=workspace)
    client = browser_of(bob)

    def rows():
        return read(client, place).partition("<main")[2]

    shown = "Payments of the North: " if place == "/log/" else "· Payments of the North"
    assert shown not in rows()
    Membership.objects.create(team=Team.objects.create(slug="second", name="Second"), user=bob, role="reviewer")
    assert shown in rows()
