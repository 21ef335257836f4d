"""POST /sessions/{id}/messages: an agent tells its own conversation, whole and once, however often it is sent."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest

from approvals.models import AgentSession, Message, MessageSource
from approvals.sessions import sessions

pytestmark = pytest.mark.django_db


@pytest.fixture
def post(api, agent_token):
    """`post("run-1", role="user", content="…")`: (status, answer)."""

    def send(session: str, token=agent_token, **body):
        path = f"/api/v1/sessions/{session}/messages"
        response = api(token).post(path, json.dumps(body), content_type="application/json")
        return response.status_code, response.json()

    return send


@pytest.fixture
def told(api, agent_token):
    """The messages of a session, as the API lists them."""

    def read(session):
        return api(agent_token).get(f"/api/v1/sessions/{session}/messages").json()["messages"]

    return read


def test_a_session_begins_with_its_first_message(post, told, agent):
    status, first = post("run-1", role="user", content="Ship the cart", at="2026-11-20T10:00:00Z")
    assert (status, first["seq"], first["role"], first["kind"]) == (201, 1, "user", "text")
    assert post("run-1", role="assistant", content="Done.", model="gpt-5")[1]["session"] == first["session"]
    session = AgentSession.objects.get()
    assert (str(session.pk), session.native_id, session.agent, session.title) == (
        first["session"], "run-1", agent, "Ship the cart"
    )  # fmt: skip
    assert [(row["seq"], row["text"], row["source"]) for row in told(session.pk)] == [
        (1, "Ship the cart", "api"), (2, "Done.", "api")
    ]  # fmt: skip
    assert Message.objects.get(seq=1).at == datetime(2026, 11, 20, 10, tzinfo=UTC)


def test_a_message_with_an_id_is_stored_once(post, told):
    _, first = post("run-1", role="user", content="hello", id="m1")
    post("run-1", role="user", content="again")
    status, again = post("run-1", role="user", content="hello", id="m1")
    assert (status, again["seq"]) == (201, first["seq"])
    assert [row["text"] for row in told(first["session"])] == ["hello", "again"]


def test_equal_texts_without_an_id_are_two_messages(post, told):
    _, first = post("run-1", role="user", content="yes")
    post("run-1", role="user", content="yes")
    assert [row["text"] for row in told(first["session"])] == ["yes", "yes"]


def test_a_call_and_its_result_belong_together(post, told):
    arguments = {"command": "ls"}
    _, call = post("run-1", role="assistant", kind="call", content=arguments, tool="Bash", call_id="c1")
    _, result = post("run-1", role="tool", content="a\nb\n", call_id="c1", ok=True)
    assert (json.loads(call["text"]), call["tool"], result["kind"], result["ok"]) == (arguments, "Bash", "result", True)
    assert post("run-1", role="tool", content="a\nb\n", call_id="c1", ok=True)[1]["seq"] == result["seq"]
    assert len(told(call["session"])) == 2


def test_a_call_that_is_posted_before_it_asks_leads_to_its_card(post, api, agent_token):
    about = {"tool": "Bash", "call_id": "c1"}
    _, call = post("run-1", role="assistant", kind="call", content={"command": "sudo ls"}, **about)
    post("run-2", role="assistant", kind="call", content={"command": "sudo ls"}, **about)
    asked = {"tool": "Bash", "arguments": {"command": "sudo ls"}, "session": "run-1", "call_id": "c1"}
    action = api(agent_token).post("/api/v1/actions", json.dumps(asked), content_type="application/json").json()
    assert (call["action"], Message.objects.get(seq=1, session=call["session"]).action_id) == (None, UUID(action["id"]))
    assert Message.objects.exclude(session=call["session"]).get().action is None


def test_parts_of_a_text_are_joined_and_other_content_is_json(post):
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert post("run-1", role="user", content=parts)[1]["text"] == "one\ntwo"
    picture = [{"type": "image", "source": "x"}]
    assert json.loads(post("run-1", role="user", content=picture)[1]["text"]) == picture


def test_a_session_goes_on_by_its_own_id_or_by_that_of_handrail(post, agent):
    heard = sessions.session_of(agent, "claude-code", "native-1")
    assert post("native-1", role="user", content="hi")[1]["session"] == str(heard.pk)
    assert post(str(heard.pk), role="user", content="ho")[1]["session"] == str(heard.pk)
    assert set(Message.objects.values_list("source", flat=True)) == {MessageSource.API}


def test_a_session_of_another_agent_is_never_written(post, agent, other_agent_token):
    own = sessions.session_of(agent, "api", "run-1")
    status, theirs = post("run-1", token=other_agent_token, role="user", content="hi")
    assert (status, theirs["session"] == str(own.pk)) == (201, False)
    assert post(str(own.pk), token=other_agent_token, role="user", content="hi")[0] == 404
    assert own.messages.count() == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"role": "tool", "content": "x", "kind": "thinking"}, "kind"),
        ({"role": "robot", "content": "x"}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "user", "content": "x", "at": "2026-11-20T10:00:00"}, "at"),
        ({"role": "user", "content": "x", "color": "red"}, "color"),
    ],
)
def test_bad_input_is_refused_and_stores_nothing(post, body, field):
    status, answer = post("run-1", **body)
    assert (status, field in json.dumps(answer)) == (422, True)
    assert (Message.objects.count(), AgentSession.objects.count()) == (0, 0)


def test_an_id_that_is_too_long_is_refused(post):
    assert post("r" * 201, role="user", content="x")[0] == 422
    assert AgentSession.objects.count() == 0


def test_a_person_tells_no_conversation(post, token_of, bob):
    assert post("run-1", token=token_of(bob), role="user", content="x")[0] == 403
    assert AgentSession.objects.count() == 0
