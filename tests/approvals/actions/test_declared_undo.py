"""MCP tools whose server declares an undo: the call that takes one back, from the declaration to its approval."""

import json
from datetime import timedelta

import pytest

from approvals.actions import way_back_search
from approvals.models import Action
from dashboard.database import clock

SERVED = {"runs": "npx pages", "sha256": "a" * 64, "tool_sha256": "b" * 64}
UNDO = {
    "tool": "delete_page",
    "arguments": {"id": {"result": "/id"}, "space": {"argument": "space"}, "force": {"value": True}},
}


@pytest.fixture
def call(api, agent_token):
    """`call("POST", path, body)`: what the gate of the agent sends; returns the JSON."""

    def send(method, path, body=None, expect=None):
        answer = api(agent_token).generic(method, f"/api/v1{path}", json.dumps(body or {}), "application/json")
        assert answer.status_code == (expect or answer.status_code), answer.content
        return answer.json()

    return send


def created(call, undo=UNDO, expect=201, **more) -> dict:
    body = {"tool": "mcp__pages__create_page", "arguments": {"space": "S", "text": "x"}, "mcp": SERVED | {"undo": undo}}
    return call("POST", "/actions", body | more, expect)


def approved(call, decide, bob, action: dict) -> dict:
    decide(Action.objects.get(pk=action["id"]), by=bob)
    return call("POST", f"/actions/{action['id']}/consume", {"digest": action["digest"]}, 200)


def ended(call, action: dict, **made) -> dict:
    call("POST", f"/actions/{action['id']}/outcome", {"status": "succeeded", "made": made or None}, 200)
    return call("GET", f"/actions/{action['id']}")


def test_the_card_knows_the_call_before_the_decision_and_the_result_completes_it(call, decide, bob):
    action = created(call)
    assert (action["undo"], action["compensation"]["state"]) == ("outside", "found")
    assert action["compensation"]["call"] == {
        "tool": "mcp__pages__delete_page", "arguments": {"id": None, "space": "S", "force": True},
    }  # fmt: skip
    done = ended(call, approved(call, decide, bob, action), id="p-7")
    assert done["compensation"]["state"] == "ready"
    assert done["compensation"]["call"]["arguments"] == {"id": "p-7", "space": "S", "force": True}


def test_the_agents_gate_uses_the_approval_of_the_compensation_for_exactly_that_call(call, decide, bob, api, token_of):
    done = ended(call, approved(call, decide, bob, created(call)), id="p-7")
    person = api(token_of(bob))
    asked = person.post(f"/api/v1/actions/{done['id']}/compensate", content_type="application/json").json()
    assert (asked["tool"], asked["mode"], asked["status"]) == ("mcp__pages__delete_page", "gate", "pending")
    assert asked["compensates"] == done["id"]
    wish = {"tool": "mcp__pages__delete_page", "arguments": {"id": "p-7", "space": "S", "force": True}}
    other = call("POST", "/actions", wish | {"mcp": SERVED | {"sha256": "c" * 64}}, 201)
    assert other["id"] != asked["id"]
    assert call("POST", "/actions", wish | {"mcp": SERVED}, 200)["id"] == asked["id"]
    approved(call, decide, bob, asked)
    assert ended(call, asked)["status"] == "succeeded"
    again = call("POST", f"/actions/{done['id']}/compensate", None, 200)
    assert again["id"] == asked["id"]
    assert call("POST", "/actions", wish | {"mcp": SERVED}, 201)["id"] != asked["id"]


def test_a_result_that_does_not_name_it_leaves_no_way_back(call, decide, bob):
    done = ended(call, approved(call, decide, bob, created(call)))
    assert (done["compensation"], done["no_compensation_because"]) == (None, way_back_search.NOT_SAID)
    assert done["undo"] != "outside"


def test_a_report_that_never_comes_ends_the_wait_for_it(call, decide, bob):
    action = approved(call, decide, bob, created(call))
    Action.objects.filter(pk=action["id"]).update(status="uncertain", ended_at=clock.now() - timedelta(minutes=2))
    way_back_search.sweep()
    assert call("GET", f"/actions/{action['id']}")["no_compensation_because"] == way_back_search.NOT_SAID


@pytest.mark.parametrize(
    "undo",
    [
        {"tool": "a__b", "arguments": {}},
        {"tool": "delete", "arguments": {"id": {"result": "/id", "value": 1}}},
        {"tool": "delete", "arguments": {"id": {"shell": "x"}}},
        {"tool": "delete page", "arguments": {}},
    ],
)
def test_another_form_is_refused(call, undo):
    assert "docs/undo-outside.md" in created(call, undo, 422)["detail"] or undo["arguments"]
    assert Action.objects.count() == 0
