"""The Policy page shows what is built in, each with a command to try, and how often it decided."""

import re
from urllib.parse import quote

import pytest

from approvals.pages.policy.built_in import BUILT_IN
from approvals.policy import MODES, Policy, classify

from .conftest import FORCE

EXAMPLES = [(tier, each.example) for tier, found in BUILT_IN.items() for each in found]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("tier", "example"), EXAMPLES)
def test_each_example_is_what_its_tier_says_in_every_mode(mode, tier, example):
    assert classify("Bash", {"command": example}, policy=Policy(mode=mode)).tier == tier


def test_the_page_lists_them_with_hits_and_links_to_try_them(ask, bob, browser_of):
    ask(FORCE)
    ask({"command": "rm -rf /"})
    client = browser_of(bob)
    text = re.sub(r"\s+", " ", client.get("/policy/?team=payments").content.decode())
    for _, example in EXAMPLES:
        assert f"try={quote(example, safe='')}#policy-try" in text.replace("&amp;", "&")
    assert text.count("Built in: 1 call in 30 days without a rule") == 2
    tried = client.get(f"/policy/?team=payments&try={quote('rm -rf /')}").content.decode()
    assert "which cannot be brought back" in tried


def test_a_team_of_one_is_led_to_the_way_that_works(ask, alice, browser_of, team):
    team.memberships.exclude(user=alice).delete()
    client, action = browser_of(alice), ask(FORCE)
    card = client.get(f"/actions/{action.pk}/").content.decode()
    assert "Approve alone…" in card
    opened = re.search(r'<template data-step-for="approve">(.*?)</template>', card, re.DOTALL)[1]
    for step in (opened, client.get(f"/actions/{action.pk}/approve/").content.decode()):
        assert f'action="/actions/{action.pk}/approve/alone/"' in step
        assert 'id="solo-target"' in step
    assert "Confirm: approve" not in card


def test_a_team_says_before_the_tap_that_two_are_needed(ask, bob, browser_of):
    critical, high = ask(FORCE), ask({"command": "git push origin topic"})
    client = browser_of(bob)
    said = "Critical: takes 2 people"
    assert said in re.sub(r"\s+", " ", client.get(f"/actions/{critical.pk}/").content.decode())
    assert said not in re.sub(r"\s+", " ", client.get(f"/actions/{high.pk}/").content.decode())


def test_a_row_says_that_two_people_are_needed_until_one_has_approved(ask, decide, alice, bob, browser_of):
    critical, high = ask(FORCE), ask({"command": "git push origin topic"})

    def rows() -> dict:
        page = re.sub(r"\s+", " ", browser_of(bob).get("/?state=pending").content.decode())
        found = re.findall(r'<li[^>]*class="row.*?</li>', page)
        return {action: next(row for row in found if str(action.pk) in row) for action in (critical, high)}

    said = "takes 2 people ·"
    assert [said in row for row in rows().values()] == [True, False]
    decide(critical, by=alice)
    assert [said in row for row in rows().values()] == [False, False]
    assert "1 of 2 approved" in rows()[critical]
