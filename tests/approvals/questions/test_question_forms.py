"""Questions of Codex and of MCP servers: the same card as Claude Code's, and answers in their own form."""

import json

import pytest

from approvals.evaluation.judge import content
from approvals.models import Action, Status
from dashboard.problems import Problem

from ..conftest import ACTIONS, full

pytestmark = pytest.mark.django_db(transaction=True)

CODEX = {
    "questions": [
        {
            "id": "branch",
            "header": "Branch",
            "question": "Which branch?",
            "isOther": True,
            "options": [{"label": "main", "description": "now"}, {"label": "next", "description": "later"}],
        },
        {"id": "why", "header": "Why", "question": "Why now?"},
    ]
}
# Shown in this order: required ones as they are named, then by name.
FIELDS = {
    "cents": {"type": "integer", "title": "Amount in cents", "minimum": 1, "maximum": 5000},
    "rate": {"type": "number"},
    "reason": {"type": "string", "oneOf": [{"const": "b", "title": "Broken"}, {"const": "l", "title": "Late"}]},
    "mail": {"type": "boolean", "description": "Tell the customer"},
    "parts": {"type": "array", "items": {"type": "string", "enum": ["tax", "goods"]}, "maxItems": 1},
    "note": {"type": "string", "minLength": 2, "maxLength": 9, "format": "email"},
}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["cents", "reason"]}
ELICITED = {"server": "shop", "message": "How much?", "requestedSchema": SCHEMA}


def send(client, action, **fields):
    answer = client.post(f"/actions/{action.pk}/answer/", {"digest": action.digest, **fields})
    action.refresh_from_db()
    return answer


def content_of(action) -> dict:
    return content(action)["arguments"]


def test_a_question_of_codex_is_answered_by_id(ask, bob, browser_of):
    asked = ask(CODEX, tool="request_user_input")
    assert (asked.status, asked.tier, asked.title) == (Status.PENDING, "high", "Answer 2 questions")
    answered = send(browser_of(bob), asked, **{"q1": "2", "q1-own": "or main", "q2-own": "a release"})
    assert answered.status_code == 302
    expected = {"branch": {"answers": ["next", "or main"]}, "why": {"answers": ["a release"]}}
    assert content_of(asked)["answers"] == expected
    assert asked.status == Status.APPROVED


def test_a_secret_of_codex_is_not_asked_here(post, agent_token):
    secret = {"questions": [CODEX["questions"][0] | {"isSecret": True}]}
    status, body = post(agent_token, ACTIONS, {"tool": "request_user_input", "arguments": secret})[:2]
    assert status == 422
    assert "secret" in json.dumps(body)
    assert Action.objects.count() == 0


def test_a_server_gets_values_of_the_types_that_it_named(ask, bob, browser_of):
    asked = ask(ELICITED, tool="elicitation/create")
    fields = {"q1-own": " 1250 ", "q2": "2", "q3": "1", "q4-own": "a@b.c", "q5": ["2"], "q6-own": "0.5"}
    answered = send(browser_of(bob), asked, **fields)
    assert answered.status_code == 302, answered.content.decode()[-6000:]
    given = content_of(asked)["content"]
    assert given == {"cents": 1250, "rate": 0.5, "reason": "l", "mail": True, "parts": ["goods"], "note": "a@b.c"}
    assert type(given["cents"]) is int


def test_what_is_optional_may_be_left_out(ask, bob, browser_of):
    asked = ask(ELICITED, tool="elicitation/create")
    assert send(browser_of(bob), asked, **{"q1-own": "1", "q2": "1"}).status_code == 302
    assert content_of(asked)["content"] == {"cents": 1, "reason": "b"}


def test_a_server_that_asks_for_a_yes_gets_it(ask, bob, browser_of):
    nothing = {"message": "Go on?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = ask(nothing, tool="elicitation/create")
    assert send(browser_of(bob), asked).status_code == 302
    assert content_of(asked)["content"] == {}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"q2": "1"}, "Question 1 has no answer yet"),
        ({"q1-own": "1"}, "Question 2 has no answer yet"),
        ({"q1-own": "one", "q2": "1"}, "takes a whole number"),
        ({"q1-own": "1.5", "q2": "1"}, "takes a whole number"),
        ({"q1-own": "5001", "q2": "1"}, "1 to 5000"),
        ({"q1-own": "1", "q2": "1", "q6-own": "nan"}, "takes a number"),
        ({"q1-own": "1", "q2": "1", "q6-own": "1e400"}, "takes a number"),
        ({"q1-own": "1_0", "q2": "1"}, "takes a whole number"),
        ({"q1-own": "1", "q2": "1", "q5": ["1", "2"]}, "at most 1 choice"),
        ({"q1-own": "1", "q2": "1", "q4-own": "x" * 10}, "2 to 9 characters"),
    ],
)
def test_an_answer_that_does_not_fit_says_why_and_changes_nothing(ask, bob, browser_of, fields, said):
    asked = ask(ELICITED, tool="elicitation/create")
    answered = send(browser_of(bob), asked, **fields)
    assert answered.status_code == 422
    assert said in answered.content.decode()
    assert content_of(asked) == ELICITED
    assert asked.status == Status.PENDING


@pytest.mark.parametrize(
    "content",
    [
        None,
        [],
        {},
        {"cents": "1250", "reason": "b"},
        {"cents": True, "reason": "b"},
        {"cents": 1.5, "reason": "b"},
        {"cents": 1, "reason": "x"},
        {"cents": 1, "reason": "b", "mail": 1},
        {"cents": 1, "reason": "b", "more": 1},
        {"cents": 1, "reason": "b", "parts": "tax"},
        {"cents": 1, "reason": "b", "parts": ["tax", "goods"]},
        {"cents": 1, "reason": "b", "note": ""},
    ],
)
def test_the_api_takes_no_answer_that_the_server_did_not_ask_for(ask, decide, bob, content):
    asked = ask(ELICITED, tool="elicitation/create")
    with pytest.raises(Problem) as refused:
        decide(asked, "edit", by=bob, arguments=ELICITED | {"content": content})
    assert refused.value.status == 422
    asked.refresh_from_db()
    assert asked.status == Status.PENDING


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("request_user_input", {"questions": [{"question": "No id?"}]}),
        ("request_user_input", {"questions": [CODEX["questions"][1]] * 2}),
        ("request_user_input", CODEX | {"answers": {"branch": {"answers": ["main"]}}}),
        ("elicitation/create", {"message": "x"}),
        ("elicitation/create", ELICITED | {"mode": "url"}),
        ("elicitation/create", ELICITED | {"content": {}}),
        ("elicitation/create", ELICITED | {"requestedSchema": {"properties": {"a": {"type": "object"}}}}),
        ("elicitation/create", ELICITED | {"requestedSchema": {"properties": {}, "required": ["a"]}}),
        ("elicitation/create", ELICITED | {"requestedSchema": {"properties": {"a": {"type": "string", "enum": []}}}}),
    ],
)
def test_a_form_that_a_card_cannot_show_is_refused(post, agent_token, tool, arguments):
    assert post(agent_token, ACTIONS, {"tool": tool, "arguments": arguments})[0] == 422
    assert Action.objects.count() == 0


def elicitation(**more):
    event = {"session_id": "s1", "hook_event_name": "Elicitation", "mcp_server_name": "shop", "mode": "form"}
    return event | {"message": "How much?", "requested_schema": SCHEMA} | more


def test_the_hook_leaves_what_it_cannot_show_to_the_agents_terminal(hook, agent_token):
    for event in (elicitation(mode="url", url="https://example.org"), elicitation(requested_schema={"properties": 7})):
        assert full(hook(agent_token, event)).json == {"continue": True}
    assert Action.objects.count() == 0
