"""An instance with a receiver, in the process of the tests; those against a running desk have their own."""

import json
import uuid

import pytest

from approvals.models import AapInstance, AapRequest
from tests.support.aap_receiver import AapReceiver
from workspaces.egress.addresses import read_networks


@pytest.fixture
def on_loopback(settings):
    settings.HANDRAIL_NOTIFY_NETWORKS = read_networks("127.0.0.1/32")


@pytest.fixture
def receiver():
    """One that knows the secret and takes each message; nothing is fetched, since there is no server to ask."""
    listening = AapReceiver()
    listening.receiver.secret = "whsec_" + "A" * 43 + "="
    listening.receiver.registration_id = str(uuid.uuid4())
    yield listening
    listening.close()


@pytest.fixture
def register(on_loopback, api, agent_token, receiver):
    """`register()`: what registering the receiver answers."""

    def post(token=agent_token, key="one", **changed):
        delivery = {
            "type": "webhook",
            "url": receiver.url,
            "registration_id": receiver.receiver.registration_id,
            "signing_secret": receiver.receiver.secret,
        } | changed
        return api(token).post(
            "/aap/v1/instances",
            json.dumps({"delivery": delivery}),
            content_type="application/json",
            headers={"Idempotency-Key": key},
        )

    return post


@pytest.fixture
def instance(register) -> AapInstance:
    answer = register()
    assert answer.status_code == 201, answer.content
    return AapInstance.objects.get(pk=answer.json()["instance"]["id"])


@pytest.fixture
def ask(api, register, instance):
    """`ask()`: a request of the instance, waiting for a person."""
    credential = register().json()["credential"]["token"]

    def post(command="git push", key=None):
        body = {"tool": "Bash", "arguments": {"command": command}, "timeout": "10m"}
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        answer = api(credential).post(
            "/aap/v1/requests", json.dumps(body), content_type="application/json", headers=headers
        )
        assert answer.status_code == 201, answer.content
        return AapRequest.objects.get(pk=answer.json()["id"])

    return post
