"""Messages of requests whose call a person edited, and of ids that a database can't store as they are."""

import json
import uuid

import pytest

from approvals.models import Action, Message
from tests.approvals.conftest import decide, person  # noqa: F401 - fixtures

pytestmark = pytest.mark.django_db
CALL = {"command": "git push origin main"}
EDITED = {"command": "git push origin main --dry-run"}


@pytest.fixture
def send(api, agent_token):
    """`send(arguments, call_id)`: what asking for a call of the thread answers."""

    def post(arguments: dict, call_id: str, thread: str = "thread-1") -> dict:
        context = {"call_id": call_id, "resume": {"thread_id": thread}}
        body = {"tool": "Bash", "arguments": arguments, "timeout": "10m", "context": context}
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        answer = api(agent_token).post(
            "/aap/v1/requests", json.dumps(body), content_type="application/json", headers=headers
        )
        assert answer.status_code == 201, answer.content
        return answer.json()

    return post


def test_the_edited_call_and_its_end_are_messages_of_their_own(send, api, agent_token, decide, bob):  # noqa: F811
    made = send(CALL, "call-1")
    action = Action.objects.get()
    decide(action, "edit", arguments=EDITED, by=bob)
    own = api(agent_token)
    assert own.get(f"/aap/v1/requests/{made['id']}").json()["status"] == "denied"
    again = send(EDITED, "call-2")
    own.post(f"/aap/v1/requests/{again['id']}/consume", headers={"Idempotency-Key": "one"})
    told = {"status": "succeeded", "note": "Pushed."}
    own.post(f"/aap/v1/requests/{again['id']}/outcome", json.dumps(told), content_type="application/json")
    rows = Message.objects.order_by("seq").values_list("kind", "call_id", "ok", "action")
    assert list(rows) == [
        ("call", "call-1", None, action.pk),
        ("result", "call-1", False, None),
        ("call", "call-2", None, action.pk),
        ("result", "call-2", True, None),
    ]


def test_a_nul_in_an_id_stops_no_request(send):
    send(CALL, "call\0one", "thread\0one")
    assert Message.objects.get().session.native_id == "thread␀one"
