"""What requests tell of a conversation: messages of the session that the framework's client names, and nothing else."""

import uuid

import pytest

from tests.support.desk import Desk


@pytest.fixture(scope="module")
def agent(product) -> Desk:
    return Desk(product, product.agent_token("aap-talks"))


@pytest.fixture(scope="module")
def lead(product) -> Desk:
    return Desk(product, product.person_token("aap-lead", "lead"))


@pytest.fixture
def thread() -> str:
    return uuid.uuid4().hex


def submission(context: dict | None, **more) -> dict:
    arguments = {"command": f"sudo {uuid.uuid4().hex}"}
    told = {"tool": "Bash", "arguments": arguments, "timeout": "10m", "agent_reasoning": "To see it."} | more
    return told if context is None else told | {"context": context}


def resumable(thread: str) -> dict:
    return {"call_id": f"call-{thread}", "resume": {"framework": "langgraph", "thread_id": thread}}


def send(agent: Desk, method: str, address: str, body: dict | None = None, key: str = "", status: int = 200) -> dict:
    headers = {"Idempotency-Key": key or uuid.uuid4().hex}
    answer = agent.product.call(method, f"/aap/v1/{address}", agent.token, body, headers=headers)
    assert answer.status == status, answer.text
    return answer.json


def messages(agent: Desk, thread: str) -> list[dict]:
    found = agent.get(f"/sessions?session={thread}").json["sessions"]
    return agent.get(f"/sessions/{found[0]['id']}/messages").json["messages"] if found else []


def decide(lead: Desk, thread: str, verdict: str, comment: str = ""):
    [row] = [row for row in lead.get("/actions?status=pending").json["actions"] if row["agent"] == "aap-talks"]
    action = lead.get(f"/actions/{row['id']}").json
    answer = {"verdict": verdict, "digest": action["digest"], "comment": comment}
    lead.post(f"/actions/{row['id']}/decision", answer, expect=200)


def test_words_and_call_are_messages_of_the_session_that_the_request_names(agent, thread):
    body = submission(resumable(thread))
    made = send(agent, "POST", "requests", body, thread, 201)
    assert send(agent, "POST", "requests", body, thread)["id"] == made["id"]  # sent again after a restart
    words, call = messages(agent, thread)
    assert (words["role"], words["kind"], words["text"]) == ("assistant", "text", "To see it.")
    assert (call["role"], call["kind"], call["tool"], call["call_id"]) == (
        "assistant",
        "call",
        "Bash",
        f"call-{thread}",
    )
    assert body["arguments"]["command"] in call["text"]
    assert agent.get(f"/actions/{call['action']}").json["status"] == "pending"
    send(agent, "DELETE", f"requests/{made['id']}")
    assert [message["ok"] for message in messages(agent, thread)] == [None, None, False]


def test_a_denial_is_what_the_agent_read(agent, lead, thread):
    made = send(agent, "POST", "requests", submission(resumable(thread)), status=201)
    decide(lead, thread, "deny", "Not on a Friday.")
    told = [send(agent, "GET", f"requests/{made['id']}") for _ in range(2)]
    [result] = messages(agent, thread)[2:]
    assert (result["role"], result["kind"], result["ok"]) == ("tool", "result", False)
    assert result["text"] == told[1]["decision"]["note"]
    assert "Not on a Friday." in result["text"]


def test_an_outcome_is_the_result(agent, lead, thread):
    made = send(agent, "POST", "requests", submission(resumable(thread)), status=201)
    decide(lead, thread, "approve")
    assert send(agent, "GET", f"requests/{made['id']}")["status"] == "approved"
    send(agent, "POST", f"requests/{made['id']}/consume")
    assert len(messages(agent, thread)) == 2
    told = {"status": "failed", "note": "There is no sudo."}
    for _ in range(2):
        send(agent, "POST", f"requests/{made['id']}/outcome", told)
    [result] = messages(agent, thread)[2:]
    assert (result["text"], result["ok"], result["call_id"]) == ("There is no sudo.", False, f"call-{thread}")


def test_a_request_without_a_session_is_of_no_conversation(agent):
    before = agent.get("/sessions").json["sessions"]
    contexts = [None, {}, {"call_id": "call-1"}, {"resume": {}}, {"resume": {"thread_id": ""}}]
    contexts += [{"resume": "thread-7"}, {"resume": {"thread_id": 7}}, {"thread_id": "thread-7"}]
    for context in contexts:
        made = send(agent, "POST", "requests", submission(context), status=201)
        send(agent, "DELETE", f"requests/{made['id']}")
    assert agent.get("/sessions").json["sessions"] == before


def test_a_session_that_cannot_be_kept_stops_no_request(agent, thread):
    made = send(agent, "POST", "requests", submission(resumable("x" * 500)), status=201)
    send(agent, "DELETE", f"requests/{made['id']}")
    assert messages(agent, "x" * 200) == []
