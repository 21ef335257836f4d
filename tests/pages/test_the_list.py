"""The list of what waits: filters that combine and stay, a search, its rows in parts, and answers in the rows."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.models import Action, Status
from approvals.pages.list_filters import ENDS_SOON
from approvals.pages.lists import FIRST_ROWS
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.people.tokens import make_token

from .conftest import PUSH, tight

QUESTION = {"questions": [{"question": "Which branch?", "options": [{"label": "main"}, {"label": "next"}]}]}
PLAN = {"plan": "# Tidy up\n\n1. Delete dist"}


def shown(page: str) -> set[str]:
    return set(re.findall(r'id="action-([^"]+)"', page))


def chips(page: str) -> dict[str, str]:
    """What each chip and menu says, and where its link leads."""
    bar = page[page.index('id="waiting-filters"') : page.index('id="waiting-rows"')]
    found = re.findall(r'<a href="([^"]*)"[^>]*>(.*?)</a>', bar, re.DOTALL)
    return {" ".join(re.sub(r"<[^>]*>", " ", words).split()): href.replace("&amp;", "&") for href, words in found}


@pytest.fixture
def mixed(ask, team, workspace):
    """A question, a plan, a call in a workspace that ends soon, and one of another agent: all by their names."""
    other = make_token(team, agent=Agent.objects.create(team=team, name="codex-2"))
    found = {
        "question": ask(QUESTION, tool="AskUserQuestion"),
        "plan": ask(PLAN, tool="ExitPlanMode"),
        "push": ask(PUSH, workspace=workspace),
        "mail": ask({"to": "ada@example.org"}, tool="mcp__mail__send_letter", token=other),
    }
    Action.objects.filter(pk=found["push"].pk).update(expires_at=clock.now() + ENDS_SOON - timedelta(seconds=1))
    return found


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", "question plan push mail"),
        ("kind=question", "question"),
        ("kind=plan", "plan"),
        ("undo=no", "push"),
        ("ends=soon", "push"),
        ("workspace=repo-task-1", "push"),
        ("agent=codex-2", "mail"),
        ("agent=codex-2&undo=no", ""),
        ("q=BRANCH", "question"),
        ("q=tidy", "plan"),
        ("q=codex", "mail"),
        ("q=send_letter", "mail"),
        ("q=repo-task&ends=soon", "push"),
        ("q=origin", "push"),
        ("kind=odd", ""),
    ],
)
def test_the_list_is_narrowed_by_each_filter_and_by_several(mixed, bob, browser_of, read, query, names):
    Action.objects.filter(pk=mixed["mail"].pk).update(undo="unknown")
    found = shown(read(browser_of(bob), f"/waiting/?{query}"))
    assert found == {str(mixed[name].pk) for name in names.split()}


def test_chips_say_what_they_filter_and_how_many_and_keep_the_other_filters(mixed, bob, browser_of, read):
    Action.objects.filter(pk=mixed["mail"].pk).update(undo="unknown")
    client = browser_of(bob)
    found = chips(read(client, "/waiting/?agent=codex-2&sort=newest"))
    assert found["Questions 1"] == "/waiting/?kind=question&agent=codex-2&sort=newest"
    assert found["Can&#x27;t be undone 1"] == "/waiting/?undo=no&agent=codex-2&sort=newest"
    assert found["Expiring 1"] == "/waiting/?ends=soon&agent=codex-2&sort=newest"
    assert found["codex-2 1"] == "/waiting/?sort=newest"  # chosen, so that a tap takes it back
    assert found["Oldest"] == "/waiting/?agent=codex-2&sort=oldest"
    page = read(client, "/waiting/?agent=codex-2&sort=newest")
    assert '<input type="hidden" name="agent" value="codex-2">' in page
    assert "No open requests match these filters." in read(client, "/waiting/?agent=nobody")


def test_the_filters_and_the_sort_go_with_a_card_and_its_list_keeps_them(mixed, bob, browser_of, read):
    client, query = browser_of(bob), "undo=no&q=origin&sort=oldest"
    rows = read(client, f"/waiting/?{query}").replace("&amp;", "&")
    address = f"/actions/{mixed['push'].pk}/"
    assert f'href="{address}?{query}"' in rows
    card = read(client, f"{address}?{query}")
    assert shown(card) == {str(mixed["push"].pk)}
    assert chips(card)["Questions 1"] == f"{address}?kind=question&{query}"


@pytest.mark.parametrize(("cookie", "refreshes", "leads"), [("1", 0, 1), ("0", 0, 0), ("1", 1, 0)])
def test_a_wide_screen_opens_the_first_card_beside_the_list(mixed, bob, browser_of, cookie, refreshes, leads):
    client = browser_of(bob)
    client.cookies["handrail-wide"] = cookie
    headers = {"X-Handrail-Refresh": "1"} if refreshes else {}
    answer = client.get("/waiting/?sort=oldest", headers=headers)
    wanted = f"/actions/{mixed['question'].pk}/?sort=oldest"
    assert answer.headers.get("Location") == (wanted if leads else None)


def test_a_wide_screen_without_anything_to_decide_shows_the_list(bob, browser_of):
    client = browser_of(bob)
    client.cookies["handrail-wide"] = "1"
    assert client.get("/waiting/").status_code == 200


def test_the_rows_come_in_parts_with_a_link_to_more(ask, bob, browser_of, read):
    for number in range(FIRST_ROWS + 2):
        ask(QUESTION | {"metadata": {"n": number}}, tool="AskUserQuestion")
    client = browser_of(bob)
    first = read(client, "/waiting/?kind=question")
    assert len(shown(first)) == FIRST_ROWS
    assert f'href="?kind=question&amp;rows={2 * FIRST_ROWS}"' in first
    assert "2 more" in tight(first)
    whole = read(client, f"/waiting/?kind=question&rows={2 * FIRST_ROWS}")
    assert len(shown(whole)) == FIRST_ROWS + 2
    assert "rows=" not in whole[whole.index('id="waiting-rows"') :]
    assert len(shown(read(client, "/waiting/?rows=x"))) == FIRST_ROWS


@pytest.mark.parametrize(("seconds", "words"), [(112, "1:52"), (299, "4:59"), (900, "")])
def test_what_ends_within_five_minutes_counts_down(ask, bob, browser_of, read, seconds, words):
    action = ask(PUSH)
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now() + timedelta(seconds=seconds))
    text = read(browser_of(bob), "/waiting/")
    ends, said = re.search(r"data-left( data-ends)?[^>]*>([\d:]*)</time>", text).groups()
    assert bool(ends) == bool(words)
    minutes = [int(part) for part in said.split(":")] if said else []
    late = 60 * minutes[0] + minutes[1] if minutes else 0
    assert 0 <= (seconds - late if words else 0) <= 60


def answers(page: str, action) -> list[tuple[str, str]]:
    row = re.search(rf'id="action-{action.pk}".*?</li>', page, re.DOTALL)[0]
    return re.findall(r'<button name="q1" value="(\d)"[^>]*>\s*([^<]*?)\s*</button>', row)


def test_a_short_question_is_answered_in_its_row(ask, bob, vera, browser_of, read):
    question = ask(QUESTION, tool="AskUserQuestion")
    client = browser_of(bob)
    assert answers(read(client, "/waiting/?kind=question"), question) == [("1", "main"), ("2", "next")]
    assert answers(read(browser_of(vera), "/waiting/"), question) == []
    sent = {"digest": question.digest, "from": "list", "q1": "2"}
    answer = client.post(f"/actions/{question.pk}/answer/?kind=question", sent)
    assert answer.headers["Location"] == "/waiting/?kind=question"
    question.refresh_from_db()
    assert question.status == Status.APPROVED
    assert '"Which branch?":"next"' in bytes(question.revisions.order_by("number").last().canonical).decode()


LONG = {"label": "A choice with many words"}
NOT_IN_A_ROW = {
    "one choice": [{"question": "Which?", "options": [{"label": "a"}]}],
    "four choices": [{"question": "Which?", "options": [{"label": each} for each in "abcd"]}],
    "none": [{"question": "Which?", "options": []}],
    "a long choice": [{"question": "Which?", "options": [LONG, {"label": "b"}]}],
    "a long question": [{"question": "Which? " * 20, "options": [{"label": "a"}, {"label": "b"}]}],
    "several choices at once": [
        {"question": "Which?", "multiSelect": True, "options": [{"label": "a"}, {"label": "b"}]}
    ],
    "two questions": [{"question": f"{n}?", "options": [{"label": "a"}, {"label": "b"}]} for n in range(2)],
    "a preview": [{"question": "Which?", "options": [{"label": "a", "preview": "x"}, {"label": "b"}]}],
    "a hidden character": [{"question": "Which?", "options": [{"label": "a\u200b"}, {"label": "b"}]}],
    "choices that look the same": [{"question": "Which?", "options": [{"label": "a"}, {"label": "a "}]}],
}


@pytest.mark.parametrize("kind", NOT_IN_A_ROW)
def test_what_a_row_cannot_show_whole_is_answered_on_its_card(ask, bob, browser_of, read, kind):
    question = ask({"questions": NOT_IN_A_ROW[kind]}, tool="AskUserQuestion")
    page = read(browser_of(bob), "/waiting/")
    assert answers(page, question) == []
    assert "Answer…" in page


def test_a_choice_whose_value_is_another_is_answered_on_its_card(ask, bob, browser_of, read):
    choices = [{"const": "delete", "title": "Keep"}, {"const": "keep", "title": "Delete"}]
    schema = {"type": "object", "properties": {"what": {"type": "string", "oneOf": choices}}, "required": ["what"]}
    question = ask({"message": "Which?", "requestedSchema": schema}, tool="elicitation/create")
    assert answers(read(browser_of(bob), "/waiting/"), question) == []


def test_who_decides_in_a_row_beside_a_card_stays_at_the_card(ask, bob, browser_of, read):
    opened, question = ask(PUSH), ask(QUESTION, tool="AskUserQuestion")
    client = browser_of(bob)
    page = read(client, f"/actions/{opened.pk}/")
    row = re.search(rf'id="action-{question.pk}".*?</li>', page, re.DOTALL)[0]
    assert f'name="from" value="{opened.pk}"' in row
    sent = {"digest": question.digest, "from": f"{opened.pk}", "q1": "1"}
    answer = client.post(f"/actions/{question.pk}/answer/?sort=newest", sent)
    assert answer.headers["Location"] == f"/actions/{opened.pk}/?sort=newest"


def test_a_card_of_a_group_has_the_groups_row_as_its_own(ask, bob, browser_of, read):
    asked = [ask({"command": f"git push origin topic-{number}"}) for number in range(3)]
    page = read(browser_of(bob), f"/actions/{asked[2].pk}/")
    assert re.search(r'<li class="row asked group"[^>]*aria-current="true"', page)


def test_a_row_for_fifty_costs_what_one_for_three_costs(ask, bob, browser_of):
    client = browser_of(bob)
    counts = []
    for numbers in (range(3), range(3, 20)):
        for number in numbers:
            ask({"command": f"git push origin topic-{number}"})
        client.get("/waiting/")
        with CaptureQueriesContext(connection) as queries:
            client.get("/waiting/")
        counts.append(len(queries))
    assert counts[0] == counts[1]
