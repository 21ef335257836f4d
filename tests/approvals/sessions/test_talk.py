"""A person writes to an agent or interrupts it: the agent hears it over the API or by the next hook, and once."""

import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.waiting import until

from ..conftest import ACTIONS

PUSH = "git push origin main:talk"
EVENTS_WITH_CONTEXT = ("PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart")


class Talk:
    """One agent and one reviewer of the product, in sessions of their own."""

    def __init__(self, product):
        self.product = product
        self.agent = product.agent_token("told-agent")
        self.reviewer = product.person_token("ruth", "reviewer")

    def ok(self, method, path, body=None, *, token=None, expect=200):
        answer = self.product.call(method, path, token or self.agent, body)
        assert answer.status == expect, (method, path, answer.status, answer.body[:2000])
        return answer.json

    def submit(self, session, command=PUSH, expect=201, **more):
        wish = {"tool": "Bash", "arguments": {"command": command}, "session": session, **more}
        return self.ok("POST", ACTIONS, wish, expect=expect)

    def read(self, action):
        return self.ok("GET", f"{ACTIONS}/{action['id']}", token=self.reviewer)

    def tell(self, action, text="Pull first.", expect=201, token=None, **more):
        body = {"text": text, **more}
        return self.ok("POST", f"{ACTIONS}/{action['id']}/tell", body, token=token or self.reviewer, expect=expect)

    def interrupt(self, action, expect=201, token=None, **more):
        return self.ok("POST", f"{ACTIONS}/{action['id']}/interrupt", more, token=token or self.reviewer, expect=expect)

    def go_on(self, action, expect=200, token=None):
        return self.ok("POST", f"{ACTIONS}/{action['id']}/go-on", {}, token=token or self.reviewer, expect=expect)

    def states(self, session):
        found = self.ok("GET", f"/api/v1/messages?session={session}", token=self.reviewer)["messages"]
        of_it = [each for each in found if each["session"] == session]
        return [(each["text"], bool(each["given_at"]), bool(each["read_at"])) for each in of_it]

    def hook(self, session, name="PreToolUse", command="pwd", **more):
        event = {"session_id": session, "hook_event_name": name, "cwd": "/tmp", **more}
        if "ToolUse" in name:
            event |= {"tool_name": "Bash", "tool_input": {"command": command}}
            event.setdefault("tool_use_id", uuid.uuid4().hex)
        return self.product.call("POST", "/hooks/claude-code", self.agent, event).json


@pytest.fixture(scope="module")
def talk(product):
    return Talk(product)


@pytest.fixture
def session():
    return uuid.uuid4().hex


@pytest.fixture
def action(talk, session):
    """One that waits; it is withdrawn after the test, as is an interrupt of its session."""
    made = talk.submit(session)
    yield made
    talk.product.call("POST", f"{ACTIONS}/{made['id']}/go-on", talk.reviewer, {})
    talk.product.call("POST", f"{ACTIONS}/{made['id']}/cancel", talk.agent)


# Messages ------------------------------------------------------------------------------------------------------------


def test_an_agent_over_the_api_gets_a_message_until_it_acknowledges_it(talk, action, session):
    sent = talk.tell(action)
    assert talk.states(session) == [("Pull first.", False, False)]
    for _ in range(2):
        (heard,) = talk.ok("GET", f"{ACTIONS}/{action['id']}")["messages"]
        assert (heard["id"], heard["by"], heard["text"]) == (sent["id"], "ruth", "Pull first.")
    assert talk.states(session) == [("Pull first.", True, False)]
    other = talk.submit(session, f"{PUSH}-2")
    assert [each["id"] for each in other["messages"]] == [sent["id"]]
    talk.ok("POST", f"/api/v1/messages/{sent['id']}/read", {})
    assert talk.ok("GET", f"{ACTIONS}/{action['id']}")["messages"] == []
    assert talk.states(session) == [("Pull first.", True, True)]
    talk.ok("POST", f"{ACTIONS}/{other['id']}/cancel", {})


def test_a_list_gives_messages_after_a_known_one(talk, action, session):
    first, second = talk.tell(action, "one"), talk.tell(action, "two")
    address = f"/api/v1/messages?session={session}&after="
    assert [each["text"] for each in talk.ok("GET", f"{address}{first['id']}")["messages"]] == ["two"]
    assert talk.ok("GET", f"{address}{second['id']}")["messages"] == []
    talk.ok("GET", f"{address}{uuid.uuid4()}", expect=404)
    assert talk.states(session) == [("one", False, False), ("two", True, False)]


@pytest.mark.parametrize(
    "name", ["PreToolUse", "PostToolUse", "PostToolUseFailure", "UserPromptSubmit", "SessionStart"]
)
def test_a_hook_brings_it_once_as_the_words_of_a_person(talk, action, session, name):
    talk.tell(action, "Pull the release first.")
    output = talk.hook(session, name, prompt="go")["hookSpecificOutput"]
    assert output["hookEventName"] == name
    assert "Message from ruth" in output["additionalContext"]
    assert "“Pull the release first.”" in output["additionalContext"]
    until(lambda: talk.states(session) == [("Pull the release first.", True, False)])
    again = talk.hook(session, name, prompt="go").get("hookSpecificOutput", {})
    assert "Pull the release" not in again.get("additionalContext", "")
    assert talk.ok("GET", f"{ACTIONS}/{action['id']}")["messages"] == []


def test_a_denied_call_brings_it_in_the_reason(talk, action, session):
    talk.tell(action, "Never wipe.")
    output = talk.hook(session, command="rm -rf /")["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    assert "The policy forbids this" in output["permissionDecisionReason"]
    assert "“Never wipe.”" in output["permissionDecisionReason"]


def test_an_agent_that_would_stop_goes_on_with_it_once(talk, action, session):
    talk.tell(action, "One more thing.")
    answer = talk.hook(session, "Stop", stop_hook_active=True)
    assert answer["decision"] == "block"
    assert "“One more thing.”" in answer["reason"]
    assert "decision" not in talk.hook(session, "Stop", stop_hook_active=True)


def test_a_sub_agent_and_another_session_do_not_get_it(talk, action, session):
    talk.tell(action)
    assert "additionalContext" not in talk.hook(session, agent_id="a1")["hookSpecificOutput"]
    assert "additionalContext" not in talk.hook(uuid.uuid4().hex)["hookSpecificOutput"]
    assert talk.states(session) == [("Pull first.", False, False)]


def test_what_is_sent_while_a_call_waits_comes_with_its_answer(talk, session):
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(talk.hook, session, command=f"{PUSH}-held")
        rows = until(lambda: _pending(talk, session))
        talk.tell(rows[0], "Tell the team after it.")
        body = {"verdict": "approve", "digest": rows[0]["digest"]}
        talk.ok("POST", f"{ACTIONS}/{rows[0]['id']}/decision", body, token=talk.reviewer)
        output = held.result(20)["hookSpecificOutput"]
    assert output["permissionDecision"] == "allow"
    assert "“Tell the team after it.”" in output["additionalContext"]


def _pending(talk, session):
    rows = talk.ok("GET", f"{ACTIONS}?status=pending")["actions"]
    return [each for each in map(talk.read, rows) if each["session"] == session]


def test_a_message_approves_nothing_and_is_masked(talk, action, session):
    talk.tell(action, "Use https://rita:s3cret-s3cret@example.org/x and password=hunter22222 to push.")
    (heard,) = talk.ok("GET", f"{ACTIONS}/{action['id']}")["messages"]
    assert "s3cret" not in heard["text"]
    assert "hunter" not in heard["text"]
    assert talk.read(action)["status"] == "pending"


def test_only_members_may_send_and_only_the_agent_may_acknowledge(talk, action):
    viewer, other = talk.product.person_token("vera", "viewer"), talk.product.agent_token("another-agent")
    sent = talk.tell(action)
    for token, status in ((viewer, 403), (talk.agent, 403), (other, 404)):
        talk.tell(action, token=token, expect=status)
        talk.interrupt(action, token=token, expect=status)
        talk.go_on(action, token=token, expect=status)
    talk.ok("POST", f"/api/v1/messages/{sent['id']}/read", {}, token=other, expect=404)
    talk.ok("POST", f"/api/v1/messages/{sent['id']}/read", {}, token=talk.reviewer, expect=403)
    talk.tell(action, "  ", expect=422)
    talk.tell(action, "x" * 4001, expect=422)


def test_messages_that_nobody_reads_are_limited(product):
    talk = Talk(product)
    talk.agent = product.agent_token("deaf-agent")
    action = talk.submit(uuid.uuid4().hex)
    for number in range(20):
        talk.tell(action, f"{number}")
    talk.tell(action, "one too many", expect=409)
    talk.ok("POST", f"{ACTIONS}/{action['id']}/cancel", {})


# Interrupts ----------------------------------------------------------------------------------------------------------


def test_an_interrupt_cancels_what_waits_and_refuses_what_comes(talk, action, session):
    other_session = uuid.uuid4().hex
    elsewhere = talk.submit(other_session, f"{PUSH}-elsewhere")
    done = talk.interrupt(action, reason="The release is frozen.")
    assert [each["number"] for each in done["denied"]] == [action["number"]]
    assert (done["session"], done["by"], done["heard_at"]) == (session, "ruth", None)
    refused = talk.submit(session, f"{PUSH}-next", expect=409)
    assert refused["code"] == "interrupted"
    assert "ruth asks you to stop and wait: “The release is frozen.”" in refused["detail"]
    now = talk.ok("GET", f"{ACTIONS}/{action['id']}")
    assert now["status"] == "cancelled"
    assert "ruth asks you to stop and wait" in now["result"]["note"]
    assert talk.read(elsewhere)["status"] == "pending"
    talk.interrupt(action, expect=409)
    lifted = talk.go_on(action)
    assert lifted["heard_at"]
    assert lifted["lifted_by"] == "ruth"
    talk.go_on(action, expect=409)
    again = talk.submit(session, f"{PUSH}-next")
    for each in (again, elsewhere):
        talk.ok("POST", f"{ACTIONS}/{each['id']}/cancel", {})


def test_an_interrupt_ends_at_its_time(talk, session):
    action = talk.submit(session)
    made = talk.interrupt(action, minutes=1)
    talk.product.shell(
        "from approvals.models import Interrupt; from dashboard.database import clock;"
        f"Interrupt.objects.filter(pk='{made['id']}').update(until=clock.now()); print('null')"
    )
    again = talk.submit(session)
    assert again["status"] == "pending"
    talk.ok("POST", f"{ACTIONS}/{again['id']}/cancel", {})


def test_a_held_hook_is_denied_and_ends_the_turn(talk, session):
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(talk.hook, session, command=f"{PUSH}-interrupted")
        rows = until(lambda: _pending(talk, session))
        talk.interrupt(rows[0], reason="Wrong branch.")
        answer = held.result(20)
    try:
        assert answer["continue"] is False
        assert "ruth interrupted this session" in answer["stopReason"]
        assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
        reason = answer["hookSpecificOutput"]["permissionDecisionReason"]
        assert "ruth asks you to stop and wait: “Wrong branch.”" in reason
        following = talk.hook(session)
        assert (following["continue"], following["hookSpecificOutput"]["permissionDecision"]) == (False, "deny")
        assert talk.hook(session, "PostToolUse")["continue"] is False
        assert "decision" not in talk.hook(session, "Stop")
        prompted = talk.hook(session, "UserPromptSubmit", prompt="go on")
        assert "continue" not in prompted or prompted["continue"] is True
        assert "asks you to stop and wait" in prompted["hookSpecificOutput"]["additionalContext"]
    finally:
        lifted = talk.go_on(rows[0])
    assert lifted["heard_at"]
    assert talk.hook(session)["hookSpecificOutput"]["permissionDecision"] == "allow"


@pytest.mark.parametrize("more", [{}, {"session": ""}])
def test_an_interrupted_agent_that_names_no_session_is_refused(talk, action, more):
    talk.interrupt(action)
    wish = {"tool": "Bash", "arguments": {"command": "pwd"}, **more}
    assert talk.ok("POST", ACTIONS, wish, expect=409)["code"] == "interrupted"
    talk.go_on(action)
    talk.ok("POST", ACTIONS, wish, expect=201)


def test_a_message_waits_until_the_interrupt_is_lifted(talk, action, session):
    talk.interrupt(action)
    talk.tell(action, "Then pull first.")
    assert "Then pull" not in str(talk.hook(session))
    assert "decision" not in talk.hook(session, "Stop")
    talk.go_on(action)
    assert "“Then pull first.”" in talk.hook(session)["hookSpecificOutput"]["additionalContext"]


def test_commands_that_the_agent_started_are_stopped(product):
    talk = Talk(product)
    talk.agent = product.agent_token("busy-agent")
    key, session = f"talk-{uuid.uuid4().hex[:8]}", uuid.uuid4().hex
    talk.ok("POST", "/api/v1/workspaces", {"key": key}, expect=201)
    until(lambda: talk.ok("GET", f"/api/v1/workspaces/{key}?wait=5")["busy"] is None, within=60)
    own = talk.ok("POST", f"/api/v1/workspaces/{key}/commands", {"command": "sleep 300"}, expect=201)
    # Unclear on purpose, so that a person approves it; Handrail runs it then.
    action = talk.submit(session, "eval 'sleep 300'", mode="broker", workspace=key)
    if action["status"] == "pending":
        body = {"verdict": "approve", "digest": action["digest"]}
        talk.ok("POST", f"{ACTIONS}/{action['id']}/decision", body, token=talk.reviewer)

    def started():
        found = talk.ok("GET", f"/api/v1/workspaces/{key}/commands")["commands"]
        return {each["id"] for each in found if each["state"] == "started"}

    until(lambda: len(started()) == 2, within=60)
    (brokered,) = started() - {own["id"]}
    for more, command in (({}, brokered), ({"whole_agent": True}, own["id"])):
        done = talk.interrupt(action, **more)
        assert [each["id"] for each in done["commands"]] == [command]
        ended = talk.ok("GET", f"/api/v1/commands/{command}?wait=30", token=talk.reviewer)
        assert (ended["state"], ended["exit_status"] == 0) == ("settled", False)
        assert started() == ({own["id"]} if command == brokered else set())
    talk.submit(uuid.uuid4().hex, expect=409)
    assert [talk.go_on(action)["session"] for _ in range(2)] == [session, ""]
    talk.ok("DELETE", f"/api/v1/workspaces/{key}", expect=202)


def test_two_calls_at_once_with_an_interrupt_leave_nothing_waiting(talk, session):
    first = talk.submit(session)
    with ThreadPoolExecutor(6) as pool:
        wish = {"tool": "Bash", "session": session}
        sent = [
            pool.submit(
                talk.product.call,
                "POST",
                ACTIONS,
                talk.agent,
                wish | {"arguments": {"command": f"{PUSH}-race-{number}"}},
            )
            for number in range(5)
        ]
        time.sleep(0.02)
        done = pool.submit(talk.interrupt, first).result(30)
        answers = [each.result(30) for each in sent]
    assert {answer.status for answer in answers} <= {201, 409}
    made = [answer.json for answer in answers if answer.status == 201]
    assert {talk.read(each)["status"] for each in [first, *made]} == {"cancelled"}
    assert {each["number"] for each in done["denied"]} == {each["number"] for each in [first, *made]}
    talk.go_on(first)
