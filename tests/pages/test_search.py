"""Search: what is found by which words, in a few queries, and never what belongs to others."""

from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

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


def test_words_are_found_in_any_order_and_each_must_be_there(team, agent, ask, workspace, alice, browser_of, read):
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
        "agent": f"?agent={agent.pk}",
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
    assert f"?agent={agent.pk}" in read(client, "/search/?q=clau")


def test_nothing_of_another_team_is_found(ask, workspace, mallory, browser_of, read):
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


def test_it_costs_the_same_for_one_and_for_many(team, agent, ask, alice, browser_of, read):
    client, counts = browser_of(alice), []
    for wave in (1, 4):
        for number in range(wave):
            place = make_workspace(team, agent, f"repo-{wave}-{number}", description="push")
            ask({"command": f"git push origin b{wave}{number}"}, workspace=place)
            make_command(place, "git push")
        with CaptureQueriesContext(connection) as queries:
            read(client, "/search/?q=push")
        counts.append(len(queries))
    assert counts[0] == counts[1]
