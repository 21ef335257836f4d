"""A person asks an agent about its call: it waits on, the agent hears the question, and its answer is on the card."""

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.waiting import until

from ..conftest import ACTIONS

PUSH = "git push origin main:questions"


class Talk:
    """One agent and one reviewer of the product."""

    def __init__(self, product):
        self.product = product
        self.agent = product.agent_token("asked-agent")
        self.reviewer = product.person_token("ruth", "reviewer")

    def ok(self, method, path, body=None, *, token=None, expect=200):
        answer = self.product.call(method, path, token or self.agent, body)
        assert answer.status == expect, (method, path, answer.status, answer.body[:2000])
        return answer.json

    def submit(self, command=PUSH):
        wish = {"tool": "Bash", "arguments": {"command": command}}
        return self.ok("POST", ACTIONS, wish, expect=201)

    def ask(self, action, text="Why main?", **more):
        address = f"{ACTIONS}/{action['id']}/messages"
        return self.ok("POST", address, {"text": text}, token=self.reviewer, expect=201, **more)

    def messages(self, action):
        found = self.ok("GET", f"{ACTIONS}/{action['id']}/messages", token=self.reviewer)["messages"]
        return [(each["kind"], each["text"]) for each in found]

    def hook(self, command, session, *, name="PreToolUse", **more):
        """What the hook answers; it waits until it has something to say."""
        event = {"session_id": session, "hook_event_name": name, "cwd": "/tmp", **more}
        if name == "PreToolUse":
            told = {"command": command, "description": more.pop("description", "Push")}
            event |= {"tool_name": "Bash", "tool_input": told, "tool_use_id": uuid.uuid4().hex}
        answer = self.product.call("POST", "/hooks/claude-code", self.agent, event)
        return answer.json.get("hookSpecificOutput", {})

    def pending(self, session):
        """The id of the session's only pending action."""
        rows = self.ok("GET", f"{ACTIONS}?status=pending")["actions"]
        whole = [self.ok("GET", f"{ACTIONS}/{row['id']}") for row in rows]
        return [each for each in whole if each["session"] == session]

    def status(self, action):
        return self.ok("GET", f"{ACTIONS}/{action['id']}", token=self.reviewer)["status"]

    def decide(self, action, verdict="approve"):
        answer = {"verdict": verdict, "digest": action["digest"]}
        return self.ok("POST", f"{ACTIONS}/{action['id']}/decision", answer, token=self.reviewer)


@pytest.fixture(scope="module")
def talk(product):
    return Talk(product)


def test_an_agent_that_waits_gets_the_question_once_and_answers_it(talk):
    action = talk.submit()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(talk.ok, "GET", f"{ACTIONS}/{action['id']}?wait=30")
        time.sleep(0.5)
        talk.ask(action)
        heard = waiting.result(20)
    assert (heard["status"], heard["question"]["text"], heard["question"]["by"]) == ("pending", "Why main?", "ruth")
    again = talk.ok("GET", f"{ACTIONS}/{action['id']}?wait=1")
    assert again["question"]["text"] == "Why main?"
    talk.ok("POST", f"{ACTIONS}/{action['id']}/messages", {"text": "It is the release."}, expect=201)
    assert talk.messages(action) == [("question", "Why main?"), ("answer", "It is the release.")]
    assert talk.ok("GET", f"{ACTIONS}/{action['id']}")["question"] is None
    assert talk.status(action) == "pending"
    assert talk.decide(action)["status"] == "approved"


def test_a_wait_ends_for_a_question_only_once(talk):
    action = talk.submit(f"{PUSH}-once")
    talk.ask(action)
    talk.ok("GET", f"{ACTIONS}/{action['id']}?wait=20")
    began = time.monotonic()
    talk.ok("GET", f"{ACTIONS}/{action['id']}?wait=2")
    assert time.monotonic() - began > 1.5


def test_claude_code_is_told_the_question_and_answers_in_the_description_of_the_same_call(talk):
    session, command = uuid.uuid4().hex, f"{PUSH}-hook"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(talk.hook, command, session)
        (action,) = until(lambda: talk.pending(session))
        talk.ask(action)
        told = first.result(20)
        assert told["permissionDecision"] == "deny"
        assert "ruth asks before deciding" in told["permissionDecisionReason"]
        assert "“Why main?”" in told["permissionDecisionReason"]
        assert "not a denial" in told["permissionDecisionReason"]
        second = pool.submit(talk.hook, command, session, description="Because the release is cut from main.")
        until(lambda: len(talk.messages(action)) == 2)
        assert [each["id"] for each in talk.pending(session)] == [action["id"]]
        talk.decide(action)
        assert second.result(20)["permissionDecision"] == "allow"
    assert talk.messages(action)[1] == ("answer", "Because the release is cut from main.")


def write_transcript(path: Path, session: str, text: str):
    path.parent.mkdir(parents=True, exist_ok=True)
    at = time.strftime("%Y-%m-%dT%H:%M:%S.999Z", time.gmtime())
    rows = [
        {"type": "assistant", "sessionId": session, "timestamp": "2020-01-01T00:00:00Z", "message": said("long ago")},
        {"type": "user", "sessionId": session, "timestamp": at, "message": said("a person's")},
        {"type": "assistant", "sessionId": "another", "timestamp": at, "message": said("of another session")},
        {"type": "assistant", "sessionId": session, "timestamp": at, "message": said(text)},
    ]
    path.write_text("half a row\n" + "".join(f"{json.dumps(row)}\n" for row in rows))


def said(text):
    return {"content": [{"type": "text", "text": text}, {"type": "tool_use", "name": "Bash", "input": {}}]}


@pytest.mark.parametrize(
    ("place", "is_read"),
    [
        (".claude/projects/shop/session.jsonl", True),
        ("elsewhere/session.jsonl", False),
        (".claude/projects/x.json", False),
    ],
)
def test_an_answer_is_found_in_the_transcript_of_the_session(talk, tmp_path, place, is_read):
    session, command, path = uuid.uuid4().hex, f"{PUSH}-said", tmp_path / place
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(talk.hook, command, session)
        (action,) = until(lambda: talk.pending(session))
        talk.ask(action)
        first.result(20)
        time.sleep(1)
        write_transcript(path, session, "The release is cut from main.")
        second = pool.submit(talk.hook, command, session, transcript_path=str(path))
        until(lambda: len(talk.messages(action)) == 2)
        talk.decide(action, "deny")
        second.result(20)
    assert talk.messages(action)[1] == ("answer", "The release is cut from main." if is_read else "")


def test_the_last_message_of_a_turn_answers_the_open_question(talk):
    session, command = uuid.uuid4().hex, f"{PUSH}-stop"
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(talk.hook, command, session)
        (action,) = until(lambda: talk.pending(session))
        talk.ask(action)
        first.result(20)
    talk.hook(command, session, name="Stop", last_assistant_message="I was not sure.")
    assert talk.messages(action)[1] == ("answer", "I was not sure.")
    assert talk.status(action) == "pending"


def test_who_may_ask_and_who_may_answer(talk):
    action = talk.submit(f"{PUSH}-roles")
    address = f"{ACTIONS}/{action['id']}/messages"
    viewer, other = talk.product.person_token("vera", "viewer"), talk.product.agent_token("another-agent")
    talk.ok("POST", address, {"text": "Why?"}, token=viewer, expect=403)
    talk.ok("POST", address, {"text": "Because."}, token=other, expect=404)
    talk.ok("POST", address, {"text": "  "}, token=talk.reviewer, expect=422)
    talk.ok("POST", address, {"text": "x" * 4001}, token=talk.reviewer, expect=422)
    talk.decide(action, "deny")
    talk.ok("POST", address, {"text": "Why?"}, token=talk.reviewer, expect=409)
    talk.ok("POST", address, {"text": "Because."}, expect=409)
    assert talk.messages(action) == []


def test_credentials_in_a_message_are_masked(talk):
    action = talk.submit(f"{PUSH}-masked")
    talk.ask(action, "Is it https://rita:s3cret-s3cret@example.org/x?")
    assert "s3cret" not in talk.messages(action)[0][1]
