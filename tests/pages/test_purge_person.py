"""Purge a person by page, API and command: what goes, what stays verifiable, who may, and the receipt."""

import json
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from approvals.models import Decision, LineComment, NotificationSettings, PushSubscription
from dashboard.database import clock
from dashboard.keys import log_key
from dashboard.models import Actor, Event, Membership, Role, SignInLink, Token
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from handrail_verify import signed
from handrail_verify.log import verify as verify_log
from workspaces.models import Operation, PurgeReceipt, SavedView, Workspace
from workspaces.services.scrub import people

from .conftest import FORCE, PUSH

REASON = "asked for by the data protection officer"


@pytest.fixture
def traces(team, agent, bob, workspace, ask, decide, browser_of, token_of):
    """Something of bob's of each kind, and a decision of his; returns the decided action."""
    get_user_model().objects.filter(pk=bob.pk).update(email="bob@example.org", first_name="Robert")
    EmailAddress.objects.create(user=bob, email="bob@example.org", verified=True)
    browser_of(bob).get("/")
    token_of(bob)
    now = clock.now()
    SignInLink.objects.create(user=bob, sha256="1" * 64, expires_at=now + timedelta(days=1))
    PushSubscription.objects.create(user=bob, endpoint="https://push.example", endpoint_sha256="2" * 64, created_at=now)
    NotificationSettings.objects.create(user=bob)
    SavedView.objects.create(user=bob, name="Mine", query="quiet=3")
    about = {"path": "a", "side": "new", "line": 1, "end_line": 1, "quote": "x", "text": "y", "at": now}
    LineComment.objects.create(team=team, user=bob, workspace=workspace, **about)
    LineComment.objects.create(team=team, user=bob, workspace=workspace, **about, sent_at=now, agent=agent)
    Workspace.objects.filter(pk=workspace.pk).update(owner=bob)
    Operation.objects.create(
        workspace=workspace,
        kind="stop",
        phase="settled",
        due_at=now,
        outcome={"ok": True},
        by=Actor.person(bob).as_json,
    )
    return decide(ask(PUSH, workspace=workspace), by=bob)


def purge(client, membership, name="bob", reason=REASON):
    return client.post(f"/team/{membership.pk}/purge/", {"name": name, "reason": reason})


def test_a_purge_leaves_the_decisions_and_the_log_and_nothing_of_the_person(team, bob, alice, traces, browser_of):
    client, before = browser_of(alice), Event.objects.filter(team=team).count()
    answer = purge(client, Membership.objects.get(user=bob))
    assert (answer.status_code, answer.headers["Location"]) == (302, "/scrub/")
    bob.refresh_from_db()
    name = f"deleted-person-{bob.pk}"
    assert (bob.username, bob.email, bob.first_name, bob.is_active) == (name, "", "", False)
    assert not bob.has_usable_password()
    own = (EmailAddress, UserSession, SignInLink, PushSubscription, NotificationSettings, SavedView, Membership)
    assert [model.objects.filter(user=bob).count() for model in own] == [0] * len(own)
    assert [one.sent_at is not None for one in LineComment.objects.filter(user=bob)] == [True]
    assert Token.objects.live().filter(user=bob).count() == 0
    assert Workspace.objects.get().owner is None
    assert Operation.objects.get(kind="stop").by == {"type": "person", "id": str(bob.pk), "label": name}
    decision = Decision.objects.get()
    assert (decision.user, decision.verdict, decision.revision.digest) == (bob, "approve", traces.digest)
    events = Event.objects.filter(team=team).order_by("seq")
    lines = [json.dumps(event.as_export()).encode() for event in events]
    assert verify_log(lines).last == len(lines)
    assert [event.verb for event in events[before:]] == [
        "person.sessions_ended",
        "token.revoked",
        "person.removed",
        "person.purged",
    ]
    assert not any("bob" in json.dumps([event.data, event.actor_label]) for event in events[before:])


def test_the_receipt_is_signed_and_has_neither_name_nor_address(team, bob, alice, traces, browser_of):
    client = browser_of(alice)
    purge(client, Membership.objects.get(user=bob))
    receipt = PurgeReceipt.objects.get()
    text = client.get(f"/scrub/receipts/{receipt.pk}/").content
    body = signed.verify(text, log_key.public_key(), signed.RECEIPT_PREFIX)
    assert (body["about"], body["person"], body["reason"]) == ("person", str(bob.pk), REASON)
    assert body["keyed_hash"] == people.fingerprint("bob")
    removed, stays = ({group["what"] for group in body[part]} for part in ("removed", "not_removed"))
    assert {"account", "push subscription", "saved view", "line comment", "operation"} <= removed
    assert {"event", "decision", "token"} <= stays
    assert all(group["because"] for group in body["not_removed"])
    assert not any(word in json.dumps(body) for word in ('"bob"', "bob@example.org", "Robert"))
    event = Event.objects.get(verb="person.purged")
    assert (event.data["sha256"], event.actor_label) == (receipt.sha256, "alice")


def test_only_an_admin_of_all_the_persons_teams_may(team, other_team, bob, lena, alice, mallory, browser_of, read):
    membership = Membership.objects.get(user=bob)
    assert "Purge…" in read(browser_of(alice), "/team/")
    assert purge(browser_of(lena), membership).status_code == 403
    assert purge(browser_of(mallory), membership).status_code == 404
    Membership.objects.create(team=other_team, user=bob, role=Role.VIEWER)
    client = browser_of(alice)
    answer = client.post(f"/team/{membership.pk}/purge/", {"name": "bob", "reason": REASON}, follow=True)
    assert "also in a team that you don" in answer.content.decode()
    assert get_user_model().objects.filter(username="bob").exists()
    assert not PurgeReceipt.objects.exists()


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"name": "bobby", "reason": REASON}, "id_name"),
        ({"name": "bob", "reason": ""}, "id_reason"),
        ({"name": "bob", "reason": "Bob asked for it"}, "id_reason"),
    ],
)
def test_a_wrong_name_and_a_reason_with_the_name_are_refused_at_their_field(bob, alice, browser_of, sent, field):
    answer = browser_of(alice).post(f"/team/{Membership.objects.get(user=bob).pk}/purge/", sent)
    assert f'id="{field}_error"' in answer.content.decode()
    assert get_user_model().objects.filter(username="bob").exists()
    assert not Event.objects.filter(verb="person.purged").exists()


def test_oneself_an_operator_and_the_only_admin_are_refused(team, alice, bob, lena):
    with pytest.raises(Problem, match="Another admin"):
        people.refuse(alice, caller_of(alice))
    bob.is_staff = True
    with pytest.raises(Problem, match="is an operator"):
        people.refuse(bob, caller_of(alice))
    with pytest.raises(Problem, match="is the only admin of"):
        people.purge(alice, reason=REASON, by=Actor.system("tests"))
    assert get_user_model().objects.filter(username="alice", is_active=True).exists()


def test_by_api(team, bob, lena, alice, token_of, api):
    address = "/api/v1/teams/payments/members/bob/purge"
    sent = {"data": json.dumps({"reason": REASON}), "content_type": "application/json"}
    assert api(token_of(lena)).post(address, **sent).status_code == 403
    told = api(token_of(alice)).post(address, **sent)
    assert (told.status_code, told.json()["called"]) == (200, f"deleted-person-{bob.pk}")
    assert told.json()["receipts"] == [str(PurgeReceipt.objects.get().pk)]
    assert api(token_of(alice)).post(address, **sent).status_code == 404


def test_by_command_also_for_who_left_and_twice(team, other_team, bob, lena, ask, decide, capsys):
    decide(ask(FORCE), by=bob)
    Membership.objects.filter(user=bob).delete()
    Membership.objects.create(team=other_team, user=bob, role=Role.VIEWER)
    call_command("purge_person", "bob", reason=REASON)
    assert sorted(PurgeReceipt.objects.values_list("team__slug", flat=True)) == ["other", "payments"]
    assert f"deleted-person-{bob.pk}" in capsys.readouterr().out
    with pytest.raises(CommandError, match="No user is named bob"):
        call_command("purge_person", "bob", reason=REASON)
    with pytest.raises(CommandError, match="purged already"):
        call_command("purge_person", f"deleted-person-{bob.pk}", reason=REASON)
