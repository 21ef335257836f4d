"""Answers from a notification: a token decides once, for its digest and verdict, in its person's session."""

from datetime import timedelta

import pytest

from approvals.models import Action, Decision, Delivery, PushToken, Status
from dashboard.database import clock
from dashboard.models import Event, Membership, Role
from tests.approvals.conftest import FORCE, PUSH

EDITED = {"command": "git push origin main:other"}


@pytest.fixture
def undoable(ask):
    """A pending action that can be undone: the policy's verdict on it is changed, the gate's work is not."""

    def make():
        action = ask(PUSH)
        Action.objects.filter(pk=action.pk).update(undo="yes")
        action.refresh_from_db()
        return action

    return make


def test_deny_on_the_notification_denies(device, ask, notify, answer, bob):
    client = device(bob)
    action = ask(PUSH)
    [message] = notify()
    assert sorted(message.payload["tokens"]) == ["deny"]
    assert answer(client, message.payload["tokens"]["deny"]) == (200, {"ok": True, "says": "Denied"})
    decision = Decision.objects.get()
    assert (decision.action_id, decision.user, decision.verdict, decision.final) == (action.pk, bob, "deny", True)
    event = Event.objects.get(verb="action.answered_on_device")
    assert (event.actor_label, event.data["verdict"], event.data["via"]) == ("bob", "deny", "Browser")


def test_approve_is_offered_for_what_can_be_undone_and_approves_it(device, undoable, notify, answer, bob):
    client = device(bob)
    action = undoable()
    [message] = notify()
    assert sorted(message.payload["tokens"]) == ["approve", "deny"]
    assert answer(client, message.payload["tokens"]["approve"]) == (200, {"ok": True, "says": "Approved"})
    action.refresh_from_db()
    assert action.status == Status.APPROVED


def test_approve_is_not_offered_where_two_people_must(device, ask, notify, bob):
    device(bob)
    action = ask(FORCE)
    Action.objects.filter(pk=action.pk).update(undo="yes")
    [message] = notify()
    assert sorted(message.payload["tokens"]) == ["deny"]


def test_approve_is_never_offered_for_critical_actions(device, undoable, notify, bob):
    device(bob)
    action = undoable()
    Action.objects.filter(pk=action.pk).update(tier="critical")
    [message] = notify()
    assert sorted(message.payload["tokens"]) == ["deny"]


def test_a_token_that_was_used_is_refused(device, undoable, notify, answer, bob):
    client = device(bob)
    undoable()
    tokens = notify()[0].payload["tokens"]
    assert answer(client, tokens["approve"])[0] == 200
    status, said = answer(client, tokens["approve"])
    assert (status, said["ok"]) == (409, False)
    assert Decision.objects.count() == 1


def test_another_person_cannot_use_the_token(device, undoable, notify, answer, bob, lena, browser_of):
    device(bob)
    action = undoable()
    token = notify()[0].payload["tokens"]["approve"]
    assert answer(browser_of(lena), token)[0] == 403
    action.refresh_from_db()
    assert (action.status, PushToken.objects.filter(used_at=None).count()) == (Status.PENDING, 2)


def test_another_session_of_the_person_cannot_use_the_token(device, undoable, notify, answer, bob, browser_of, client):
    device(bob)
    action = undoable()
    token = notify()[0].payload["tokens"]["approve"]
    assert answer(browser_of(bob), token)[0] == 403
    assert answer(client, token)[0] == 403
    action.refresh_from_db()
    assert action.status == Status.PENDING


def test_an_answer_is_refused_after_an_edit(device, undoable, decide, notify, answer, bob, lena):
    client = device(bob)
    action = undoable()
    token = notify()[0].payload["tokens"]["approve"]
    before = action.digest
    Action.objects.filter(pk=action.pk).update(quorum=1)
    decide(action, "edit", by=lena, arguments=FORCE)
    Action.objects.filter(pk=action.pk).update(undo="yes", quorum=1, tier="high")
    status, said = answer(client, token)
    action.refresh_from_db()
    assert action.digest != before
    assert (status, said["ok"], action.status) == (409, False, Status.PENDING)


def test_an_answer_is_refused_after_expiry(device, undoable, notify, answer, bob):
    client = device(bob)
    action = undoable()
    token = notify()[0].payload["tokens"]["approve"]
    past = clock.now() - timedelta(seconds=1)
    Action.objects.filter(pk=action.pk).update(expires_at=past)
    assert answer(client, token)[0] == 409
    action.refresh_from_db()
    assert action.status == Status.EXPIRED
    PushToken.objects.update(expires_at=past, used_at=None)
    assert answer(client, token)[0] == 409


def test_an_approval_is_refused_when_the_call_can_no_longer_be_undone(device, undoable, notify, answer, bob):
    client = device(bob)
    action = undoable()
    token = notify()[0].payload["tokens"]["approve"]
    Action.objects.filter(pk=action.pk).update(undo="no")
    assert answer(client, token)[0] == 403
    action.refresh_from_db()
    assert action.status == Status.PENDING


def test_an_answer_is_refused_after_its_person_lost_the_role(device, undoable, notify, answer, bob):
    client = device(bob)
    undoable()
    token = notify()[0].payload["tokens"]["approve"]
    Membership.objects.filter(user=bob).update(role=Role.VIEWER)
    assert answer(client, token)[0] == 403
    Membership.objects.filter(user=bob).delete()
    PushToken.objects.update(used_at=None)
    assert answer(client, token)[0] == 404


def test_a_deny_token_never_approves(device, undoable, notify, answer, bob):
    client = device(bob)
    action = undoable()
    answer(client, notify()[0].payload["tokens"]["deny"])
    action.refresh_from_db()
    assert action.status == Status.DENIED


@pytest.mark.parametrize("token", ["", "x", None, 7, ["x"], "\0"])
def test_an_invalid_token_is_refused(answer, browser_of, bob, token):
    assert answer(browser_of(bob), token)[0] == 404


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b"[" * 5000, b'"' + b"x" * 9000 + b'"'])
@pytest.mark.parametrize("path", ["/push/answer", "/push/report"])
def test_a_body_that_is_no_json_object_is_refused(browser_of, bob, path, body):
    assert browser_of(bob).post(path, body, content_type="application/json").status_code == 404


def test_tokens_are_stored_as_hashes_only(device, undoable, notify, bob):
    device(bob)
    undoable()
    tokens = notify()[0].payload["tokens"]
    stored = " ".join(str(vars(row)) for row in PushToken.objects.all())
    assert not any(token in stored for token in tokens.values())


def test_a_second_try_makes_the_first_tokens_worthless(device, undoable, notify, answer, bob, push_service):
    client = device(bob)
    undoable()
    first = notify()[0].payload["tokens"]["approve"]
    Delivery.objects.update(next_try_at=clock.now(), sent_at=None)  # sent, and the process was killed before it said so
    second = notify()[0].payload["tokens"]["approve"]
    assert answer(client, first)[0] == 404
    assert answer(client, second)[0] == 200
