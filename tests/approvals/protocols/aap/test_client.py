"""The Agent Approval Protocol's own client and gate, unmodified, against the running desk."""

import threading
import time
import uuid

import pytest
from agentapprovalprotocol import Call, Client, Gate
from agentapprovalprotocol._client import AAPError, ConflictError, CredentialRefused, NotFound

from tests.support.desk import Desk

PUSH = {"command": "git push origin main", "note": "ü", "times": 1.5}


class Reviewer(Desk):
    """A person who decides what an agent asks over the protocol."""

    def card(self, arguments: dict) -> dict:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for row in self.get("/actions?status=pending").json["actions"]:
                card = self.get(f"/actions/{row['id']}").json
                if card["arguments"] == arguments:
                    return card
            time.sleep(0.05)
        raise AssertionError("no card")

    def decide(self, call: dict, verdict="approve", **more) -> dict:
        card = self.card(call)
        return self.call(
            "POST", f"/actions/{card['id']}/decision", {"verdict": verdict, "digest": card["digest"], **more}
        ).json


@pytest.fixture(scope="module")
def reviewer(product):
    return Reviewer(product, product.person_token("aap-rita", "reviewer"))


@pytest.fixture(scope="module")
def address(product) -> str:
    return f"{product.url}/aap"


@pytest.fixture(scope="module")
def client_of(address):
    """`client_of(token)`: the protocol's client, closed at the end."""
    made = []

    def make(token: str) -> Client:
        made.append(Client(address, token))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture(scope="module")
def token(product) -> str:
    return product.agent_token("aap-agent")


@pytest.fixture(scope="module")
def client(client_of, token):
    return client_of(token)


def arguments() -> dict:
    return PUSH | {"mark": uuid.uuid4().hex}


def submission(call: dict, **more) -> dict:
    return {"tool": "Bash", "arguments": call, "timeout": "10m", **more}


def create(client, call: dict, **more):
    return client.create(submission(call, **more), uuid.uuid4().hex)


def in_background(work) -> tuple[threading.Thread, list]:
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def test_an_approved_call_is_used_once_and_its_outcome_is_kept(client, reviewer):
    call, key = arguments(), uuid.uuid4().hex
    context = {"call_id": "c1", "deep": [1, 2.25, {"x": "y"}]}
    asked = client.create(submission(call, agent_reasoning="Ready.", context=context), key)
    assert (asked.status, asked.arguments["mark"], asked.context["deep"][2]) == ("pending", call["mark"], {"x": "y"})
    thread, found = in_background(lambda: client.get(asked.id, wait=20))
    card = reviewer.decide(call, comment="go on")
    thread.join(25)
    assert (card["tool"], card["reasoning"], card["call_id"]) == ("Bash", "Ready.", "c1")
    [approved] = found
    assert (approved.status, approved.decision.note) == ("approved", "go on")
    assert approved.decision.expires_at > approved.decision.decided_at
    used = client.consume(asked.id, key)
    assert used.consumption.consumed_at >= approved.decision.decided_at
    assert client.consume(asked.id, key).consumption == used.consumption  # its answer was lost
    with pytest.raises(ConflictError) as second:
        client.consume(asked.id, uuid.uuid4().hex)
    assert second.value.code == "already_consumed"
    ended = client.report_outcome(asked.id, "failed", "exit 1")
    assert (ended.consumption.outcome.status, ended.consumption.outcome.note) == ("failed", "exit 1")
    assert client.report_outcome(asked.id, "failed", "exit 1") == ended
    with pytest.raises(ConflictError) as other:
        client.report_outcome(asked.id, "succeeded")
    assert other.value.code == "outcome_conflict"
    row = reviewer.get(f"/actions/{card['id']}").json
    assert (row["status"], row["result"]["note"]) == ("failed", "exit 1")


def test_the_same_key_is_the_same_request_and_nothing_else(client):
    call, key = arguments(), uuid.uuid4().hex
    first = client.create(submission(call), key)
    assert client.create(submission(call), key) == first
    with pytest.raises(ConflictError) as error:
        client.create(submission(arguments()), key)
    assert error.value.code == "idempotency_conflict"
    assert create(client, call).id != first.id
    client.cancel(first.id)


def test_a_denial_brings_the_words_and_cannot_be_used(client, reviewer):
    call = arguments()
    asked = create(client, call)
    reviewer.decide(call, "deny", comment="Not on Fridays.")
    denied = client.get(asked.id)
    assert (denied.status, "Not on Fridays." in denied.decision.note) == ("denied", True)
    for use in (lambda: client.consume(asked.id, "k"), lambda: client.report_outcome(asked.id, "succeeded")):
        with pytest.raises(ConflictError) as error:
            use()
        assert error.value.code in ("not_approved", "not_consumed")


def test_an_edited_call_is_approved_when_the_agent_asks_for_it(client, reviewer):
    call = arguments()
    gate, edited = Gate(client), call | {"command": "git push origin main --dry-run"}
    thread, found = in_background(lambda: gate.check(Call("call-1", "Bash", call)))
    card = reviewer.decide(call, "edit", arguments=edited)
    thread.join(30)
    [refused] = found
    assert (refused.status, "--dry-run" in refused.reason) == ("denied", True)
    allowed = gate.check(Call("call-2", "Bash", edited))
    assert allowed, allowed
    assert allowed.report("succeeded")
    row = reviewer.get(f"/actions/{card['id']}").json
    assert (row["status"], row["arguments"]) == ("succeeded", edited)
    # Once: the same call again needs approval again.
    again = create(client, edited)
    assert again.status == "pending"
    client.cancel(again.id)


def test_two_requests_for_an_edited_call_use_its_approval_once(client, reviewer):
    call = arguments()
    first = create(client, call)
    edited = call | {"command": "git push origin main --dry-run"}
    reviewer.decide(call, "edit", arguments=edited)
    with pytest.raises(ConflictError) as error:
        client.consume(first.id, "k")
    assert error.value.code == "not_approved"
    one, other = create(client, edited), create(client, edited)
    assert (one.status, other.status) == ("approved", "approved")
    assert client.consume(one.id, "k").consumption
    with pytest.raises(ConflictError) as error:
        client.consume(other.id, "k")
    assert error.value.code == "already_consumed"


def test_a_request_for_an_edited_call_waits_no_longer_than_it_asked(client, reviewer):
    call = arguments()
    edited = call | {"command": "git push origin main --dry-run"}
    create(client, call, timeout="2h")
    reviewer.decide(call, "edit", arguments=edited)
    again = create(client, edited, timeout="1m")
    assert (again.status, (again.deadline_at - again.created_at).total_seconds() <= 60) == ("approved", True)


@pytest.mark.parametrize(("asked", "edited"), [(True, 1), (1, True), (0, False)])
def test_an_edit_of_true_to_1_is_an_edit(client, reviewer, asked, edited):
    call = arguments() | {"force": asked}
    request = create(client, call)
    reviewer.decide(call, "edit", arguments=call | {"force": edited})
    assert client.get(request.id).status == "denied"
    again = create(client, call)
    assert again.status == "pending"
    client.cancel(again.id)


def test_a_delivered_answer_is_recorded_as_delivered(product, client, reviewer):
    call = arguments()
    asked = create(client, call)
    card = reviewer.decide(call, "deny", comment="No.")
    seen = f"from approvals.models import Action; a = Action.objects.get(pk={card['id']!r}); print(a.agent_seen_at)"
    assert product.shell(seen).strip().endswith("None")
    assert client.get(asked.id).status == "denied"
    assert not product.shell(seen).strip().endswith("None")


def test_cancelled_and_expired_requests_say_so(client, reviewer):
    cancelled = create(client, arguments())
    assert client.cancel(cancelled.id).status == client.cancel(cancelled.id).status == "cancelled"
    short = create(client, arguments(), timeout="1s")
    assert client.get(short.id, wait=5).status in ("pending", "expired")
    time.sleep(1.2)
    assert client.get(short.id).status == "expired"
    with pytest.raises(ConflictError) as error:
        client.cancel(short.id)
    assert error.value.code == "already_terminal"


def test_what_the_policy_lets_run_or_forbids_needs_nobody(client):
    listed = client.create(submission({"command": "pwd"}), uuid.uuid4().hex)
    assert (listed.status, client.consume(listed.id, "k").consumption is not None) == ("approved", True)
    assert create(client, {"command": "rm -rf /"}).status == "denied"


def test_a_gate_in_async_mode_goes_on_after_a_restart(client_of, token, client, reviewer):
    call = arguments()
    gate = Gate(client, mode="async")
    pending = gate.check(Call("night", "deploy", call, server="ci"))
    assert (type(pending).__name__, bool(pending)) == ("Pending", False)
    card = reviewer.decide(call)
    assert card["tool"] == "mcp__ci__deploy"
    later = Gate(client_of(token), mode="async")
    again = Call("night", "deploy", call, server="ci")
    threads = [in_background(lambda: later.check(again)) for _ in range(4)]
    for thread, _ in threads:
        thread.join(60)
    verdicts = [found[0] for _, found in threads]
    assert sorted(bool(verdict) for verdict in verdicts) == [False, False, False, True], verdicts


def test_strangers_and_people_are_refused(product, client_of, client, reviewer):
    asked = create(client, arguments())
    other = client_of(product.agent_token("aap-stranger"))
    for use in (other.get, other.cancel, lambda pk: other.consume(pk, "k")):
        with pytest.raises(NotFound):
            use(asked.id)
    for refused in ("hr_nobody", reviewer.token):
        with pytest.raises(CredentialRefused):
            create(client_of(refused), arguments())
    assert client.cancel(asked.id).status == "cancelled"


def test_errors_have_the_protocols_types(product, token, reviewer):
    asked = [
        product.call("GET", f"/aap/v1/requests/{uuid.uuid4()}", whose) for whose in ("hr_nobody", reviewer.token, token)
    ]
    asked.append(product.call("PUT", "/aap/v1/requests", token))
    types = [(answer.status, answer.json["error"]["type"]) for answer in asked]
    assert types == [(401, "authentication"), (403, "authorization"), (404, "not_found"), (405, "invalid_request")]
    assert {answer.json["error"]["request_id"] == answer.headers["X-Request-Id"] for answer in asked} == {True}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"tool": "Bash", "arguments": {}}',
        b'{"tool": "Bash", "arguments": [], "timeout": "10m"}',
        b'{"tool": "Bash", "arguments": {}, "timeout": "soon"}',
        b'{"tool": "Bash", "arguments": {}, "timeout": "0s"}',
        b'{"tool": "Bash", "arguments": {}, "timeout": "9999h"}',
        b'{"tool": "Bash", "arguments": {}, "timeout": "10m", "status": "approved"}',
        b'{"tool": "Bash", "arguments": {}, "timeout": "10m", "context": null}',
        b'{"tool": "Bash", "arguments": {"a": 1, "a": 2}, "timeout": "10m"}',
        b'{"tool": "Bash", "arguments": {"a": 1e400}, "timeout": "10m"}',
        b'{"tool": "Bash", "arguments": {}, "timeout": "%sd"}' % (b"9" * 400),
        b'{"tool": "Handrail.restore", "arguments": {}, "timeout": "10m"}',
    ],
)
def test_bad_requests_change_nothing(product, token, reviewer, body):
    before = reviewer.get("/actions?limit=1").json["actions"]
    answer = product.call(
        "POST", "/aap/v1/requests", token, body, headers={"Idempotency-Key": uuid.uuid4().hex}.items()
    )
    assert answer.status == 400, answer.text
    assert answer.json["error"].keys() == {"type", "code", "message", "request_id"}
    assert reviewer.get("/actions?limit=1").json["actions"] == before


def test_a_nul_in_a_text_is_kept_as_its_symbol(product, token, reviewer):
    call = arguments()
    told = {"agent_reasoning": "why\0", "context": {"call_id": "one\0"}}
    key = {"Idempotency-Key": uuid.uuid4().hex}
    answer = product.call("POST", "/aap/v1/requests", token, submission(call, **told), headers=key.items())
    assert answer.status == 201, answer.text
    assert reviewer.card(call)["reasoning"] == "why␀"


def test_a_key_is_needed(product, token, client):
    answer = product.call("POST", "/aap/v1/requests", token, submission(arguments()))
    assert (answer.status, answer.json["error"]["code"]) == (400, "missing_idempotency_key")
    with pytest.raises(AAPError):
        client.create(submission(arguments()), "")
