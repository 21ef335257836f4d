"""Owners hear before retention takes their workspaces: one message a day for all of them, with a way to keep them."""

from datetime import timedelta

import pytest

from approvals.models import Delivery, NotificationSettings
from approvals.notify import going
from dashboard.database import clock
from dashboard.models import Actor
from tests.approvals.notify.test_channels import channel, ntfy  # noqa: F401 - fixtures
from tests.pages.conftest import make_workspace
from workspaces.models import RetentionRule, State, Workspace
from workspaces.services import retention
from workspaces.services.retention import holds

BY = Actor.system("test")


def owned(team, agent, owner, key, days, state=State.STOPPED, **fields):
    made = make_workspace(team, agent, key, state, owner=owner, **fields)
    Workspace.objects.filter(pk=made.pk).update(last_active_at=clock.now() - timedelta(days=days))
    return made


@pytest.fixture
def rules(team):
    RetentionRule.objects.create(team=team, layer="archive", days=30)
    RetentionRule.objects.create(team=team, layer="workspaces", days=100)


@pytest.fixture
def places(team, agent, lena, rules):
    """Three of Lena's that go: archived in two days, to the trash soon, deleted for good in a day and a half."""
    warned = clock.now() - timedelta(days=1)
    soon = clock.now() + timedelta(hours=36)
    return [
        owned(team, agent, lena, "to-archive", 28),
        owned(team, agent, lena, "to-trash", 99, State.ARCHIVED, warned_at=warned),
        owned(team, agent, lena, "to-delete", 9, trashed_at=warned, purge_at=soon),
    ]


def sent() -> int:
    return Delivery.objects.filter(kind="going").count()


def test_one_message_tells_an_owner_all_and_leads_to_where_they_are_kept(places, device, notify, lena, bob):
    device(lena)
    device(bob)  # owns nothing
    going.warn(clock.now())
    [message] = notify()
    assert message.payload["title"] == "Retention will archive or delete 3 workspaces of yours soon"
    lines = message.payload["body"].splitlines()
    names = [line.split(" ")[0].removeprefix("payments/") for line in lines]
    assert names == ["to-delete", "to-archive", "to-trash", "Keep"]
    assert (lines[0].split(" ", 1)[1][:19], lines[1].split(" ", 1)[1][:12]) == ("is deleted for good", "is archived ")
    assert message.payload["url"] == "/#desk-going"


def test_an_owner_is_reminded_once_on_the_last_day(places, device, lena):
    device(lena)
    now = clock.now()
    assert [going.warn(now + timedelta(minutes=minutes)) for minutes in (0, 60)] == [1, 0]
    assert going.warn(now + timedelta(days=1, hours=1)) == 1  # the last day of what is deleted
    assert going.warn(now + timedelta(days=1, hours=2)) == 0


def test_at_most_one_message_a_day_whatever_comes(places, team, agent, device, lena):
    device(lena)
    now = clock.now()
    going.warn(now)
    owned(team, agent, lena, "another", 29)
    assert going.warn(now) == 0
    NotificationSettings.objects.update(going_on=now.date() - timedelta(days=1))
    assert going.warn(now) == 1
    assert sent() == 2


def test_nobody_hears_of_what_is_held_kept_theirs_no_longer_or_switched_off(places, team, agent, device, lena, bob):
    device(lena)
    to_archive, to_trash, to_delete = places
    holds.hold(team, reason="audit", by=BY, workspace=to_delete)
    retention.keep_unused(to_trash, by=BY)
    Workspace.objects.filter(pk=to_archive.pk).update(owner=bob)
    assert (going.warn(clock.now()), sent()) == (0, 0)
    Workspace.objects.filter(pk=to_archive.pk).update(owner=lena)
    for wanted in ({"on_duty": False}, {"workspaces_off": ["payments/to-archive"]}, {"teams_off": [str(team.pk)]}):
        NotificationSettings.objects.update_or_create(user=lena, defaults=wanted)
        assert going.warn(clock.now()) == 0
        NotificationSettings.objects.filter(user=lena).delete()
        lena.refresh_from_db()
    assert going.warn(clock.now()) == 1


def test_a_channel_gets_a_number_and_names_only_by_choice(places, channel, ntfy, notify, lena):  # noqa: F811
    row = channel(lena)
    going.warn(clock.now())
    notify()
    [message] = ntfy.messages
    assert message["title"] == "Retention will archive or delete 3 workspaces of yours soon"
    assert message["message"].startswith("Keep what you need:\nhttp")
    assert message["message"].endswith("/#desk-going")
    type(row).objects.update(with_title=True)
    NotificationSettings.objects.update(going_on=None, going_told=[])
    going.warn(clock.now())
    notify()
    assert "payments/to-trash moves to the trash" in ntfy.messages[1]["message"]


def test_what_was_kept_meanwhile_is_not_sent(places, device, notify, lena):
    device(lena)
    going.warn(clock.now())
    Workspace.objects.update(owner=None)
    assert notify() == []
    assert Delivery.objects.get(kind="going").problem == "No longer needed."
