"""The page and the API of action callbacks: what became of each webhook, and sending one again with its id."""

from datetime import timedelta

import pytest

from approvals import tasks
from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.models import AapRequest, Action
from approvals.protocols.aap import deliveries
from dashboard.database import clock
from dashboard.models import Event
from dashboard.people.access import caller_of

pytestmark = pytest.mark.django_db
CALLBACKS = "/api/v1/callbacks"


@pytest.fixture
def sent(ask, bob, receiver):
    """A request whose decision the receiver has."""
    request = ask()
    action = Action.objects.get(pk=request.action_id)
    gate.decide(action, Answer("deny", action.digest), caller=caller_of(bob))
    assert tasks.send_webhooks() == 1
    request.refresh_from_db()
    return request


def test_a_sent_one_is_shown_and_sent_again_with_its_id(sent, instance, receiver, browser_of, alice):
    (callback,) = deliveries.of_instance(instance, clock.now())
    assert (callback.state, callback.at, callback.tries) == ("sent", sent.sent_at, 0)
    page = browser_of(alice).get("/callbacks/").content.decode()
    assert callback.id in page
    assert "127.0.0.1" in page
    browser_of(alice).post(f"/callbacks/{sent.pk}/again/")
    assert tasks.send_webhooks() == 1
    ids = [message["id"] for _, _, message in receiver.got if message["type"] == "request.resolved"]
    assert ids == [callback.id, callback.id]
    assert Event.objects.filter(verb="callback.sent_again").count() == 1


def test_one_that_fails_waits_and_one_that_is_too_old_is_given_up(ask, bob, instance, receiver):
    request = ask()
    receiver.answers = [(500, {})]
    action = Action.objects.get(pk=request.action_id)
    gate.decide(action, Answer("deny", action.digest), caller=caller_of(bob))
    tasks.send_webhooks()
    instance.refresh_from_db()
    (callback,) = deliveries.of_instance(instance, clock.now())
    assert (callback.state, callback.tries, instance.problem) == ("waiting", 1, "It answered 500.")
    assert callback.at > clock.now()
    (callback,) = deliveries.of_instance(instance, clock.now() + timedelta(days=8))
    assert (callback.state, callback.at) == ("given_up", None)


def test_over_the_api_for_admins_alone(sent, api, token_of, post, alice, lena, agent_token):
    found = api(token_of(alice)).get(CALLBACKS).json()["receivers"][0]
    assert (found["host"], [each["state"] for each in found["callbacks"]]) == ("127.0.0.1", ["sent"])
    again = f"{CALLBACKS}/{sent.pk}/again"
    for token in (token_of(lena), agent_token):
        assert api(token).get(CALLBACKS).status_code == 403
        assert api(token).post(again).status_code == 403
    assert api(token_of(alice)).post(again).status_code == 204
    sent.refresh_from_db()
    assert sent.notify_at is not None


def test_what_is_not_resolved_or_too_old_is_not_sent(ask, sent, api, token_of, alice):
    admin = api(token_of(alice))
    assert admin.post(f"{CALLBACKS}/{ask('git push two').pk}/again").status_code == 409
    old = clock.now() - timedelta(days=8)
    Action.objects.filter(pk=sent.action_id).update(decided_at=old, ended_at=old)
    AapRequest.objects.filter(pk=sent.pk).update(created_at=old)
    assert admin.post(f"{CALLBACKS}/{sent.pk}/again").status_code == 409


def test_a_lead_and_a_stranger_do_not_see_the_page(sent, browser_of, lena, mallory):
    assert browser_of(lena).get("/callbacks/").status_code == 403
    assert browser_of(mallory).post(f"/callbacks/{sent.pk}/again/").status_code in (403, 404)
