"""Schedules: when they are due, what a run does, what happens when nothing ran, and who may do what.

The queue's task is called here; what the runner would do to a command's row is done by `ended`.
"""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from approvals.models import Channel, Delivery
from approvals.tasks import run_schedules
from dashboard.database import clock
from dashboard.database.one_statement import exist
from dashboard.door.entering import STOPPED
from dashboard.models import Event, Membership, Role
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from tests.pages.conftest import make_workspace
from workspaces.host import paths
from workspaces.models import (
    Command,
    Environment,
    Operation,
    Phase,
    Schedule,
    ScheduledRun,
    State,
    Workspace,
)
from workspaces.services import schedules
from workspaces.services.schedules import cron
from workspaces.shim.recording import Recorder

NIGHT = datetime(2027, 3, 1, 3, 0, 20, tzinfo=UTC)  # a Monday, shortly after 3:00
DAY = timedelta(days=1)
NIGHTLY = {"name": "nightly", "cron": "0 3 * * *", "zone": "UTC", "command": "make test", "workspace": "repo-task-1"}


@pytest.fixture
def workspace(team, agent):
    made = make_workspace(team, agent, "repo-task-1")
    Environment.objects.filter(pk=made.environment_id).update(checks={"tests": "make test"})
    return made


@pytest.fixture
def call(api, token_of):
    """`call("POST", "/schedules", lena, {...})`: (status, JSON)"""

    def ask(method, path, person, body=None):
        client = api(person if isinstance(person, str) else token_of(person))
        how = {} if body is None else {"data": body, "content_type": "application/json"}
        answer = getattr(client, method.lower())(f"/api/v1{path}", **how)
        return answer.status_code, answer.json() if answer.content else None

    return ask


@pytest.fixture
def nightly(workspace, lena):
    """Lena's schedule, made on the day before NIGHT."""
    return made_by(lena)


def made_by(person, **wish) -> Schedule:
    with at(NIGHT - DAY):
        team = person.memberships.get().team
        return schedules.add(team, NIGHTLY | wish, caller=caller_of(person))


@contextmanager
def at(moment):
    with clock.frozen_at(moment):
        yield


def night(moment=NIGHT) -> list[tuple[str, str]]:
    """Let the queue's task run at this time; return (state, reason) of all runs, the newest first."""
    with at(moment):
        run_schedules()
    return list(ScheduledRun.objects.order_by("-due_at").values_list("state", "reason"))


def ended(command: Command, exit_status=0, *, phase=Phase.SETTLED, output=b"", started=NIGHT, seconds=60, **outcome):
    """What the runner leaves of a command."""
    outcome = {"ok": phase == Phase.SETTLED} | outcome
    Operation.objects.filter(pk=command.operation_id).update(phase=phase, outcome=outcome, settled_at=clock.now())
    Command.objects.filter(pk=command.pk).update(
        exit_status=exit_status,
        started_at=started,
        ended_at=started + timedelta(seconds=seconds),
        output_bytes=len(output),
    )
    if output:
        keep_output(command, output)


def keep_output(command: Command, output: bytes):
    folder = paths.program_of(command.workspace_id, command.operation_id)
    folder.mkdir(parents=True)
    recorder = Recorder(folder, 1 << 20)
    recorder.write(output)
    recorder.close()


def begins(command: Command, when):
    Command.objects.filter(pk=command.pk).update(started_at=when)


def verbs() -> list[str]:
    return list(Event.objects.filter(verb__startswith="schedule.").order_by("seq").values_list("verb", flat=True))


# It works -------------------------------------------------------------------------------------------------------------


def test_a_due_command_runs_as_its_maker_and_its_outcome_is_kept(nightly, lena):
    assert night(NIGHT - timedelta(minutes=1)) == []
    assert night() == [("running", "")]
    run = ScheduledRun.objects.get()
    assert (run.due_at, run.command.shown) == (NIGHT.replace(second=0), "make test")
    assert run.command.by == {"type": "person", "id": str(lena.pk), "label": "lena (schedule nightly)"}
    asked = Event.objects.get(verb="command.asked")
    assert (asked.actor_id, asked.actor_label) == (str(lena.pk), "lena (schedule nightly)")
    ended(run.command)
    assert night(NIGHT + timedelta(minutes=2)) == [("passed", "")]
    run.refresh_from_db()
    assert (run.exit_status, run.seconds) == (0, 60)
    nightly.refresh_from_db()
    assert nightly.next_due_at == NIGHT.replace(second=0) + DAY
    assert verbs() == ["schedule.added", "schedule.started", "schedule.ended"]


def test_the_queue_looks_only_when_something_can_be_done(nightly):
    def is_due(now):
        return any(exist(*schedules.due(now)))

    assert not is_due(NIGHT - timedelta(minutes=1))
    assert is_due(NIGHT)
    night()
    assert not is_due(NIGHT + timedelta(minutes=1))  # the command has not begun
    ended(ScheduledRun.objects.get().command)
    assert is_due(NIGHT + timedelta(minutes=1))


def test_a_check_runs_as_the_environment_has_it(workspace, lena):
    made_by(lena, kind="check", check="tests", command="")
    night()
    command = Command.objects.get()
    assert (command.check_name, command.shown) == ("tests", "make test")


def test_a_workspace_that_rests_comes_up_first(nightly, workspace):
    Workspace.objects.filter(pk=workspace.pk).update(state=State.STOPPED)
    assert night() == [("waiting", "")]
    assert night() == [("waiting", "")]
    operation = Operation.objects.get(kind="resume")
    Operation.objects.filter(pk=operation.pk).update(phase=Phase.SETTLED, outcome={"ok": True})
    Workspace.objects.filter(pk=workspace.pk).update(state=State.READY)
    assert night() == [("running", "")]


def test_a_workspace_that_does_not_come_up_is_named(nightly, workspace):
    Workspace.objects.filter(pk=workspace.pk).update(state=State.STOPPED)
    night()
    failed = {"ok": False, "reason": "No snapshot."}
    Operation.objects.filter(kind="resume").update(phase=Phase.SETTLED, outcome=failed)
    assert night() == [("not_started", "No snapshot.")]


def test_each_run_gets_a_new_workspace_of_the_newest_version(workspace, lena, team):
    made_by(lena, workspace="", environment="default")
    newest = Environment.objects.create(team=team, name="default", version=2)
    assert night() == [("waiting", "")]
    made = ScheduledRun.objects.get().workspace
    assert (made.environment, made.owner, made.labels) == (newest, lena, {"schedule": "nightly"})
    assert made.key.startswith("nightly-")
    Workspace.objects.filter(pk=made.pk).update(state=State.READY)
    assert night() == [("running", "")]
    ended(Command.objects.get())
    night()
    assert night(NIGHT + DAY)[0] == ("waiting", "")
    assert ScheduledRun.objects.first().workspace != made


def test_a_new_workspace_that_fails_ends_the_run(workspace, lena):
    made_by(lena, workspace="", environment="default")
    night()
    Workspace.objects.exclude(pk=workspace.pk).update(state=State.FAILED, reason="The setup failed.")
    [(state, reason)] = night()
    assert (state, reason.endswith("has failed: The setup failed.")) == ("not_started", True)


# Once, one at a time, and what is missed ------------------------------------------------------------------------------


def test_one_due_time_is_never_run_twice(nightly):
    night()
    Schedule.objects.update(next_due_at=NIGHT.replace(second=0))  # as if the clock had been moved back
    ended(Command.objects.get())
    assert night(NIGHT + timedelta(minutes=1)) == [("passed", "")]
    assert Command.objects.count() == 1


def test_a_process_killed_after_the_claim_leaves_a_run_that_starts(nightly):
    with at(NIGHT):
        ScheduledRun.objects.create(schedule=nightly, due_at=NIGHT)
    assert night(NIGHT + timedelta(minutes=1))[0] == ("running", "")
    assert Command.objects.count() == 1


def test_a_missed_run_starts_late_only_with_catch_up(nightly):
    with at(NIGHT):
        ScheduledRun.objects.create(schedule=nightly, due_at=NIGHT)
    Schedule.objects.update(next_due_at=NIGHT + DAY)
    assert night(NIGHT + timedelta(hours=5)) == [("skipped", "Handrail did not run at that time.")]


def test_a_run_waits_for_none_and_the_next_is_skipped(nightly):
    night()
    assert night(NIGHT + DAY) == [("skipped", "The run before it had not ended."), ("running", "")]
    assert Command.objects.count() == 1
    assert verbs()[-1] == "schedule.skipped"


def test_missed_times_are_skipped_by_default(nightly):
    late = NIGHT + 3 * DAY + timedelta(hours=4)
    assert night(late) == [("skipped", "Handrail did not run at that time.")]
    nightly.refresh_from_db()
    assert nightly.next_due_at == NIGHT.replace(second=0) + 4 * DAY


def test_missed_times_are_caught_up_once(workspace, lena):
    made_by(lena, catch_up="once")
    assert night(NIGHT + 3 * DAY + timedelta(hours=4)) == [("running", "")]
    assert ScheduledRun.objects.get().due_at == NIGHT.replace(second=0) + 3 * DAY


def test_a_paused_schedule_starts_nothing_and_catches_nothing_up(workspace, lena, call):
    schedule = made_by(lena, catch_up="once")
    assert call("POST", f"/schedules/{schedule.pk}/pause", lena)[1]["next"] == []
    assert night() == []
    with at(NIGHT + timedelta(hours=1)):
        assert len(call("POST", f"/schedules/{schedule.pk}/resume", lena)[1]["next"]) == 5
    assert night(NIGHT + timedelta(hours=2)) == []
    assert verbs() == ["schedule.added", "schedule.paused", "schedule.resumed"]


# How it ended ---------------------------------------------------------------------------------------------------------


def test_a_command_whose_process_was_lost_is_unclear(nightly):
    night()
    ended(Command.objects.get(), None, phase=Phase.UNCERTAIN, reason="Its process is gone.")
    assert night() == [("unclear", "Its process is gone.")]


def test_a_command_that_never_started_is_no_failure_of_it(nightly):
    night()
    Operation.objects.filter(kind="command").update(
        phase=Phase.SETTLED, outcome={"ok": False, "reason": "The workspace isn't running."}
    )
    assert night() == [("not_started", "The workspace isn't running.")]


def test_while_the_team_is_stopped_nothing_starts(nightly, team):
    type(team).objects.filter(pk=team.pk).update(stopped_at=clock.now())
    assert night() == [("not_started", STOPPED)]


def test_a_maker_who_may_no_longer_starts_nothing(nightly, lena):
    Membership.objects.filter(user=lena).update(role=Role.VIEWER)
    assert night()[0][1].startswith("lena may no longer run this in this team.")
    lena.delete()
    assert night(NIGHT + DAY)[0][1].startswith("The person who answered for this schedule is no longer here.")


def test_the_owner_is_told_of_the_first_failure_in_a_row(nightly, lena):
    Channel.objects.create(user=lena, value=b"", label="ntfy", created_at=clock.now())
    for number, (exit_status, told) in enumerate([(1, 1), (1, 1), (0, 1), (2, 2)]):
        night(NIGHT + number * DAY)
        ended(ScheduledRun.objects.first().command, exit_status)
        night(NIGHT + number * DAY + timedelta(minutes=2))
        assert Delivery.objects.filter(text="Payments: the schedule nightly failed").count() == told
    assert verbs().count("schedule.failed") == 3


def test_a_run_is_compared_with_the_one_before(nightly, lena, call):
    for number, (exit_status, output) in enumerate([(0, b"1 passed\nok\n"), (1, b"1 passed\nbroken\n")]):
        night(NIGHT + number * DAY)
        run = ScheduledRun.objects.first()
        ended(run.command, exit_status, output=output, seconds=60 + 30 * number)
        night(NIGHT + number * DAY + timedelta(minutes=2))
    compared = call("GET", f"/schedules/{nightly.pk}/runs/{run.pk}", lena)[1]["compared"]
    first = ScheduledRun.objects.last()
    about = {"run": str(first.pk), "same_exit_status": False, "same_output": False, "seconds_more": 30.0}
    assert compared == about | {"line": 2, "was": "ok", "now": "broken"}
    assert call("GET", f"/schedules/{nightly.pk}/runs/{first.pk}", lena)[1]["compared"] is None


def test_the_history_has_as_many_runs_as_are_kept(workspace, lena):
    made_by(lena, keep=2)
    for number in range(4):
        night(NIGHT + number * DAY)
        ended(ScheduledRun.objects.first().command)
        night(NIGHT + number * DAY + timedelta(minutes=2))
    assert ScheduledRun.objects.count() == 2
    assert Command.objects.count() == 4


# Budgets --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def asking(workspace, lena):
    """A run that has met its budget of ten minutes, and goes on."""
    Channel.objects.create(user=lena, value=b"", label="ntfy", created_at=clock.now())
    made_by(lena, budget_minutes=10)
    night()
    begins(Command.objects.get(), NIGHT)
    night(NIGHT + timedelta(minutes=9))
    assert ScheduledRun.objects.get().budget_asked_at is None
    night(NIGHT + timedelta(minutes=11))
    return ScheduledRun.objects.get()


def test_a_met_budget_asks_and_ends_nothing(asking):
    assert (asking.state, asking.command.cancelled_at) == ("running", None)
    assert asking.budget_asked_at == NIGHT + timedelta(minutes=11)
    assert [row.text for row in Delivery.objects.all()] == [
        "Payments: the schedule nightly needs more minutes. Let it run on, or stop it?"
    ]
    night(NIGHT + timedelta(hours=5))
    assert (verbs().count("schedule.budget_met"), Delivery.objects.count()) == (1, 1)


def test_more_minutes_and_then_it_asks_again(asking, lena, call):
    with at(NIGHT + timedelta(minutes=15)):
        at_run = f"/schedules/{asking.schedule_id}/runs/{asking.pk}"
        assert call("POST", f"{at_run}/extend", lena, {"minutes": 20})[1]["asks_since"] is None
        assert call("POST", f"{at_run}/extend", lena, {"minutes": 20})[0] == 409
    night(NIGHT + timedelta(minutes=34))
    assert verbs()[-1] == "schedule.budget_extended"
    night(NIGHT + timedelta(minutes=36))
    assert verbs()[-1] == "schedule.budget_met"


def test_a_person_stops_it(asking, lena, call):
    assert call("POST", f"/schedules/{asking.schedule_id}/runs/{asking.pk}/stop", lena)[0] == 202
    assert Command.objects.get().cancelled_at is not None
    night(NIGHT + timedelta(minutes=12))
    assert verbs().count("schedule.budget_met") == 1
    ended(Command.objects.get(), None)
    assert night(NIGHT + timedelta(minutes=13)) == [("stopped", "")]


# By hand, and who may -------------------------------------------------------------------------------------------------


def test_run_now_has_the_permissions_of_its_caller(nightly, alice, call):
    status, run = call("POST", f"/schedules/{nightly.pk}/run", alice)
    assert (status, run["state"], run["by_hand"]) == (201, "running", True)
    assert Command.objects.get().by["label"] == "alice (schedule nightly)"
    assert call("POST", f"/schedules/{nightly.pk}/run", alice)[0] == 409
    assert call("DELETE", f"/schedules/{nightly.pk}", alice)[0] == 409


def test_a_schedule_runs_as_the_person_who_changed_it(nightly, alice, call):
    status, told = call("PATCH", f"/schedules/{nightly.pk}", alice, {"command": "make all", "budget_minutes": 5})
    assert (status, told["owner"], told["command"], told["budget_minutes"]) == (200, "alice", "make all", 5)
    assert Event.objects.get(verb="schedule.changed").data["changed"] == ["budget_minutes", "command"]
    night()
    assert Command.objects.get().by["label"] == "alice (schedule nightly)"


def test_leads_change_and_others_look(nightly, lena, bob, agent_token, mallory, call):
    for who, status in ((bob, 200), (lena, 200), (agent_token, 200), (mallory, 404)):
        assert call("GET", f"/schedules/{nightly.pk}", who)[0] == status
    for who, status in ((bob, 403), (agent_token, 403), (mallory, 404)):
        for verb in ("pause", "resume", "run"):
            assert call("POST", f"/schedules/{nightly.pk}/{verb}", who)[0] == status
        assert call("DELETE", f"/schedules/{nightly.pk}", who)[0] == status
    assert call("POST", "/schedules", bob, NIGHTLY | {"name": "own"})[0] == 403
    assert verbs() == ["schedule.added"]


def test_an_agent_sees_those_of_its_own_workspaces(nightly, team, lena, agent_token, call):
    make_workspace(team, None, "somebody-elses")
    hidden = schedules.add(team, NIGHTLY | {"name": "x", "workspace": "somebody-elses"}, caller=caller_of(lena))
    assert [row["name"] for row in call("GET", "/schedules", agent_token)[1]["schedules"]] == ["nightly"]
    assert call("GET", f"/schedules/{hidden.pk}", agent_token)[0] == 404


def test_a_schedule_is_deleted_with_its_history(nightly, lena, call):
    night()
    ended(Command.objects.get())
    night()
    assert call("DELETE", f"/schedules/{nightly.pk}", lena)[0] == 204
    assert (Schedule.objects.count(), ScheduledRun.objects.count(), Command.objects.count()) == (0, 0, 1)
    assert verbs()[-1] == "schedule.deleted"


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"name": " "}, "name"),
        ({"cron": "0 3 * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": "* * * * * *"}, "cron"),
        ({"zone": "Europe/Nowhere"}, "zone"),
        ({"zone": "../../etc/passwd"}, "zone"),
        ({"command": " "}, "command"),
        ({"command": "a\0b"}, "command"),
        ({"kind": "check", "check": "none"}, "check"),
        ({"kind": "agent"}, "program"),
        ({"workspace": "not-there"}, "workspace"),
        ({"workspace": ""}, "workspace"),
        ({"environment": "default"}, "workspace"),
        ({"budget_minutes": 10**9}, "budget_minutes"),
        ({"keep": 10**6}, "keep"),
    ],
)
def test_an_invalid_field_is_named(workspace, team, lena, wish, field):
    with pytest.raises(Problem) as refused:
        schedules.add(team, NIGHTLY | wish, caller=caller_of(lena))
    assert (refused.value.status, refused.value.extra["field"]) == (422, field)


def test_a_name_is_there_once(nightly, team, lena):
    with pytest.raises(Problem) as refused:
        schedules.add(team, NIGHTLY, caller=caller_of(lena))
    assert refused.value.status == 409


# Cron texts -----------------------------------------------------------------------------------------------------------


def test_times_are_those_of_the_zone_also_when_clocks_change():
    before = datetime(2026, 10, 23, 12, tzinfo=UTC)
    found = [f"{each:%d %H:%M}" for each in cron.times("30 2 * * *", "Europe/Berlin", before)]
    assert found == ["24 00:30", "25 00:30", "26 01:30", "27 01:30", "28 01:30"]


def test_a_time_that_the_clocks_leave_out_comes_once():
    before = datetime(2026, 3, 28, 12, tzinfo=UTC)
    found = [f"{each:%d %H:%M}" for each in cron.times("30 2 * * *", "Europe/Berlin", before, 2)]
    assert found == ["29 01:00", "30 00:30"]


def test_the_last_time_is_never_after_now():
    for second, due in ((59, 2), (60, 3), (61, 3)):
        moment = datetime(2026, 5, 1, 2, 59, tzinfo=UTC) + timedelta(seconds=second, microseconds=7)
        assert cron.latest("0 * * * *", "UTC", moment).hour == due


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 3 * * *", "At 03:00 every day"),
        ("0 9 * * 1-5", "At 09:00 on Monday through Friday"),
        ("*/5 * * * *", "Every fifth minute of every hour"),
    ],
)
def test_what_a_cron_text_says(text, words):
    assert cron.in_words(cron.check(text, "UTC")) == words
