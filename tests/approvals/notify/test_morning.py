"""The morning: what ended, asks, cost and looked odd, the same on the page and in the digest; quiet without news."""

from datetime import timedelta

import pytest

from approvals.models import Action, Channel, Delivery, NotificationSettings, Task
from approvals.notify import messages, notices
from approvals.notify.morning import morning_of
from approvals.notify.odd import odd_of
from dashboard.database import clock
from dashboard.people.access import caller_of
from tests.pages.conftest import make_workspace
from workspaces.models import Contact

DAY = timedelta(days=1)


def odd(team) -> list:
    now = clock.now()
    return odd_of(team, now - DAY, now + timedelta(seconds=1))


def test_nothing_is_sent_of_a_day_in_which_nothing_happened(bob, team):
    Channel.objects.create(user=bob, value=b"", label="a chat", created_at=clock.now())
    NotificationSettings.objects.create(user=bob, digest_at="08:00", zone="UTC")
    at = clock.now().replace(hour=8, minute=1)
    notices.reconcile(at)
    notices.reconcile(at + timedelta(minutes=1))
    assert not Delivery.objects.exists()
    now = at - timedelta(hours=1)
    about = {"team": team, "environment": "default", "created_at": now, "changed_at": now}
    Task.objects.create(title="Mend the till", text="", end="merged", **about)
    NotificationSettings.objects.update(digest_on=None)
    notices.reconcile(at + timedelta(minutes=2))
    assert Delivery.objects.filter(kind="digest").count() == 1


def test_the_digest_counts_and_the_page_names(bob, team, browser_of, ask, decide, lena):
    now = clock.now()
    about = {"team": team, "environment": "default", "created_at": now, "changed_at": now}
    Task.objects.create(title="Mend the till", text="", end="merged", **about)
    body = messages.digest(bob, clock.now())[1]
    assert "1 task ended." in body
    assert "till" not in body
    assert body.endswith("/morning/")
    page = browser_of(bob).get("/morning/").content.decode()
    assert "Mend the till" in page
    assert "Nothing happened." not in page


def test_others_see_nothing_of_it(mallory, team, browser_of):
    now = clock.now()
    about = {"team": team, "environment": "default", "created_at": now, "changed_at": now}
    Task.objects.create(title="Mend the till", text="", end="merged", **about)
    assert morning_of(caller_of(mallory), clock.now()) == []
    assert "Nothing happened." in browser_of(mallory).get("/morning/").content.decode()


def test_a_denied_effect_that_is_tried_in_another_way_is_odd(team, ask, decide, bob):
    denied = ask({"command": "rm -rf /srv/data"})
    decide(denied, "deny", by=bob)
    ask({"command": "ls /srv/data"})
    assert odd(team) == []
    again = ask({"command": "find /srv/data -delete && rm -rf /srv/data"})
    found = odd(team)
    assert [(each.kind, each.actions) for each in found] == [("around", (denied, again))]
    assert found[0].what == f"{denied} was denied; 1 other call with the same effect followed"


def test_a_host_is_new_once(team, agent):
    now = clock.now()
    place, other = make_workspace(team, agent, "one"), make_workspace(team, agent, "two")
    about = {"phase": "agent", "port": 443, "method": "CONNECT", "allowed": True, "count": 1, "last_at": now}
    Contact.objects.create(workspace=place, host="new.example.org", first_at=now, **about)
    Contact.objects.create(workspace=other, host="old.example.org", first_at=now, **about)
    Contact.objects.create(workspace=place, host="old.example.org", first_at=now - 3 * DAY, **about)
    Contact.objects.create(workspace=place, host="no.example.org", first_at=now, **about | {"allowed": False})
    assert [(each.kind, each.about) for each in odd(team)] == [("host", "new.example.org")]


@pytest.mark.parametrize(("before", "is_odd"), [(0, False), (2, True), (8, False)])
def test_an_agent_is_measured_by_its_own_usual_day(team, ask, before, is_odd):
    """On three days it made `before` calls each, today 24."""
    for number in range(24 + 3 * before):
        made = ask({"command": f"echo {number}"})
        if number >= 24:
            at = clock.now() - DAY * (2 + (number - 24) % 3)
            Action.objects.filter(pk=made.pk).update(created_at=at)
    assert [each.what for each in odd(team)] == (["24 calls; 2 on a usual day"] if is_odd else [])
