"""Pages of schedules: made and changed by a form, read by everybody in the team, answered when a run asks."""

from datetime import timedelta

import pytest

from approvals.tasks import run_schedules
from dashboard.database import clock
from dashboard.people.access import caller_of
from tests.pages.conftest import tight
from workspaces.models import Command, Environment, Operation, Phase, Schedule, ScheduledRun
from workspaces.services import schedules

FORM = {"name": "Nightly tests", "cron": "0 3 * * *", "zone": "Europe/Berlin", "catch_up": "skip", "keep": "50"}
FORM |= {"command": "make test\r\nmake lint", "check": "", "budget_minutes": ""}


@pytest.fixture
def place(team, workspace):
    Environment.objects.filter(pk=workspace.environment_id).update(checks={"tests": "make test"})
    return f"workspace:{team.pk}:{workspace.key}"


@pytest.fixture
def hourly(place, team, lena):
    wish = {"name": "hourly", "cron": "0 * * * *", "command": "make", "workspace": "repo-task-1", "budget_minutes": 5}
    return schedules.add(team, wish, caller=caller_of(lena))


@pytest.fixture
def run(hourly, lena):
    """A run by hand that began ten minutes ago, and asks."""
    made = schedules.run_now(hourly, caller=caller_of(lena))
    Command.objects.update(started_at=clock.now() - timedelta(minutes=10))
    run_schedules()
    made.refresh_from_db()
    return made


def test_a_lead_makes_one_from_the_workspace(browser_of, lena, place, read):
    client = browser_of(lena)
    assert "/schedules/new/?workspace=payments/repo-task-1" in read(client, "/w/payments/repo-task-1/checks/")
    page = read(client, "/schedules/new/?workspace=payments/repo-task-1")
    assert f'<option value="{place}" selected>' in page
    sent = client.post("/schedules/new/", FORM | {"place": place})
    made = Schedule.objects.get()
    assert sent.headers["Location"] == f"/schedules/{made.pk}/"
    assert (made.command, made.zone, made.keep, made.owner) == ("make test\nmake lint", "Europe/Berlin", 50, lena)
    page = read(client, f"/schedules/{made.pk}/")
    assert "At 03:00 every day" in page
    assert page.split('id="next"')[1].split("</ol>")[0].count("<li>") == 5
    assert "Nightly tests" in read(client, "/schedules/?workspace=repo-task-1")
    assert "Nightly tests" not in read(client, "/schedules/?workspace=another")


@pytest.mark.parametrize(
    ("often", "cron"),
    [("day", "30 4 * * *"), ("weekday", "30 4 * * 1-5"), ("week", "30 4 * * 1"), ("month", "30 4 1 * *")],
)
def test_the_times_are_chosen_in_words(browser_of, lena, place, read, often, cron):
    client = browser_of(lena)
    client.post("/schedules/new/", FORM | {"place": place, "cron": "", "often": often, "at": "04:30"})
    made = Schedule.objects.get()
    assert made.cron == cron
    form = read(client, f"/schedules/{made.pk}/edit/")
    assert f'<option value="{often}" selected>' in form
    assert 'value="04:30"' in form
    assert f'value="{cron}"' not in form


def test_a_choice_without_a_time_and_a_form_without_any_are_refused(browser_of, lena, place):
    client = browser_of(lena)
    both = {"often": "day", "at": "04:30", "cron": "0 3 * * *"}
    wrong = [({"often": "day", "at": ""}, "Give the time of day."), ({}, "Choose when above"), (both, "not both.")]
    for fields, words in wrong:
        answer = client.post("/schedules/new/", FORM | {"place": place, "cron": ""} | fields)
        assert words in answer.content.decode()
    assert not Schedule.objects.exists()


def test_a_cron_text_that_no_choice_says_stays_one(browser_of, lena, hourly, read):
    assert 'value="0 * * * *"' in read(browser_of(lena), f"/schedules/{hourly.pk}/edit/")


def test_a_check_in_a_new_workspace_each_time(browser_of, lena, place, team):
    form = FORM | {"place": f"environment:{team.pk}:default", "command": "", "check": "tests", "budget_minutes": "30"}
    browser_of(lena).post("/schedules/new/", form)
    made = Schedule.objects.get()
    assert (made.kind, made.check_name, made.environment, made.workspace) == ("check", "tests", "default", None)
    assert made.budget_minutes == 30


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cron": "99 3 * * *"}, "a time that cron knows: bad minute."),
        ({"cron": "at night"}, "Write five fields"),
        ({"zone": "Mars"}, "There is no time zone"),
        ({"command": ""}, "Give a command, the name of a check, or a task for an agent."),
        ({"check": "tests"}, "Give a command, the name of a check, or a task for an agent."),
        ({"command": "", "check": "none"}, "The environment has no check named"),
        ({"place": "workspace:1:x"}, "is not one of the available choices"),
    ],
)
def test_what_is_wrong_is_reported_at_its_field(browser_of, lena, place, wrong, said):
    page = browser_of(lena).post("/schedules/new/", FORM | {"place": place} | wrong)
    assert (page.status_code, said in page.content.decode()) == (200, True)
    assert not Schedule.objects.exists()


def test_a_schedule_is_changed_paused_and_deleted(browser_of, alice, hourly, place, read):
    client = browser_of(alice)
    assert "make" in read(client, f"/schedules/{hourly.pk}/edit/")
    client.post(f"/schedules/{hourly.pk}/edit/", FORM | {"place": place, "name": "daily"})
    hourly.refresh_from_db()
    assert (hourly.name, hourly.owner) == ("daily", alice)
    client.post(f"/schedules/{hourly.pk}/pause/")
    assert "Paused since" in read(client, f"/schedules/{hourly.pk}/")
    client.post(f"/schedules/{hourly.pk}/resume/")
    assert "Paused since" not in read(client, f"/schedules/{hourly.pk}/")
    client.post(f"/schedules/{hourly.pk}/delete/")
    assert not Schedule.objects.exists()


def test_a_reviewer_reads_and_has_no_buttons(browser_of, bob, run, read):
    client = browser_of(bob)
    for address in (f"/schedules/{run.schedule_id}/", f"/scheduled-runs/{run.pk}/", "/schedules/"):
        page = read(client, address)
        assert "hourly" in page
        assert not {"Run now", "Let it run", "New schedule", "Delete this schedule"} & set(tight(page).split(">"))
    for address in (f"/schedules/{run.schedule_id}/run/", f"/scheduled-runs/{run.pk}/stop/", "/schedules/new/"):
        assert client.post(address).status_code == 403


def test_the_desk_asks_and_a_lead_lets_it_run(browser_of, lena, run, read):
    client = browser_of(lena)
    assert "The schedule hourly asks for more minutes" in read(client, "/")
    assert "goes on until somebody stops it" in read(client, f"/scheduled-runs/{run.pk}/")
    page = client.post(f"/scheduled-runs/{run.pk}/more/", {"minutes": "0"})
    assert "greater than or equal to 1" in page.content.decode()
    client.post(f"/scheduled-runs/{run.pk}/more/", {"minutes": "20"})
    assert "asks for more minutes" not in read(client, "/")
    assert "Stop it" in read(client, f"/scheduled-runs/{run.pk}/")


def test_the_desk_shows_a_failure_until_it_passes(browser_of, lena, run, read):
    client = browser_of(lena)
    for exit_status, shown in ((1, True), (0, False)):
        Operation.objects.filter(kind="command").update(phase=Phase.SETTLED, outcome={"ok": True})
        Command.objects.update(exit_status=exit_status, ended_at=clock.now())
        run_schedules()
        assert ("The schedule hourly failed" in read(client, "/")) is shown
        if shown:
            client.post(f"/schedules/{run.schedule_id}/run/")
            Command.objects.update(started_at=clock.now())
    page = read(client, f"/scheduled-runs/{ScheduledRun.objects.first().pk}/")
    assert "0, before 1" in page


def test_run_now_leads_to_its_run(browser_of, lena, hourly, read):
    sent = browser_of(lena).post(f"/schedules/{hourly.pk}/run/")
    run = ScheduledRun.objects.get()
    assert sent.headers["Location"] == f"/scheduled-runs/{run.pk}/"
    assert "started by lena" in read(browser_of(lena), f"/scheduled-runs/{run.pk}/")
    again = browser_of(lena).post(f"/schedules/{hourly.pk}/run/", follow=True)
    assert "A run of it hasn&#x27;t ended." in again.content.decode()
