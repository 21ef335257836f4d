"""The Agent Approval Protocol's own receiver, unmodified, registered at the running desk and told by its queue."""

import os
import signal
import time
import uuid

import pytest
from agentapprovalprotocol import Client
from agentapprovalprotocol._client import CredentialRefused, NotFound, ProvisionError, WebhookVerificationFailed

from tests.approvals.protocols.aap.test_client import Reviewer, arguments, in_background, submission
from tests.support.aap_receiver import AapReceiver
from tests.support.waiting import until


@pytest.fixture(scope="module")
def reviewer(product):
    return Reviewer(product, product.person_token("aap-rosa", "reviewer"))


@pytest.fixture(scope="module")
def address(product) -> str:
    return f"{product.url}/aap"


@pytest.fixture(scope="module")
def token(product) -> str:
    return product.agent_token("aap-told")


@pytest.fixture
def receiver():
    listening = AapReceiver()
    yield listening
    listening.close()


@pytest.fixture
def client(receiver, address, token):
    """The client of a fresh instance, whose receiver is told."""
    asking = Client(address, receiver.provision(address, token).token)
    yield asking
    asking.close()


def ask(client, call: dict, **more):
    context = {"resume": {"framework": "test", "mark": call["mark"]}}
    return client.create(submission(call, context=context, **more), uuid.uuid4().hex)


def woken(receiver, n: int) -> list[tuple[str, str]]:
    until(lambda: len(receiver.woken) >= n, 60)
    return [(request.id, request.status) for _, request in receiver.woken]


def test_a_receiver_gets_each_end_and_wakes_the_run(receiver, client, reviewer, token):
    instance = receiver.receiver.instance_id
    approved, denied = arguments(), arguments()
    first, second = ask(client, approved), ask(client, denied)
    assert receiver.resolved() == []
    reviewer.decide(approved)
    assert woken(receiver, 1) == [(first.id, "approved")]
    assert client.consume(first.id, "k").consumption
    reviewer.decide(denied, "deny", comment="No.")
    assert woken(receiver, 2)[1:] == [(second.id, "denied")]
    cancelled = ask(client, arguments())
    client.cancel(cancelled.id)
    assert woken(receiver, 3)[2:] == [(cancelled.id, "cancelled")]
    expired = ask(client, arguments(), timeout="1s")
    assert woken(receiver, 4)[3:] == [(expired.id, "expired")]
    listed = client.create(submission({"command": "pwd"}), uuid.uuid4().hex)  # the policy lets it run
    until(lambda: receiver.resolved()[4:], 60)
    assert receiver.resolved() == [(204, request.id) for request in (first, second, cancelled, expired, listed)]
    for _, headers, told in receiver.got[1:]:
        assert told.keys() == {"id", "type", "instance_id", "request_id", "created_at"}
        assert (told["instance_id"], headers["webhook-id"]) == (instance, told["id"])
        assert token not in str((headers, told))
    assert receiver.got[1][2]["created_at"] == f"{client.get(first.id).decision.decided_at:%Y-%m-%dT%H:%M:%S.%f}Z"


def test_a_receiver_that_was_down_gets_the_message_later_and_once(receiver, client, reviewer):
    receiver.hang_up()
    call = arguments()
    asked = ask(client, call)
    reviewer.decide(call, "deny")
    time.sleep(3)
    receiver.listen()
    assert woken(receiver, 1) == [(asked.id, "denied")]
    receiver.answers = [(500, {})]
    other = arguments()
    again = ask(client, other)
    reviewer.decide(other)
    assert woken(receiver, 2) == [(asked.id, "denied"), (again.id, "approved")]
    assert receiver.resolved() == [(204, asked.id), (500, again.id), (204, again.id)]
    first, second = receiver.got[-2:]
    assert first[2] == second[2]
    time.sleep(4)
    assert len(receiver.resolved()) == 3


def test_an_unsent_message_outlives_the_queue(product, receiver, client, reviewer):
    receiver.hang_up()
    call = arguments()
    asked = ask(client, call)
    reviewer.decide(call)
    os.kill(product.part_pid("queue"), signal.SIGKILL)
    receiver.listen()
    assert woken(receiver, 1) == [(asked.id, "approved")]


def test_a_receiver_refuses_a_wrong_signature(receiver, client, reviewer):
    right = receiver.receiver.secret
    receiver.receiver.secret = "whsec_" + "A" * 43 + "="
    call = arguments()
    asked = ask(client, call)
    reviewer.decide(call)
    until(lambda: receiver.resolved() == [(401, asked.id)], 60)
    receiver.receiver.secret = right
    assert woken(receiver, 1) == [(asked.id, "approved")]


def test_a_receiver_that_does_not_expect_us_gets_no_instance(product, receiver, address, token):
    receiver.receiver.registration_id = str(uuid.uuid4())
    receiver.answers = [(204, {}), (302, {"Location": receiver.url}), (500, {})]
    for answered in ("204", "302", "500"):
        with pytest.raises(WebhookVerificationFailed):
            receiver.provision(address, token)
        assert str(receiver.got[-1][0]) == answered
    assert receiver.provision(address, token).token  # the same key, once it answers
    assert len(receiver.got) == 4


def registered(product, token, receiver, n: int) -> list:
    """What registering it `n` times at once, with one key, answers."""
    receiver.receiver.secret = "whsec_" + "A" * 43 + "="
    receiver.receiver.registration_id = str(uuid.uuid4())
    known = {"registration_id": receiver.receiver.registration_id, "signing_secret": receiver.receiver.secret}
    body = {"delivery": {"type": "webhook", "url": receiver.url} | known}
    key = {"Idempotency-Key": uuid.uuid4().hex}.items()
    started = [
        in_background(lambda: product.call("POST", "/aap/v1/instances", token, body, headers=key)) for _ in range(n)
    ]
    for thread, _ in started:
        thread.join(60)
    return [answer for _, (answer,) in started]


def test_registrations_at_once_with_one_key_are_one(product, receiver, token):
    receiver.pause = 2
    answers = registered(product, token, receiver, 4)
    assert sorted(answer.status for answer in answers) == [200, 200, 200, 201]
    assert len({answer.json["credential"]["token"] for answer in answers}) == 1
    assert len(receiver.got) == 1


def test_registrations_at_once_with_one_key_fail_as_one(product, receiver, token):
    receiver.pause, receiver.answers = 2, [(500, {})]
    answers = registered(product, token, receiver, 4)
    found = [(answer.status, answer.json["error"]["code"]) for answer in answers]
    assert found == [(422, "webhook_verification_failed")] * 4
    assert len(receiver.got) == 1


def test_changes_at_once_with_one_key_are_one(product, receiver, address, token):
    made = receiver.provision(address, token)
    wanted = {"type": "webhook", "url": receiver.url, "registration_id": made.registration_id}
    body = {"delivery": wanted | {"signing_secret": made.secret}, "instance_name": "moved"}
    path, key = f"/aap/v1/instances/{made.instance_id}", {"Idempotency-Key": uuid.uuid4().hex}.items()
    receiver.pause = 2
    started = [in_background(lambda: product.call("PATCH", path, token, body, headers=key)) for _ in range(3)]
    time.sleep(0.7)
    renamed = product.call("PATCH", path, token, body | {"instance_name": "else"}, headers=key)
    assert (renamed.status, renamed.json["error"]["code"]) == (409, "idempotency_conflict")
    for thread, _ in started:
        thread.join(60)
    assert [(answer.status, answer.json["name"]) for _, (answer,) in started] == [(200, "moved")] * 3
    assert len(receiver.got) == 2
    assert product.get(path, token).json["name"] == "moved"


def test_nobody_listens_there(receiver, address, token):
    receiver.hang_up()
    with pytest.raises(WebhookVerificationFailed):
        receiver.provision(address, token)
    receiver.listen()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.2:9/",
        "https://127.0.0.2/",
        "https://169.254.169.254/latest",
        "https://[::1]/",
        "https://localhost/",
        "http://example.org/",
        "https://alice:secret@example.org/",
        "https://example.org/#top",
        "ftp://example.org/",
        "https://",
        "",
    ],
)
def test_unsafe_addresses_are_refused(receiver, address, token, url):
    with pytest.raises(ProvisionError) as error:
        receiver.provision(address, token, url=url)
    assert (error.value.status, error.value.code) == (400, "invalid_webhook_url")


def test_again_with_the_same_key_is_the_same_instance_and_credential(receiver, address, token):
    first = receiver.provision(address, token, instance_name="laptop")
    assert (first.instance_name, receiver.provision(address, token, instance_name="laptop")) == ("laptop", first)
    assert len(receiver.got) == 1
    with pytest.raises(ProvisionError) as error:
        receiver.provision(address, token, instance_name="desktop")
    assert (error.value.status, error.value.code) == (409, "idempotency_conflict")


def test_an_instance_sees_its_own_requests_and_manages_nothing(product, receiver, client, address, token):
    mine = ask(client, arguments())
    answer = product.call("POST", "/aap/v1/instances", token, {}, headers={"Idempotency-Key": "polls"}.items())
    assert (answer.status, answer.json["instance"].keys()) == (201, {"id", "name"})
    other, whole = Client(address, answer.json["credential"]["token"]), Client(address, token)
    with pytest.raises(NotFound):
        other.get(mine.id)
    assert whole.get(mine.id).status == "pending"
    # The same key of another instance is another request.
    assert len({asking.create(submission({"command": "pwd"}), "k").id for asking in (client, other, whole)}) == 3
    own = f"/aap/v1/instances/{receiver.receiver.instance_id}"
    key = {"Idempotency-Key": uuid.uuid4().hex}.items()
    refused = [product.call("POST", "/aap/v1/instances", receiver.credential, {}, headers=key)]
    refused += [product.call(method, own, receiver.credential) for method in ("GET", "DELETE")]
    refused.append(product.get("/api/v1/me", receiver.credential))
    assert [answer.status for answer in refused] == [403, 403, 403, 401]
    client.cancel(mine.id)
    other.close()
    whole.close()


def test_a_person_and_a_stranger_register_nothing(receiver, address, reviewer):
    for refused, status in (("hr_nobody", 401), (reviewer.token, 403)):
        with pytest.raises(ProvisionError) as error:
            receiver.provision(address, refused)
        assert error.value.status == status
    assert receiver.got == []


def test_a_removed_instance_cannot_ask_and_gets_no_message(product, receiver, client, address, token):
    pending, path = ask(client, arguments()), f"/aap/v1/instances/{receiver.receiver.instance_id}"
    shown = product.get(path, token).json
    assert shown["delivery"] == {
        "type": "webhook", "url": receiver.url, "registration_id": receiver.receiver.registration_id
    }  # fmt: skip
    assert product.call("DELETE", path, product.agent_token("aap-stranger")).status == 404
    for _ in range(2):
        assert product.call("DELETE", path, token).status == 204
    assert product.get(path, token).status == 404
    with pytest.raises(CredentialRefused):
        client.get(pending.id)
    whole = Client(address, token)
    assert whole.get(pending.id).status == "cancelled"
    whole.close()
    with pytest.raises(ProvisionError) as error:
        receiver.provision(address, token)
    assert (error.value.status, error.value.code) == (409, "instance_deleted")
    time.sleep(2.5)
    assert receiver.resolved() == []
