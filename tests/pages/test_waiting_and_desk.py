"""What waits: on the Desk, on Approvals, oldest or soonest first, in a constant number of queries."""

import re
import sys
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.actions import gate
from approvals.models import Action
from dashboard.database import clock
from dashboard.models import Agent, Membership
from tests.support import CHECKOUT
from workspaces.models import State

from .conftest import LIST, PUSH, make_workspace


def queries_of(client, address) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 200
    return len(queries)


def test_the_desk_shows_what_waits_with_its_bytes(ask, bob, browser_of, read, workspace):
    action = ask(PUSH, workspace=workspace)
    text = read(browser_of(bob), "/")
    assert f'href="/actions/{action.pk}/"' in text
    assert "git push origin main" in text
    assert "Can&#x27;t be undone" in text
    assert "data-waiting-count>1<" in text
    assert '<h2 id="desk-waits">Needs your approval</h2>' in text
    assert '<h2 id="desk-now-title">Now</h2>' in text
    assert "<h1>Approvals</h1>" in read(browser_of(bob), "/waiting/")


def test_the_desk_shows_three_cards_and_the_way_to_all(ask, bob, browser_of, read):
    for number in range(4):
        ask({"command": f"git push origin b{number}"})
    text = read(browser_of(bob), "/")
    assert text.count('id="action-') == 3
    assert '<a href="/waiting/">See all</a>' in text
    assert "git push origin b3" not in text


def test_a_quiet_desk_says_so(agent, ask, bob, browser_of, read):
    ask(LIST)
    Agent.objects.update(last_seen_at=clock.now())
    text = read(browser_of(bob), "/")
    assert "Nothing needs approval. One agent is working; 1 action auto-approved today." in text


def test_the_first_desk_leads_to_connect(bob, browser_of, read):
    text = read(browser_of(bob), "/")
    assert "No agent is connected yet." in text
    assert f"<code>{sys.executable} {CHECKOUT}/manage.py demo</code>" in text
    assert f"<code>{sys.executable} {CHECKOUT}/manage.py connect claude-code PATH</code>" in text
    assert 'href="/connect/"' in text


def test_what_went_wrong_is_on_the_desk(ask, agent, team, bob, browser_of, read):
    unclear = ask(LIST)
    Action.objects.filter(pk=unclear.pk).update(status="uncertain")
    make_workspace(team, agent, "broken-one", State.FAILED, reason="The setup ended with 3.")
    text = read(browser_of(bob), "/")
    assert "Problems" in text
    assert "broken-one failed" in text
    assert "The setup ended with 3." in text
    assert f'id="action-{unclear.pk}"' in text


def test_what_was_approved_and_never_picked_up_is_on_the_desk_and_on_its_card(ask, decide, bob, browser_of, read):
    fresh, waits, lapsed = (ask({"command": f"git push origin b{n}"}) for n in range(3))
    for action in (fresh, waits, lapsed):
        decide(action, by=bob)
    long_ago = clock.now() - timedelta(minutes=5)
    Action.objects.filter(pk=waits.pk).update(decided_at=long_ago)
    Action.objects.filter(pk=lapsed.pk).update(decided_at=long_ago, consume_by=clock.now())
    gate.sweep()
    client = browser_of(bob)
    shown = read(client, "/").split('id="desk-unpicked"')[1].split("</section>")[0]
    assert "Approved, never picked up" in shown
    assert [f'id="action-{action.pk}"' in shown for action in (fresh, waits, lapsed)] == [False, True, True]
    assert "The agent had stopped waiting when this was approved." in read(client, f"/actions/{waits.pk}/")
    assert "the approval lapsed" in read(client, f"/actions/{lapsed.pk}/")
    assert "had stopped waiting" not in read(client, f"/actions/{fresh.pk}/")


def since_of(page: str) -> str:
    """Return the text of the section *Since you were here*."""
    section = page.split('id="desk-since"')[1].split("</section>")[0]
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", "", section))


def test_since_you_were_here_counts_from_the_last_visit(ask, decide, bob, browser_of, read):
    Membership.objects.filter(user=bob).update(desk_seen_at=clock.now() - timedelta(hours=2))
    old = ask({"command": "git push origin old"})
    Action.objects.filter(pk=old.pk).update(created_at=clock.now() - timedelta(hours=3))
    decide(ask(PUSH), "deny", by=bob)
    ask(LIST)
    Action.objects.filter(tool="Bash").exclude(status="denied").update(consumed_at=clock.now())
    client = browser_of(bob)
    shown = since_of(read(client, "/"))
    assert "1 call ran · 1 asked · 1 denied" in shown
    assert "Check 1 auto-approved" in shown
    assert "No workspace changed" in shown
    history = read(client, "/actions/?since=visit")
    assert [f"git push origin {branch}" in history for branch in ("main", "old")] == [True, False]


def test_a_first_visit_shows_the_last_24_hours(ask, bob, browser_of, read):
    old = ask({"command": "git push origin old"})
    Action.objects.filter(pk=old.pk).update(created_at=clock.now() - timedelta(hours=25))
    ask(PUSH)
    client = browser_of(bob)
    heading = '<h2 id="desk-since-title"> {} </h2>'
    for text in (read(client, "/"), read(client, "/")):
        assert heading.format("Last 24 hours") in text
        assert "Since you were here" not in text
        assert "1 asked" in since_of(text)
    Membership.objects.filter(user=bob).update(desk_seen_at=clock.now() - timedelta(hours=2))
    text = read(client, "/")
    assert heading.format("Since you were here") in text
    assert "Last 24 hours" not in text


def test_a_reload_is_the_same_visit(ask, bob, browser_of, read):
    client = browser_of(bob)
    ask(LIST)
    for _ in range(2):
        assert "Check 1 auto-approved" in since_of(read(client, "/"))


@pytest.mark.parametrize(("sort", "order"), [("", "bac"), ("newest", "cba"), ("oldest", "abc"), ("odd", "bac")])
def test_waiting_shows_what_expires_soonest_first_or_is_sorted_by_age(ask, bob, browser_of, read, sort, order):
    found = {name: ask({"command": f"git push origin {name}"}) for name in "abc"}
    for name, minutes in (("a", 20), ("b", 10), ("c", 30)):
        ends = clock.now() + timedelta(minutes=minutes)
        Action.objects.filter(pk=found[name].pk).update(expires_at=ends)
    text = read(browser_of(bob), f"/waiting/?sort={sort}")
    assert sorted("abc", key=lambda name: text.index(f'id="action-{found[name].pk}"')) == list(order)


def test_an_expired_action_is_not_among_the_waiting(ask, bob, browser_of, read):
    action = ask(PUSH)
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    text = read(browser_of(bob), "/waiting/")
    assert f'id="action-{action.pk}"' not in text


def test_another_team_sees_nothing(ask, mallory, browser_of, read):
    action = ask(PUSH)
    for address in ("/", "/waiting/", "/actions/", "/log/"):
        text = read(browser_of(mallory), address)
        assert str(action.pk) not in text
        assert "git push" not in text


@pytest.mark.parametrize("address", ["/", "/waiting/", "/actions/", "/log/", "/agents/", "/team/", "/connect/"])
def test_three_rows_cost_what_one_row_costs(address, ask, bob, browser_of, workspace):
    client = browser_of(bob)
    ask({"command": "git push origin b0"}, workspace=workspace)
    client.get(address)
    one = queries_of(client, address)
    for number in (1, 2):
        ask({"command": f"git push origin b{number}"}, workspace=workspace)
    assert queries_of(client, address) == one


@pytest.mark.parametrize("address", ["/workspaces/", "/", "/w/payments/first/", "/w/payments/first/snapshots/"])
def test_three_workspaces_cost_what_one_costs(address, team, agent, alice, browser_of):
    client = browser_of(alice)
    make_workspace(team, agent, "first")
    client.get(address)
    one = queries_of(client, address)
    make_workspace(team, agent, "second", State.PAUSED)
    make_workspace(team, agent, "third", State.READY)
    assert queries_of(client, address) == one
