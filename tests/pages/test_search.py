"""Search: what is found by which words, in a few queries, and never what belongs to others."""

import re
from dataclasses import asdict
from html import unescape
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.models import Actor
from dashboard.site import search, search_limits
from workspaces.models import WorkspaceLabel

from .conftest import FORCE, make_command, make_workspace

pytestmark = pytest.mark.django_db


def test_a_workspace_is_found_by_name_description_and_label(team, agent, alice, browser_of, read):
    one = make_workspace(team, agent, "repo-task-8421", description="The invoices of March")
    make_workspace(team, agent, "other")
    WorkspaceLabel.objects.create(workspace=one, name="ticket", value="PAY-77")
    for words in ("task-84", "INVOICES", "PAY-77", "ticket:PAY-77"):
        text = read(browser_of(alice), f"/search/?q={words}")
        assert 'href="/w/payments/repo-task-8421/"' in text, words
        assert 'href="/w/payments/other/"' not in text, words


def test_an_action_is_found_by_title_number_and_digest(ask, alice, browser_of, read):
    action, other = ask(), ask(FORCE)
    for words in (
        action.title[:12],
        "A-1",
        "a1",
        "1",
        action.digest,
        action.digest[-8:],
        f"…{action.digest[-8:-4]} {action.digest[-4:]}",
    ):
        text = read(browser_of(alice), f"/search/?q={words}")
        assert f'id="action-{action.pk}"' in text, words
    assert f'id="action-{other.pk}"' not in read(browser_of(alice), "/search/?q=A-1")


def test_an_action_is_found_by_the_text_of_its_command(ask, alice, mallory, browser_of, read):
    action = ask({"command": 'git push origin main  # says "été" ticket-4711'})
    other = ask()
    for words in ("ticket-4711", 'says "été"', "push origin main  #"):
        text = read(browser_of(alice), f"/search/?{urlencode({'q': words})}")
        assert (f'id="action-{action.pk}"' in text, f'id="action-{other.pk}"' in text) == (True, False), words
    assert f'id="action-{action.pk}"' not in read(browser_of(mallory), "/search/?q=ticket-4711")


def test_terms_match_in_any_order_and_all_are_required(team, agent, ask, workspace, alice, browser_of, read):
    action, other = ask({"command": "git push origin release"}, workspace=workspace), ask()
    place = make_workspace(team, agent, "second", description="The invoices of March")
    WorkspaceLabel.objects.create(workspace=place, name="ticket", value="PAY 77")
    WorkspaceLabel.objects.create(workspace=place, name="size", value="small")
    command = make_command(workspace, "make invoices")
    shown = {
        "action": f'id="action-{action.pk}"',
        "other": f'id="action-{other.pk}"',
        "place": 'href="/w/payments/second/"',
        "command": f"/commands/{command.pk}/",
        "snapshot": "/w/payments/repo-task-1/snapshots/2/",
        "agent": f"/agents/{agent.pk}/",
    }
    for words, found in {
        "release push": {"action"},
        "origin push": {"action", "other"},
        "repo-task-1 push": {"action"},
        "claude release": {"action"},
        "release A-1": {"action"},
        "release A-2": set(),
        "release missing": set(),
        "repo-task-1": {"action"},  # what was asked there; not each command and snapshot in it
        "march invoices": {"place"},
        "small ticket:PAY invoices": set(),
        "invoices size:small": {"place"},
        "PAY 77": {"place"},
        "ticket:PAY 77": {"place"},
        "invoices make": {"command"},
        "invoices repo-task-1": {"command"},
        "lunch before": {"snapshot"},
    }.items():
        text = read(browser_of(alice), f"/search/?{urlencode({'q': words})}").partition('class="page-head"')[2]
        assert {kind for kind, mark in shown.items() if mark in text} == found, words


def test_commands_snapshots_and_agents_are_found(workspace, agent, alice, browser_of, read):
    command = make_command(workspace, "make invoices")
    client = browser_of(alice)
    assert f"/commands/{command.pk}/" in read(client, "/search/?q=INVOICES")
    assert "/w/payments/repo-task-1/snapshots/2/" in read(client, "/search/?q=before+lunch")
    assert f"/agents/{agent.pk}/" in read(client, "/search/?q=clau")


def test_a_search_finds_nothing_of_another_team(ask, workspace, mallory, browser_of, read):
    ask()
    make_command(workspace, "make invoices")
    for words in ("repo", "A-1", "invoices", "lunch", "claude"):
        assert "No results." in read(browser_of(mallory), f"/search/?q={words}"), words


def test_words_that_mean_something_elsewhere_mean_themselves(workspace, alice, browser_of, read):
    for words in ("%25", "_", "%27+OR+1=1", "%00", "<script>", "x" * 5000):
        text = read(browser_of(alice), f"/search/?q={words}")
        assert "No results." in text, words
        assert "<script>" not in text.replace("<script type", "")
    assert "Nothing here" not in read(browser_of(alice), "/search/")


def test_a_search_takes_the_same_queries_for_one_and_many_hits(team, agent, ask, alice, browser_of, read):
    client, counts = browser_of(alice), []
    read(client, "/search/?q=push")  # the first page of a session writes the session down, and opens the team's store
    for wave in (1, 4):
        for number in range(wave):
            place = make_workspace(team, agent, f"repo-{wave}-{number}", description="push")
            ask({"command": f"git push origin b{wave}{number}"}, workspace=place)
            make_command(place, "git push")
        with CaptureQueriesContext(connection) as queries:
            read(client, "/search/?q=push")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_what_an_agent_did_is_asked_for_by_its_name(team, agent, bob, ask, workspace, client, token_of):
    """The agent's call is found, and not the command of a person."""
    mine, theirs = ask({"command": "make zebra"}, workspace=workspace), make_command(workspace, "make zebra")
    type(theirs).objects.filter(pk=theirs.pk).update(by=asdict(Actor.person(bob)))
    headers = {"Authorization": f"Bearer {token_of(bob)}"}

    def found(**more):
        answer = client.get("/api/v1/search", {"q": "zebra", **more}, headers=headers).json()
        return {hit["url"] for hit in answer["hits"] if hit["kind"] in ("actions", "commands")}

    action, command = f"/actions/{mine.pk}/", f"/w/payments/repo-task-1/commands/{theirs.pk}/"
    assert found() == {action, command}
    assert found(agent=agent.name) == found(agent=str(agent.pk)) == {action}
    assert found(person="bob") == {command}
    assert found(agent="nobody") == found(person="nobody") == set()


def test_the_page_narrows_to_an_agent_or_a_person(agent, bob, ask, browser_of, read):
    action, client = ask({"command": "make zebra"}), browser_of(bob)
    shown = f'id="action-{action.pk}"'
    assert shown in read(client, f"/search/?q=zebra&agent={agent.name}")
    assert shown not in read(client, "/search/?q=zebra&person=bob")


def test_pages_of_one_kind_show_each_result_once(ask, alice, browser_of, read, monkeypatch):
    """Also where the stretches that are searched at once end between them."""
    monkeypatch.setattr(search, "MAX_OF_ONE", 2)
    monkeypatch.setattr(search_limits, "STRETCH", 3)
    asked_for = [ask({"command": f"git push origin zebra-{n}" if n % 3 else "git push"}) for n in range(1, 9)]
    client, address, seen = browser_of(alice), "/search/?q=zebra&kind=actions", []
    while address:
        text = read(client, address)
        seen += re.findall(r'id="action-([0-9a-f-]{36})"', text)
        older = re.search(r'href="([^"]+)" rel="next"', text)
        address = f"/search/{unescape(older[1])}" if older else ""
    assert seen == [str(action.pk) for n, action in reversed(list(enumerate(asked_for, 1))) if n % 3]


def test_a_search_without_time_says_how_far_back_it_came(ask, alice, browser_of, read, monkeypatch):
    monkeypatch.setattr(search, "SECONDS_OF_ROWS", -1)
    monkeypatch.setattr(search_limits, "STRETCH", 2)
    first = ask({"command": "make zebra"})
    for number in range(4):
        ask({"command": f"make {number}"})
    client = browser_of(alice)
    text = read(client, "/search/?q=zebra")
    assert (f'id="action-{first.pk}"' in text, "Searched back to" in text) == (False, True)
    longer = next(unescape(link) for link in re.findall(r'href="(\?kind=actions[^"]*)"', text) if "Search" not in link)
    assert f'id="action-{first.pk}"' in read(client, f"/search/{longer}")


def test_an_invalid_cursor_shows_the_first_page(ask, alice, browser_of, read, client, token_of):
    action = ask({"command": "make zebra"})
    text = read(browser_of(alice), "/search/?q=zebra&kind=actions&before=nonsense")
    assert f'id="action-{action.pk}"' in text
    headers = {"Authorization": f"Bearer {token_of(alice)}"}
    for query in ("kind=actions&before=nonsense", "kind=files&before=nonsense", "before=2026-01-01T00:00:00Z~1"):
        assert client.get(f"/api/v1/search?q=zebra&{query}", headers=headers).status_code == 422, query
