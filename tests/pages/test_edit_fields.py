"""Editing a call in a field for each argument: types are kept, limits are said at the field, nothing else changes."""

import html
import json
import re

import pytest

from approvals.evaluation.judge import content
from approvals.models import Action, Status, ToolSchema

SCHEMA = {
    "type": "object",
    "required": ["channel", "text"],
    "properties": {
        "channel": {"type": "string", "enum": ["#dev", "#ops"]},
        "text": {"type": "string", "maxLength": 40, "description": "What is posted"},
        "pin": {"type": "boolean"},
        "after": {"type": "integer", "minimum": 0, "maximum": 60},
        "rate": {"type": "number"},
        "tags": {"type": "array"},
        "silent": {"type": "boolean"},
        "note": {"type": "string"},
    },
}
GIVEN = {"channel": "#dev", "text": "hello\nworld", "pin": True, "after": 5, "rate": 1.5, "tags": ["a"], "more": None}
TOOL = "mcp__chat__post"


@pytest.fixture
def post(client, agent_token):
    """`post(token, path, body)`: (status, JSON)."""

    def send(token, path, body):
        headers = {"Authorization": f"Bearer {token}"}
        answer = client.post(path, json.dumps(body), content_type="application/json", headers=headers)
        return answer.status_code, answer.json()

    return send


@pytest.fixture
def asked(post, agent_token):
    def submit(arguments=GIVEN, tool=TOOL, **more):
        status, told = post(agent_token, "/api/v1/actions", {"tool": tool, "arguments": arguments, **more})
        assert status == 201, told
        return Action.objects.get(pk=told["id"])

    return submit


@pytest.fixture
def form(browser_of, bob):
    """`form(action)`: {label: name of its field} and what the form holds, as a browser would send it back."""

    def read(action):
        page = browser_of(bob).get(f"/actions/{action.pk}/edit/").content.decode()
        labels = dict(re.findall(r'<label for="id_(arg-\d+)">\s*([^\s<]+)', page))
        labels |= dict(re.findall(r'id="id_(arg-\d+)"[^>]*>\s*([^\s<]+)</label>', page))
        names = {html.unescape(label): name for name, label in labels.items()}
        held = {
            name: html.unescape(text)
            for name, text in re.findall(r'<textarea name="([^"]+)"[^>]*>\n(.*?)</textarea>', page, re.S)
        }
        held |= {
            name: html.unescape(text)
            for name, text in re.findall(r'<input type="text" name="([^"]+)" value="([^"]*)"', page)
        }
        for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', page, re.S):
            chosen = re.search(r'<option value="([^"]*)" selected', options)
            held[name] = html.unescape(chosen[1]) if chosen else ""
        held |= dict.fromkeys(re.findall(r'<input type="checkbox" name="([^"]+)"[^>]* checked', page), "on")
        return names, held

    return read


@pytest.fixture
def send(browser_of, bob):
    def answer(action, **fields):
        fields = {name: value.replace("\n", "\r\n") for name, value in fields.items()}  # as browsers do
        response = browser_of(bob).post(
            f"/actions/{action.pk}/edit/", {"digest": action.digest, "approve": "1", "comment": "", **fields}
        )
        action.refresh_from_db()
        return response

    return answer


def arguments_of(action) -> dict:
    return content(action)["arguments"]


def test_what_nobody_changed_is_the_same_byte_for_byte(asked, form, send):
    action = asked(input_schema=SCHEMA)
    names, held = form(action)
    assert set(names) == {*GIVEN, "silent", "note"}
    assert list(names)[:2] == ["channel", "text"]
    before = bytes(action.revisions.get().canonical)
    assert send(action, **held).status_code in (302, 422)  # an edit without a change is refused or approved as it is
    assert bytes(action.revisions.order_by("number").last().canonical) == before


def test_each_field_keeps_its_type(asked, form, send):
    action = asked(input_schema=SCHEMA)
    names, held = form(action)
    wish = {"channel": "#ops", "after": "7", "rate": "2.25", "tags": '["b", 1]', "silent": "true", "note": "n"}
    held |= {names[label]: text for label, text in wish.items()}
    del held[names["pin"]]  # unticked
    assert send(action, **held).status_code == 302
    assert action.status == Status.APPROVED
    changed = {"channel": "#ops", "pin": False, "after": 7, "rate": 2.25, "tags": ["b", 1], "silent": True, "note": "n"}
    assert arguments_of(action) == GIVEN | changed
    assert type(arguments_of(action)["after"]) is int


def test_without_a_schema_the_value_says_the_type(asked, form, send):
    action = asked()
    names, held = form(action)
    assert set(names) == set(GIVEN)
    held[names["after"]] = "8"
    assert send(action, **held).status_code == 302
    assert arguments_of(action) == GIVEN | {"after": 8}


@pytest.mark.parametrize(
    ("label", "text", "said"),
    [
        ("after", "7.5", "This takes a whole number."),
        ("after", "seven", "This takes a whole number."),
        ("after", "61", "This takes at most 60."),
        ("after", "true", "This takes a whole number."),
        ("rate", "NaN", "This takes a number."),
        ("tags", "[1", "This is not"),
        ("text", "x" * 41, "This takes at most 40 characters."),
        ("channel", "#all", "not one of the available choices"),
    ],
)
def test_what_does_not_fit_is_reported_at_its_field_and_changes_nothing(asked, form, send, label, text, said):
    action = asked(input_schema=SCHEMA)
    names, held = form(action)
    response = send(action, **(held | {names[label]: text}))
    page = response.content.decode()
    assert response.status_code in (200, 422)
    assert re.search(rf'id="id_{names[label]}_error">\s*[^<]*{re.escape(said)}', page), page[-3000:]
    assert (action.status, action.revisions.count()) == (Status.PENDING, 1)


@pytest.mark.parametrize("text", ["\n leading and trailing \n\n", "tab\tand\u00a0space ", "a\u202eb\u200bc", "&lt;\"'"])
def test_text_stays_as_it_is_to_the_last_character(asked, form, send, text):
    action = asked({"text": text, "other": "x"})
    names, held = form(action)
    assert send(action, **(held | {names["other"]: "y"})).status_code == 302
    assert arguments_of(action) == {"text": text, "other": "y"}


def test_a_carriage_return_is_edited_as_json(asked, form, send):
    action = asked({"text": "a\r\nb", "other": "x"})
    names, held = form(action)
    assert held[names["text"]] == '"a\\r\\nb"'
    assert send(action, **(held | {names["other"]: "y"})).status_code == 302
    assert arguments_of(action) == {"text": "a\r\nb", "other": "y"}


def test_known_tools_of_claude_code_offer_what_was_not_given(asked, form, send):
    action = asked({"file_path": "/srv/x.py", "old_string": "a", "new_string": "b"}, tool="Edit")
    names, held = form(action)
    assert send(action, **(held | {names["replace_all"]: "true", names["new_string"]: "c"})).status_code == 302
    assert arguments_of(action) == {"file_path": "/srv/x.py", "old_string": "a", "new_string": "c", "replace_all": True}


def test_any_call_can_be_edited_as_json(asked, browser_of, bob):
    action = asked()
    page = browser_of(bob).get(f"/actions/{action.pk}/edit/?as=json").content.decode()
    assert 'name="arguments_json"' in page


def test_fields_stand_in_the_order_of_the_schema_and_what_it_does_not_name_after_them(asked, form):
    names, _ = form(asked(input_schema=SCHEMA))
    assert sorted(names, key=lambda name: int(names[name].rpartition("-")[2])) == [*SCHEMA["properties"], "more"]


def test_a_sum_in_cents_says_what_it_means(asked, browser_of, bob):
    given = {"charge": "ch_1", "amount": 12990, "currency": "eur", "attempts": 3}
    action = asked(given, tool="mcp__stripe__create_refund")
    page = browser_of(bob).get(f"/actions/{action.pk}/edit/").content.decode()
    assert "12990 means 129.90 EUR." in page
    assert page.count(" means ") == 1


def test_a_schema_is_kept_once_and_must_be_one_of_an_object(asked, post, agent_token):
    asked(input_schema=SCHEMA)
    asked(input_schema=SCHEMA)
    assert ToolSchema.objects.count() == 1
    for schema in ({"type": "array"}, {"properties": 7}, {"description": "x" * 70_000}):
        wish = {"tool": TOOL, "arguments": GIVEN, "input_schema": schema}
        assert post(agent_token, "/api/v1/actions", wish)[0] == 422
    assert Action.objects.count() == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"text": 7, "pin": {"enum": "x"}, "after": {"type": ["integer", "null"], "maximum": "9"}}},
        {"required": "text", "properties": {"new": {"type": {"a": 1}}, "other": {"enum": [1, "a"]}}},
        {"properties": {"text": {"description": ["x"], "maxLength": True}, "": {"type": "string"}}},
    ],
)
def test_a_strange_schema_breaks_nothing(asked, form, send, schema):
    action = asked(input_schema=schema)
    names, held = form(action)
    assert send(action, **(held | {names["after"]: "6"})).status_code == 302
    assert arguments_of(action) == GIVEN | {"after": 6}
