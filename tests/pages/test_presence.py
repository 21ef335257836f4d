"""Who else has a card open: only people who may decide it are named, to each other, while they look."""

from datetime import timedelta

from approvals.models import CardViewer
from approvals.pages.presence import LOOKS_FOR, who_looks
from dashboard.database import clock

from .conftest import PUSH


def look(client, action):
    return client.post(f"/actions/{action.pk}/looking/")


def test_two_reviewers_see_each_other_and_not_themselves(ask, bob, lena, browser_of):
    action, other = ask(PUSH), ask({"command": "git push origin next"})
    assert look(browser_of(bob), action).json() == {"words": ""}
    assert look(browser_of(lena), action).json() == {"words": "bob is looking too"}
    assert look(browser_of(bob), action).json() == {"words": "lena is looking too"}
    assert look(browser_of(bob), other).json() == {"words": ""}


def test_a_person_who_went_away_is_named_no_more(ask, bob, lena, browser_of):
    action = ask(PUSH)
    look(browser_of(bob), action)
    CardViewer.objects.update(at=clock.now() - LOOKS_FOR - timedelta(seconds=1))
    assert look(browser_of(lena), action).json() == {"words": ""}


def test_a_person_who_left_the_team_is_named_no_more(ask, bob, lena, browser_of):
    action = ask(PUSH)
    look(browser_of(bob), action)
    bob.memberships.all().delete()
    assert look(browser_of(lena), action).json() == {"words": ""}


def test_a_viewer_and_a_stranger_see_nobody(ask, vera, mallory, browser_of):
    action = ask(PUSH)
    assert look(browser_of(vera), action).status_code == 403
    assert look(browser_of(mallory), action).status_code == 404
    assert not CardViewer.objects.exists()


def test_many_are_counted():
    assert who_looks(["ann", "ben"]) == "ann and ben are looking too"
    assert who_looks(["ann", "ben", "cem", "dan", "eve"]) == "ann, ben, cem and 2 more are looking too"
