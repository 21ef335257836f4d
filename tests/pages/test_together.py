"""Requests that were answered together have one line afterwards: to view them, and to take all answers back at once."""

import re

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.http import Http404
from django.test.utils import CaptureQueriesContext

from approvals.actions import gate
from approvals.models import Action, Decision
from approvals.pages import alike
from approvals.pages.together import _numbers_in, numbers_of
from dashboard.models import Event
from dashboard.people.access import caller_by_token
from dashboard.people.tokens import find_token


@pytest.fixture(autouse=True)
def in_one_step(monkeypatch):
    """However slow this machine is."""
    monkeypatch.setattr(alike, "STEP_SECONDS", 3600)


@pytest.fixture
def fifty(ask):
    return [ask({"command": f"git push origin topic-{number}"}) for number in range(50)]


def statuses(actions) -> set[str]:
    return set(Action.objects.filter(pk__in=[action.pk for action in actions]).values_list("status", flat=True))


def answered(client, actions, verdict="approve") -> str:
    picked = {"action": [f"{action.pk}:{action.digest}" for action in actions], "verdict": verdict}
    page = client.post(f"/waiting/alike/{actions[0].pk}/", picked, follow=True).content.decode()
    return re.sub(r"\s+", " ", page)


@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_fifty_answers_are_taken_back_by_the_line_that_reports_them(fifty, bob, browser_of, verdict):
    client = browser_of(bob)
    page = answered(client, fifty, verdict)
    address = "/waiting/together/payments/1-50/"
    assert f"{'Approved' if verdict == 'approve' else 'Denied'}: 50 requests · <form" in page
    assert f'action="{address}undo/"' in page
    assert f'<a href="{address}">View</a>' in page
    back = client.post(f"{address}undo/", follow=True)
    assert back.redirect_chain[-1][0] == address
    assert "50 answers withdrawn. They need approval again." in back.content.decode()
    assert statuses(fifty) == {"pending"}
    assert not Decision.objects.exists()
    assert Event.objects.filter(verb="action.reopened").count() == 50


def test_what_an_agent_has_used_stays_and_is_counted_with_its_reason(fifty, bob, browser_of, agent_token):
    client = browser_of(bob)
    answered(client, fifty)
    agent = caller_by_token(find_token(agent_token))
    for action in fifty[:2]:
        async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=agent)
    page = client.get("/waiting/together/payments/1-50/").content.decode()
    assert "Undo 48 answers" in page
    text = client.post("/waiting/together/payments/1-50/undo/", follow=True).content.decode()
    assert "48 answers withdrawn." in text
    assert "2 could not be taken back. A-1: Too late to undo" in text
    assert (statuses(fifty[:2]), statuses(fifty[2:])) == ({"running"}, {"pending"})


def test_the_list_has_each_with_how_it_stands_and_no_others(fifty, ask, decide, bob, browser_of):
    other = ask({"command": "curl https://example.org/x"})
    client = browser_of(bob)
    answered(client, [*fifty[:3], *fifty[10:12]])
    page = client.get("/waiting/together/payments/1-3,11-12/").content.decode()
    assert "5 requests answered together" in page
    shown = [action for action in [*fifty, other] if f'id="action-{action.pk}"' in page]
    assert shown == [*fifty[:3], *fifty[10:12]]


def test_nothing_offers_to_take_back_what_everybody_has_seen(fifty, bob, browser_of):
    client = browser_of(bob)
    answered(client, fifty[:3], "deny")
    for action in fifty[:3]:
        gate.mark_heard(Action.objects.get(pk=action.pk))
    assert "undo/" not in client.get("/waiting/together/payments/1-3/").content.decode()


def test_only_who_answered_takes_them_back(fifty, bob, lena, vera, mallory, browser_of):
    answered(browser_of(bob), fifty[:3])
    address = "/waiting/together/payments/1-3/"
    assert "undo/" not in browser_of(lena).get(address).content.decode()
    assert "3 could not be taken back" in browser_of(lena).post(f"{address}undo/", follow=True).content.decode()
    assert browser_of(vera).post(f"{address}undo/").status_code == 403
    assert [browser_of(mallory).get(address).status_code, browser_of(mallory).post(f"{address}undo/").status_code] == [
        404,
        404,
    ]
    assert statuses(fifty[:3]) == {"approved"}


def test_what_can_be_taken_back_is_one_query_for_three_and_for_fifty(fifty, bob, browser_of):
    client = browser_of(bob)
    answered(client, fifty)
    counts = []
    for numbers in ("1-3", "1-50"):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get(f"/waiting/together/payments/{numbers}/")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_numbers_are_written_as_ranges_and_read_again():
    numbers = [7, 1, 2, 3, 9, 10]
    text = numbers_of([Action(number=number) for number in numbers])
    assert text == "1-3,7,9-10"
    assert _numbers_in(text) == sorted(numbers)
    assert len(_numbers_in("1-999999999")) == 100
    for strange in ("", "x", "1-", "-1", "1,,2", "\u0661"):
        with pytest.raises(Http404):
            _numbers_in(strange)
