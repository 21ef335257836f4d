"""Who is told and when: duty, tiers, teams, workspaces, quiet hours, as a person set them on the page."""

import json
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from approvals.models import Action, NotificationSettings, PushSubscription
from approvals.notify.routing import is_quiet
from dashboard.database import clock
from tests.approvals.conftest import FORCE, PUSH
from workspaces.models import Environment, State, Workspace

PAGE = "/me/notifications/"


@pytest.fixture
def choose(team):
    """`choose(client, only_critical="on")`: the form, sent with the defaults and these changes."""

    def save(client, **changed):
        form = {"on_duty": "on", "teams": [str(team.pk)], "unseen_minutes": "5"} | changed
        response = client.post(PAGE, {name: value for name, value in form.items() if value is not None})
        assert response.status_code == 302, response.content.decode()
        return response

    return save


def test_off_duty_nothing_comes_and_what_came_is_withdrawn(device, ask, notify, choose, bob):
    client = device(bob)
    ask(PUSH)
    notify()
    choose(client, on_duty=None)
    assert [message.payload["kind"] for message in notify()] == ["close"]
    ask({"command": "git push origin main:other"})
    assert notify() == []


def test_a_person_back_on_duty_is_notified_of_waiting_actions(device, ask, notify, choose, bob):
    client = device(bob)
    action = ask(PUSH)
    notify()
    choose(client, on_duty=None)
    notify()
    choose(client)
    assert [(m.payload["kind"], m.payload["tag"]) for m in notify()] == [("ask", str(action.pk))]


def test_only_critical(device, ask, notify, choose, bob):
    choose(device(bob), only_critical="on")
    ask(PUSH)
    critical = ask(FORCE)
    assert [message.payload["tag"] for message in notify()] == [str(critical.pk)]


def test_a_team_that_is_off_tells_nothing(device, ask, notify, choose, bob):
    choose(device(bob), teams=[])
    ask(PUSH)
    assert notify() == []


def test_a_workspace_that_is_off_tells_nothing(device, ask, notify, choose, bob, team, agent):
    environment = Environment.objects.create(team=team, name="default", version=1)
    fields = {"environment": environment, "state": State.READY, "created_by_agent": agent}
    made = Workspace.objects.create(team=team, key="noisy", uid=300_000, last_active_at=clock.now(), **fields)
    choose(device(bob), workspaces_off="payments/noisy")
    ask(PUSH, workspace=made)
    other = ask(FORCE)
    assert [message.payload["tag"] for message in notify()] == [str(other.pk)]


def test_workspaces_of_other_teams_are_not_named(browser_of, bob, team, other_team, other_agent):
    environment = Environment.objects.create(team=other_team, name="default", version=1)
    fields = {"environment": environment, "state": State.READY, "created_by_agent": other_agent}
    Workspace.objects.create(team=other_team, key="secret", uid=300_000, last_active_at=clock.now(), **fields)
    response = browser_of(bob).post(PAGE, {"unseen_minutes": "5", "workspaces_off": "other/secret"})
    assert "You see no workspace of this name: other/secret" in response.content.decode()
    assert not NotificationSettings.objects.exists()


def test_in_quiet_hours_it_waits_for_their_end(device, ask, notify, choose, bob):
    client = device(bob)
    now = clock.now()
    around = {"quiet_from": f"{now - timedelta(hours=1):%H:%M}", "quiet_until": f"{now + timedelta(hours=1):%H:%M}"}
    choose(client, **around)
    action = ask(PUSH)
    assert notify() == []
    choose(client)
    assert [message.payload["tag"] for message in notify()] == [str(action.pk)]


def test_critical_actions_can_pass_quiet_hours(device, ask, notify, choose, bob):
    now = clock.now()
    around = {"quiet_from": f"{now - timedelta(hours=1):%H:%M}", "quiet_until": f"{now + timedelta(hours=1):%H:%M}"}
    choose(device(bob), critical_in_quiet="on", **around)
    ask(PUSH)
    critical = ask(FORCE)
    assert [message.payload["tag"] for message in notify()] == [str(critical.pk)]


@pytest.mark.parametrize(
    ("start", "end", "at", "quiet"),
    [
        (time(22), time(7), "2026-07-01T23:30", True),
        (time(22), time(7), "2026-07-01T06:59", True),
        (time(22), time(7), "2026-07-01T07:00", False),
        (time(22), time(7), "2026-07-01T21:59", False),
        (time(12), time(13), "2026-07-01T12:30", True),
        (time(12), time(13), "2026-07-01T13:00", False),
        (time(12), time(12), "2026-07-01T12:00", False),
        (None, time(12), "2026-07-01T11:00", False),
    ],
)
def test_quiet_hours_are_in_the_persons_zone(start, end, at, quiet):
    wanted = NotificationSettings(quiet_from=start, quiet_until=end, zone="Europe/Berlin")
    local = datetime.fromisoformat(at).replace(tzinfo=ZoneInfo("Europe/Berlin"))
    assert is_quiet(wanted, Action(tier="high"), local.astimezone(ZoneInfo("UTC"))) is quiet


def test_the_zone_is_the_browsers(choose, browser_of, bob):
    client = browser_of(bob)
    client.cookies["handrail-zone"] = "Europe/Berlin"
    choose(client)
    assert NotificationSettings.objects.get().zone == "Europe/Berlin"
    client.cookies["handrail-zone"] = "../../etc/passwd"
    choose(client)
    assert NotificationSettings.objects.get().zone == "UTC"


def test_private_notifications_say_and_decide_nothing(device, ask, notify, choose, bob):
    choose(device(bob), is_private="on")
    ask(PUSH)
    [message] = notify()
    told = message.payload
    assert (told["title"], told["tokens"]) == ("Needs approval", {})
    assert "push" not in told["body"]


def test_half_a_quiet_time_is_refused(browser_of, bob):
    response = browser_of(bob).post(PAGE, {"unseen_minutes": "5", "quiet_from": "22:00"})
    assert "Quiet hours need a beginning and an end." in response.content.decode()


def test_the_page_shows_what_was_saved(choose, browser_of, bob):
    client = browser_of(bob)
    choose(client, quiet_from="22:00", quiet_until="07:00", digest_at="08:15", unseen_minutes="9", only_critical="on")
    page = client.get(PAGE).content.decode()
    for value in ('value="22:00"', 'value="07:00"', 'value="08:15"', 'value="9"'):
        assert value in page


def test_devices_of_others_are_not_shown_and_not_removed(device, bob, lena):
    ours, theirs = device(bob), device(lena)
    row = PushSubscription.objects.get(user=lena)
    assert str(row.pk) not in ours.get(PAGE).content.decode()
    assert ours.post(f"{PAGE}devices/{row.pk}/remove/").status_code == 404
    assert theirs.post(f"{PAGE}devices/{row.pk}/remove/").status_code == 302
    assert [left.user for left in PushSubscription.objects.all()] == [bob]


def test_a_browser_that_changes_hands_tells_its_new_person_only(push_service, browser_of, bob, lena):
    found = push_service.subscription("shared")
    for person in (bob, lena):
        browser_of(person).post(f"{PAGE}device/", json.dumps(found), content_type="application/json")
    assert [row.user for row in PushSubscription.objects.all()] == [lena]


def test_a_test_is_sent_to_the_person(device, notify, bob):
    client = device(bob)
    client.post(f"{PAGE}test/")
    client.post(f"{PAGE}test/")  # at once again: refused
    [message] = notify()
    assert (message.payload["kind"], message.payload["title"]) == ("test", "Handrail test")
