"""Devices of people at a push service on loopback, and the queue's task called as the queue calls it."""

import json

import pytest

from approvals import tasks
from tests.support.push_service import PushService
from workspaces.egress.addresses import read_networks


@pytest.fixture
def push_service(settings):
    settings.HANDRAIL_NOTIFY_NETWORKS = read_networks("127.0.0.1/32")
    service = PushService()
    yield service
    service.close()


@pytest.fixture
def device(push_service, browser_of):
    """`device(bob)`: a signed-in client of the person, whose browser has switched notifications on."""

    def switch_on(user, name="", client=None):
        client = client or browser_of(user)
        found = push_service.subscription(name or user.username)
        response = client.post("/me/notifications/device/", json.dumps(found), content_type="application/json")
        assert response.status_code == 204, response.content
        return client

    return switch_on


@pytest.fixture
def notify(push_service):
    """`notify()`: the queue's task; what arrived at the push service."""

    def run():
        tasks.notify()
        return push_service.take()

    return run


@pytest.fixture
def answer():
    """`answer(client, token)`: what a tap on a notification's button sends; (status, JSON)."""

    def send(client, token):
        response = client.post("/push/answer", json.dumps({"token": token}), content_type="application/json")
        return response.status_code, response.json()

    return send


@pytest.fixture
def report():
    """`report(client, payload, "shown")`: what the service worker tells; the status."""

    def send(client, payload, what, **changed):
        body = {"delivery": payload["delivery"], "receipt": payload["receipt"], "what": what} | changed
        return client.post("/push/report", json.dumps(body), content_type="application/json").status_code

    return send
