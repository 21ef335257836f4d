"""A card says when the program that asked over the API has stopped asking."""

from types import SimpleNamespace

import pytest

from approvals.actions import polls

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def forgotten():
    polls._open.clear()
    polls._asked.clear()


def test_a_card_says_that_its_program_may_have_ended(ask, lena, browser_of, read, monkeypatch):
    action = ask()
    now = SimpleNamespace(at=1000.0)
    monkeypatch.setattr("approvals.actions.polls.time", SimpleNamespace(monotonic=lambda: now.at))

    def says_so() -> bool:
        return "It may have ended" in read(browser_of(lena), f"/actions/{action.pk}/")

    assert not says_so()
    with polls.noted(action.pk):
        now.at += 500
        assert not says_so()
    now.at += polls.GONE_AFTER - 1
    assert not says_so()
    now.at += 2
    assert says_so()
    with polls.noted(action.pk):
        assert not says_so()
