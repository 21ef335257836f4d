"""Notifications follow whose turn it is: none while snoozed, a new one by name, and a warning before the end."""

from datetime import timedelta

import pytest

from approvals.actions import attention
from approvals.models import Action, CardViewer, Delivery, DeliveryKind, Notice, NotificationSettings
from approvals.notify import notices
from dashboard.database import clock

from ..conftest import PUSH


@pytest.fixture
def told(ask, person):
    """`told(kind)`: the names of the people for whom there are deliveries of the kind, in their order."""
    return lambda kind: list(
        Delivery.objects.filter(kind=kind).order_by("created_at", "pk").values_list("user__username", flat=True)
    )


def test_a_snooze_withdraws_the_notice_until_it_is_over(device, ask, notify, person, told, bob):
    device(bob)
    action = ask()
    notify()
    until = attention.snooze(action, caller=person(bob), minutes=10)
    notify()
    assert Notice.objects.get().closed_at is not None
    assert told(DeliveryKind.CLOSE) == ["bob"]
    notices.reconcile(until + timedelta(seconds=1))
    assert Notice.objects.get().closed_at is None
    assert told(DeliveryKind.ASK) == ["bob", "bob"]


def test_who_is_asked_by_name_is_told_again_whatever_they_chose(device, ask, notify, person, told, bob, lena):
    device(bob)
    NotificationSettings.objects.create(user=bob, only_critical=True)
    action = ask()
    assert notify() == []
    attention.pass_to(action, caller=person(lena), name="bob")
    [message] = notify()
    assert message.payload["title"].startswith("Asked of you: ")
    attention.pass_to(action, caller=person(lena), name="bob")
    notify()
    assert told(DeliveryKind.ASK) == ["bob", "bob"]


def test_nobody_asked_by_name_is_told_off_duty(device, ask, notify, person, bob, lena):
    device(bob)
    NotificationSettings.objects.create(user=bob, on_duty=False)
    attention.pass_to(ask(), caller=person(lena), name="bob")
    assert notify() == []


def test_a_card_that_nobody_has_looked_at_is_warned_of_once(device, ask, notify, told, bob, lena, monkeypatch):
    device(bob)
    device(lena)
    action = ask(PUSH)
    notify()
    soon = action.expires_at - notices.WARN_BEFORE
    notices.reconcile(soon - timedelta(seconds=1))
    assert told(DeliveryKind.WARN) == []
    monkeypatch.setattr(clock, "now", lambda: soon)
    titles = [message.payload["title"] for message in notify()]
    assert [title.startswith("Expires soon: ") for title in titles] == [True, True]
    notices.reconcile(soon + timedelta(seconds=15))
    assert sorted(told(DeliveryKind.WARN)) == ["bob", "lena"]


@pytest.mark.parametrize("how", ["notice", "card"])
def test_a_card_that_somebody_has_looked_at_is_not_warned_of(device, ask, notify, told, bob, lena, how):
    device(bob)
    device(lena)
    action = ask(PUSH)
    notify()
    if how == "notice":
        Notice.objects.filter(user=bob).update(seen_at=clock.now())
    else:
        CardViewer.objects.create(action=action, user=lena, at=clock.now())
    notices.reconcile(action.expires_at - notices.WARN_BEFORE)
    assert told(DeliveryKind.WARN) == []


def test_what_was_asked_a_moment_ago_is_not_warned_of(device, ask, notify, told, bob):
    device(bob)
    action = ask(PUSH)
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now() + timedelta(minutes=1))
    notify()
    assert (told(DeliveryKind.ASK), told(DeliveryKind.WARN)) == (["bob"], [])
