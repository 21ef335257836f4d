"""The protocol's rules for HTTP: which status, how long a read waits, and the id of each exchange."""

import time
import uuid

import pytest

from approvals.protocols.aap import views
from tests.approvals.protocols.aap.test_client import arguments, in_background, submission
from tests.support.waiting import until


@pytest.fixture(scope="module")
def token(product) -> str:
    return product.agent_token("aap-http")


@pytest.fixture(scope="module")
def ask(product, token):
    """`ask(body)`: what asking with this body answers."""

    def post(body, key=None, path="/requests"):
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return product.call("POST", f"/aap/v1{path}", token, body, headers=headers.items())

    return post


def error(answer) -> tuple[int, str, str]:
    return answer.status, answer.json["error"]["type"], answer.json["error"]["code"]


def test_what_is_malformed_is_a_bad_request(product, ask, token):
    refused = [ask(b"{"), ask(b'{"a": 1, "a": 1}'), ask({"tool": "Bash"}), ask(submission({}, timeout="soon"))]
    refused += [ask({"instance_name": ""}, path="/instances"), ask({}, path="/instances", key="k" * 151)]
    pending = ask(submission(arguments())).json["id"]
    one = f"/aap/v1/requests/{pending}"
    refused.append(product.call("POST", f"{one}/outcome", token, {"status": "perhaps"}))
    refused += [product.get(f"{one}?wait={wait}", token) for wait in ("0s", "-1s", "1", "1.5s", "%D9%A3s", "soon")]
    refused.append(product.get(f"{one}?until=1s", token))
    assert {error(answer)[:2] for answer in refused} == {(400, "invalid_request")}
    assert product.get(one, token).json["status"] == "pending"
    assert product.call("DELETE", one, token).status == 200


def test_a_key_is_needed_for_each_that_the_protocol_wants_one_for(product, token):
    for path, body in (("requests", submission(arguments())), ("instances", {})):
        answer = product.call("POST", f"/aap/v1/{path}", token, body)
        assert error(answer) == (400, "invalid_request", "missing_idempotency_key")


def test_a_read_that_would_wait_for_too_long_waits_as_long_as_it_may(product, ask, token):
    one = f"/aap/v1/requests/{ask(submission(arguments())).json['id']}"
    thread, found = in_background(lambda: product.get(f"{one}?wait={'9' * 5000}h", token))
    time.sleep(0.5)
    assert found == []
    product.call("DELETE", one, token)
    thread.join(20)
    assert [(answer.status, answer.json["status"]) for answer in found] == [(200, "cancelled")]


def test_the_longest_wait_ends_without_an_answer(product, ask, token):
    one = f"/aap/v1/requests/{ask(submission(arguments(), timeout='1h')).json['id']}"
    began = time.monotonic()
    assert product.get(f"{one}?wait=10m", token).json["status"] == "pending"
    assert views.MAX_WAIT <= time.monotonic() - began < views.MAX_WAIT + 15
    product.call("DELETE", one, token)


def test_each_exchange_has_a_uuid_that_the_log_has_too(product, ask, token):
    made = ask(submission(arguments()))
    answers = [product.get(f"/aap/v1/{path}", token) for path in ("requests/one", "instances/one", "elsewhere")]
    for answer in answers:
        assert error(answer) == (404, "not_found", "not_found")
        assert answer.json["error"]["request_id"] == answer.headers["X-Request-Id"]
    ids = [answer.headers["X-Request-Id"] for answer in (made, *answers)]
    assert ([str(uuid.UUID(each)) for each in ids], len(set(ids))) == (ids, 4)
    until(lambda: f" request={ids[0]}" in product.log, 10)
    product.call("DELETE", f"/aap/v1/requests/{made.json['id']}", token)
