"""MCP of 28 July 2026 behind the gate: a call is one action until its result is complete, whatever its tool asks."""

import sys
from pathlib import Path

import pytest

from tests.client.mcp.conftest import META
from tests.support.waiting import until

SERVER = Path(__file__).parent / "asking_server.py"


@pytest.fixture
def client(speak):
    return speak("mcp-gate", "--name", "asking", "--grace", "0.5", "--", sys.executable, str(SERVER))


def call(client, message_id, arguments: dict, **more):
    client.ask(message_id, "tools/call", {"name": "ask", "arguments": arguments, "_meta": META} | more)


def go_on(client, message_id, arguments: dict, asked: dict, done: int):
    """Send the call again with its user's answer, as a client does: with its own arguments, and the state."""
    state = {"requestState": asked["requestState"]} if "requestState" in asked else {}
    call(client, message_id, arguments, inputResponses={"round": done}, **state)


def refused(client, message_id) -> bool:
    """Whether the gate knew no call that goes on so, and said it as servers do of a state that is not theirs."""
    error = client.answer(message_id)["error"]
    return error["code"] == -32602 and "Make the call again from its beginning" in error["message"]


@pytest.mark.parametrize("sealed", [False, True])
def test_an_edited_call_of_three_rounds_is_one_action_that_runs_as_it_was_edited(client, person, name, ran, sealed):
    wanted = {"command": "v1", "rounds": 3, "sealed": sealed}
    call(client, 0, wanted)
    asked = person.sees(name)
    person.decides(asked, "edit", arguments=wanted | {"command": "v2"})
    for done in (1, 2, 3):
        result = client.answer(done - 1)["result"]
        assert (result["resultType"], person.status(asked)) == ("input_required", "running")
        go_on(client, done, wanted, result, done)
    assert client.answer(3)["result"]["resultType"] == "complete"
    assert client.text(3).startswith("Note: a person edited this call before it ran")
    assert client.text(3).endswith("noted v2")
    assert ran() == ["v2"]
    until(lambda: person.status(asked) == "succeeded")
    assert [row["id"] for row in person.actions() if row["agent"] == name] == [asked["id"]]


def test_a_state_that_belongs_to_no_approved_call_reaches_nothing(client, person, name, ran):
    wanted = {"command": "forged", "rounds": 1, "sealed": True}
    for message_id, state in enumerate((None, "forged", 5)):
        call(client, message_id, wanted, requestState=state, inputResponses={"round": 1})
        assert refused(client, message_id)
    call(client, "first", wanted)
    person.decides(person.sees(name), "approve")
    result = client.answer("first")["result"]
    go_on(client, "other", wanted | {"command": "other"}, result, 1)
    assert refused(client, "other")
    go_on(client, "last", wanted, result, 1)
    assert client.text("last") == "noted forged"
    go_on(client, "again", wanted, result, 1)
    assert refused(client, "again")
    assert ran() == ["forged"]


def test_answers_that_no_approved_call_waits_for_are_left_out_and_the_call_is_asked_about(client, person, name, ran):
    wanted = {"command": "answered before", "rounds": 1}
    call(client, 1, wanted, inputResponses={"round": 1})
    person.decides(person.sees(name), "approve")
    assert client.answer(1)["result"]["resultType"] == "input_required"
    assert ran() == []


def test_an_answer_that_two_calls_wait_for_goes_to_neither_if_they_differ(client, person, name, ran):
    wanted = {"command": "twice", "rounds": 1}
    call(client, 1, wanted)
    person.decides(person.sees(name), "approve")
    client.answer(1)
    call(client, 2, wanted)
    person.decides(person.sees(name), "edit", arguments=wanted | {"command": "edited"})
    go_on(client, 3, wanted, client.answer(2)["result"], 1)
    person.decides(person.sees(name), "deny")
    assert client.answer(3)["result"]["isError"] is True
    assert ran() == []


def test_a_call_that_nobody_goes_on_with_has_failed_when_the_client_goes(client, person, name, ran):
    call(client, 1, {"command": "left", "rounds": 1})
    asked = person.sees(name)
    person.decides(asked, "approve")
    client.answer(1)
    client.end()
    until(lambda: person.status(asked) == "failed")
    assert ran() == []


def test_a_call_goes_on_only_while_its_action_runs_and_its_tool_is_the_same(client, person, desk, name, ran, tmp_path):
    wanted = {"command": "over", "rounds": 1}
    call(client, 1, wanted)
    asked = person.sees(name)
    person.decides(asked, "approve")
    result = client.answer(1)["result"]
    desk.report(desk.get(asked["id"]), False)
    go_on(client, 2, wanted, result, 1)
    assert "was used already (failed)" in client.text(2)
    call(client, 3, wanted)
    person.decides(person.sees(name), "approve")
    result = client.answer(3)["result"]
    (tmp_path / "broken").touch()
    go_on(client, 4, wanted, result, 1)
    assert "changed what it says of this tool" in client.text(4)
    assert ran() == []


def test_a_call_that_waits_for_its_user_does_not_go_on_after_an_interrupt(client, person, product, name, ran):
    wanted = {"command": "held back", "rounds": 1, "sealed": True}
    call(client, 1, wanted)
    asked = person.sees(name)
    person.decides(asked, "approve")
    result = client.answer(1)["result"]
    order = f"/api/v1/actions/{asked['id']}/"
    body = {"reason": "Wait.", "minutes": 5, "whole_agent": True}
    assert product.post(f"{order}interrupt", person.token, body).status in (200, 201)
    go_on(client, 2, wanted, result, 1)
    assert "asks you to stop" in client.text(2)
    until(lambda: person.status(asked) == "failed")
    assert product.post(f"{order}go-on", person.token).status == 200
    go_on(client, 3, wanted, result, 1)
    assert refused(client, 3)
    assert ran() == []


def test_a_tool_whose_list_cannot_be_read_is_covered_by_no_grant(client, person, product, name, ran, tmp_path):
    wanted = {"command": "granted", "rounds": 0}
    call(client, 1, wanted)
    asked = person.sees(name)
    grant = product.post(f"/api/v1/actions/{asked['id']}/grant", person.token, {"digest": asked["digest"]})
    assert grant.status == 201
    call(client, 2, wanted)
    assert client.text(2) == "noted granted"
    (tmp_path / "broken").touch()
    for message_id, verdict in ((3, "approve"), (4, "deny")):
        # An approval makes what is not known no known definition.
        call(client, message_id, wanted)
        waits = person.sees(name)
        reasons = product.get(f"/api/v1/actions/{waits['id']}", person.token).json["reasons"]
        assert any("did not say how it describes this tool" in each for each in reasons)
        person.decides(waits, verdict)
        client.answer(message_id)
    (tmp_path / "broken").unlink()
    call(client, 5, wanted)
    assert client.text(5) == "noted granted"
    assert ran() == ["granted"] * 4


def test_a_refusal_of_the_gate_is_a_complete_result(client, person, name):
    call(client, 1, {"command": "no"})
    person.decides(person.sees(name), "deny", comment="Not today.")
    result = client.answer(1)["result"]
    assert (result["resultType"], result["isError"]) == ("complete", True)
    assert "Not today." in client.text(1)
