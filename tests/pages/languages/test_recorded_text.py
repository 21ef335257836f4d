"""What was recorded in English is said in the reader's language, from the form that it was made of."""

import json

import pytest
from django.urls import reverse
from django.utils import translation

from approvals.pages import own_titles
from approvals.policy import classify, default_policy, load_policy
from dashboard.templatetags.handrail import recorded as as_recorded
from dashboard.text import recorded_text
from tests.support import CHECKOUT

PUSH = {"command": "git push origin main"}
GERMAN = {
    "Needs approval: {says}.": "Braucht eine Freigabe: {says}.",
    "pushes to {branch} on {remote}": "nach {branch} auf {remote} pushen",
    "part {n} {says}": "Teil {n}: {says}",
    "deletes {path}, which cannot be brought back": "{path} löschen, was sich nicht zurückholen lässt",
    "deletes {path}": "{path} löschen",
    "writes {path}": "{path} schreiben",
    "Delete {path} and {n} more": "{path} und {n} weitere löschen",
    "runs {name}": "{name} ausführen",
    "{title} and {more} more": "{title} und {more} weitere",
    "before A-{n} ({title})": "vor A-{n} ({title})",
    "{key} names {value}": "{key} nennt {value}",
    "unpacks files whose names are not known": "Dateien unbekannten Namens entpacken",
}


@pytest.fixture
def german(monkeypatch):
    """German for a few forms; the others have none. Independent of the catalogue."""
    monkeypatch.setattr(recorded_text, "gettext", lambda text: GERMAN.get(text, text))
    recorded_text.in_language.cache_clear()
    yield
    recorded_text.in_language.cache_clear()


@pytest.mark.parametrize(
    ("recorded", "said"),
    [
        ("Push to main on origin", "Nach main auf origin pushen"),
        ("Needs approval: part 2 pushes to main on origin.",
         "Braucht eine Freigabe: Teil 2: nach main auf origin pushen."),
        ("Needs approval: deletes /srv, which cannot be brought back.",
         "Braucht eine Freigabe: /srv löschen, was sich nicht zurückholen lässt."),
        ("Run make, write a.txt, delete b and 2 more", "make ausführen, a.txt schreiben, b und 2 weitere löschen"),
        ("before A-12 (Push to main on origin)", "vor A-12 (Nach main auf origin pushen)"),
        ("Needs approval: part 1 unpacks files whose names are not known.",
         "Braucht eine Freigabe: Teil 1: Dateien unbekannten Namens entpacken."),
    ],
)  # fmt: skip
def test_a_record_is_said_with_the_same_parts(german, recorded, said):
    assert recorded_text.in_own_language(recorded) == said


@pytest.mark.parametrize(
    "recorded",
    [
        "Push to a on b on c",  # the branch or the remote may be "b on c" or "a on b"
        "Needs approval: deletes x, which is new.",  # no form has these words, and no name has them either
        'Delete an issue "a, push to main on origin" in acme/shop',  # words of an agent between quotes
        "Needs approval: something that nobody wrote.",
        "",
        " ",
        "Run x" * 1000,
    ],
)
def test_what_can_be_read_in_two_ways_or_in_none_is_left_as_it_was_recorded(german, recorded):
    assert recorded_text.in_own_language(recorded) is None


def calls():
    for name in ("tests/approvals/policy/corpus.jsonl", "approvals/past/attacks.jsonl"):
        for line in (CHECKOUT / name).read_text().splitlines():
            call = json.loads(line)
            if not call["tool"].startswith("mcp"):  # titles of tools are phrases (approvals/policy/deeds.py)
                yield call["tool"], call["input"]


def test_each_title_and_reason_of_the_corpus_comes_from_one_form(monkeypatch):
    """With a mark in the place of each form's words, nothing of the English form is left."""
    known = {form.msgid for form in recorded_text.forms()}
    monkeypatch.setattr(recorded_text, "gettext", lambda text: f"§{text}" if text in known else text)
    recorded_text.in_language.cache_clear()
    policy, seen, unread = load_policy(default_policy()), 0, []
    for tool, given in calls():
        verdict = classify(tool, given, policy=policy, context={"cwd": "/workspace"})
        for text in (verdict.title, *verdict.reasons):
            seen += 1
            if "§" not in (recorded_text.in_own_language(text) or ""):
                unread.append(text)
    recorded_text.in_language.cache_clear()
    assert seen > 500
    assert unread == []


@pytest.mark.django_db
def test_a_german_card_is_german_and_the_record_stays_english(german, ask, lena, browser_of):
    action = ask(PUSH)
    page = browser_of(lena).get(reverse("action", args=[action.pk]), headers={"accept-language": "de"})
    text = page.content.decode()
    assert "Nach main auf origin pushen" in text
    assert "Braucht eine Freigabe: nach main auf origin pushen." in text
    assert "Push to main on origin" not in text
    assert "Needs approval: pushes" not in text
    action.refresh_from_db()
    assert action.title == "Push to main on origin"
    english = browser_of(lena).get(reverse("action", args=[action.pk]), headers={"accept-language": "en"})
    assert "Needs approval: pushes to main on origin." in english.content.decode()


def test_hidden_characters_of_a_part_are_marked_in_each_language(german):
    with translation.override("de"):
        said = as_recorded("Push to ma\u202ein on origin")
    assert "\u202e" not in said
    assert said.startswith("Nach ")
    assert said.endswith(" auf origin pushen")


REFUND = {"amount": 12900, "currency": "eur", "order_id": "ORD-4711"}
PHRASES = {
    "{title} ({server})": "{title} ({server})",
    "Refund {object}": "{object} erstatten",
    "on {thing}": "zu {thing}",
}


@pytest.mark.django_db
def test_the_title_of_a_tool_is_said_from_its_arguments_only_if_that_is_what_was_recorded(
    ask, lena, browser_of, monkeypatch
):
    monkeypatch.setattr(own_titles, "gettext", lambda text: PHRASES.get(text, text))
    action = ask(REFUND, tool="mcp__shop__refund_order")
    page = f"/actions/{action.pk}/"
    german = {"headers": {"accept-language": "de"}}
    text = browser_of(lena).get(page, **german).content.decode()
    assert "Refund" in action.title
    assert "erstatten" in text
    assert action.title not in text
    type(action).objects.filter(pk=action.pk).update(title="Refund 1.00 EUR (shop)")
    text = browser_of(lena).get(page, **german).content.decode()
    assert '<span lang="en">Refund 1.00 EUR (shop)</span>' in text


DELETE = {"sql": "DELETE FROM orders WHERE id = 1"}


@pytest.fixture
def titles_in_german(monkeypatch, german):
    phrases = PHRASES | {"{title} ({server})": "{title} bei {server}"}
    monkeypatch.setattr(own_titles, "gettext", lambda text: phrases.get(text, text))
    monkeypatch.setitem(GERMAN, "Delete rows in {path}", "Zeilen in {path} löschen")
    own_titles._title_of_call.cache_clear()
    yield
    own_titles._title_of_call.cache_clear()


@pytest.mark.django_db
def test_every_page_says_the_title_of_a_tools_call_in_german(
    titles_in_german, ask, agent, workspace, lena, bob, browser_of
):
    action = ask(REFUND, tool="mcp__shop__refund_order", workspace=workspace, session="s1")
    following = ask(PUSH, session="s1")
    browser = browser_of(bob)
    pages = [
        f"/agents/{agent.pk}/",
        f"/agents/{agent.pk}/talk/?session=s1",
        f"/w/{workspace.team.slug}/{workspace.key}/",
        f"/actions/{action.pk}/",
        "/actions/",
        "/waiting/",
    ]
    german = {"headers": {"accept-language": "de"}}
    for page in pages:
        text = browser.get(page, **german).content.decode()
        assert "erstatten bei shop" in text, page
        assert action.title not in text, page
    browser.post(f"/agents/{agent.pk}/interrupt/", {"session": "s1", "minutes": "10"})
    text = browser.get(f"/agents/{agent.pk}/talk/?session=s1", **german).content.decode()
    assert "erstatten bei shop" in text
    assert action.title not in text
    assert following.title not in text


@pytest.mark.django_db
def test_the_title_of_a_statement_is_read_back(titles_in_german, ask, browser_of, bob):
    action = ask(DELETE, tool="mcp__db__query")
    text = browser_of(bob).get(f"/actions/{action.pk}/", headers={"accept-language": "de"}).content.decode()
    assert "orders löschen bei db" in text
    assert action.title not in text


@pytest.mark.django_db
def test_the_button_to_the_next_card_names_it_in_german(titles_in_german, ask, browser_of, bob):
    first, other = ask(PUSH), ask(REFUND, tool="mcp__shop__refund_order")
    browser = browser_of(bob)
    answer = browser.post(f"/actions/{first.pk}/deny/", {"digest": first.digest, "comment": ""})
    assert answer.status_code == 302
    text = browser.get(f"/actions/{first.pk}/", headers={"accept-language": "de"}).content.decode()
    assert "erstatten bei shop" in text
    assert other.title not in text
