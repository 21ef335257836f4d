"""Runs of started agents: who may start and answer them, how each turn ends, and what follows.

What the runner would do to a command's row is done by `ended`; the programs themselves are in test_real_agents.py.
"""

import json
from datetime import timedelta

import pytest

from approvals import agent_runs
from approvals.actions import gate
from approvals.agent_runs.model_relay import accounts
from approvals.agents.opencode import settings as opencode_settings
from approvals.evaluation.calls import Call
from approvals.models import Action, AgentMessage, AgentRun, Channel, Delivery
from approvals.tasks import run_schedules
from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role, Team
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token, make_token
from dashboard.problems import Problem
from workspaces import lifecycle, operations
from workspaces.models import (
    Cap,
    Command,
    Environment,
    Operation,
    Phase,
    Prices,
    Schedule,
    ScheduledRun,
    Snapshot,
    State,
    Workspace,
)
from workspaces.provisioning import agent_programs
from workspaces.services import schedules

from .steps import ANSWER, WISH, ended, follow, told, turn

# It works -------------------------------------------------------------------------------------------------------------


def test_a_task_becomes_a_command_after_a_snapshot(started, workspace, lena):
    assert (started.state, started.agent.name) == ("starting", "claude")
    follow()
    assert Operation.objects.get().kind == "snapshot"
    assert follow().state == "starting"
    Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": True, "snapshot": 2})
    run = follow()
    assert (run.state, run.before.number) == ("working", 2)
    command = Command.objects.get()
    assert command.argv[:2] == ["/opt/agents/claude-code/1.2.3/bin/claude", "-p"]
    assert command.argv[-1] == "Make it green."
    assert ["--session-id", run.native_id] == command.argv[-4:-2]
    assert "end with a short summary" in command.argv[command.argv.index("--append-system-prompt") + 1]
    assert command.by["label"] == "lena (agent)"
    assert accounts.token_of(run) not in json.dumps([command.argv, command.env])


def creation_failed(workspace, code: str):
    """The newest creation of the workspace has failed, as the runner notes it."""
    Workspace.objects.update(state=State.FAILED, reason="The runner stopped while creating it.")
    newest = Operation.objects.filter(kind="create").order_by("-created_at").first()
    if newest is None or newest.phase == Phase.SETTLED:
        newest = operations.submit("create", workspace=workspace, by=Actor.system("tests"), exclusive=True)
    Operation.objects.filter(pk=newest.pk).update(phase=Phase.SETTLED, outcome={"ok": False, "reason_code": code})


def test_a_creation_that_a_stopped_runner_cut_off_is_tried_again(started, workspace):
    for _ in range(2):
        creation_failed(workspace, "runner_stopped")
        assert follow().state == "starting"
        assert Workspace.objects.get().state == State.CREATING
    creation_failed(workspace, "runner_stopped")
    assert follow().state == "failed"
    assert Operation.objects.filter(kind="create").count() == 3


def test_a_creation_that_failed_by_itself_is_not_tried_again(started, workspace):
    creation_failed(workspace, "source")
    assert follow().state == "failed"
    assert Operation.objects.filter(kind="create").count() == 1


def test_the_answer_of_a_run_is_stored_and_its_starter_notified(working, lena):
    run = ended(working, {"type": "system", "session_id": working.native_id}, ANSWER)
    assert (run.state, run.summary, run.untold) == ("done", "It is green.", "")
    assert told(run) == [("task", "answered")]
    verbs = Event.objects.filter(verb__startswith="agent_run.").order_by("seq").values_list("verb", flat=True)
    assert list(verbs) == ["agent_run.asked", "agent_run.turn_started", "agent_run.turn_ended"]


def test_a_message_that_no_call_delivered_is_the_next_turn(working, lena):
    agent_runs.send_text(working, "Also the docs.", caller=caller_of(lena))
    assert AgentMessage.objects.get().session == working.native_id
    run = ended(working, ANSWER)
    assert (run.state, told(run)) == ("starting", [("task", "answered"), ("message", "")])
    assert turn(run).prompt == "Also the docs."
    assert AgentMessage.objects.get().given_by == "turn"


def test_messages_of_several_people_are_signed(working, lena, alice):
    agent_runs.send_text(working, "Also the docs.", caller=caller_of(lena))
    agent_runs.send_text(working, "And the tests.", caller=caller_of(alice))
    assert turn(ended(working, ANSWER)).prompt == "lena: Also the docs.\n\nalice: And the tests."


def test_a_message_that_a_call_delivered_is_not_said_twice(working, lena):
    agent_runs.send_text(working, "Also the docs.", caller=caller_of(lena))
    AgentMessage.objects.update(given_at=clock.now(), given_by="hook")
    assert ended(working, ANSWER).state == "done"


def test_a_run_is_sent_back_with_a_message_and_accepted_later(working, lena):
    ended(working, ANSWER)
    agent_runs.send_text(working, "The tests are missing.", caller=caller_of(lena))
    run = follow()
    assert (run.state, turn(run).prompt) == ("working", "The tests are missing.")
    run = ended(run, ANSWER)
    agent_runs.accept(run, caller=caller_of(lena))
    run.refresh_from_db()
    assert run.state == "accepted"
    for again in (agent_runs.accept, agent_runs.discard, agent_runs.go_on, agent_runs.stop):
        with pytest.raises(Problem):
            again(run, caller=caller_of(lena))
    with pytest.raises(Problem, match="over"):
        agent_runs.send_text(run, "One more.", caller=caller_of(lena))


def test_discarding_restores_the_files_from_before(working, lena):
    run = ended(working, ANSWER)
    operation = agent_runs.discard(run, caller=caller_of(lena))
    assert (operation.kind, operation.args["number"]) == ("restore", 2)
    run.refresh_from_db()
    assert run.state == "discarded"


def snapshot_of(workspace, number: int) -> Snapshot:
    found = workspace.snapshots.filter(number=number).first()
    if found is None:
        found = workspace.snapshots.first()
        found.pk, found.number = None, number
        found.save(force_insert=True)
    return found


@pytest.mark.parametrize("way", ["discard", "accept with a branch", "restore", "reset"])
@pytest.mark.parametrize("second", ["starting", "working"])
def test_the_work_of_an_active_run_cannot_be_discarded_or_accepted(working, workspace, lena, way, second):
    caller = caller_of(lena)
    first = ended(working, ANSWER)
    first.before = snapshot_of(workspace, 2)
    first.save()
    agent_runs.start(workspace, WISH, caller=caller)
    began = snapshot_of(workspace, 3)
    AgentRun.objects.exclude(pk=first.pk).update(state=second, before=began)
    Workspace.objects.filter(pk=workspace.pk).update(baseline=first.before)
    workspace.refresh_from_db()
    ways = {
        "discard": lambda: agent_runs.discard(first, {"later": True}, caller=caller),
        "accept with a branch": lambda: agent_runs.accept(first, {"branch": "x"}, caller=caller),
        "restore": lambda: lifecycle.restore(workspace, 2, by=caller.actor),
        "reset": lambda: lifecycle.reset(workspace, by=caller.actor),
    }
    with pytest.raises(Problem) as refused:
        ways[way]()
    assert (refused.value.status, "works in repo-task-1" in refused.value.detail) == (409, True)
    first.refresh_from_db()
    assert first.state == "done"
    assert not Operation.objects.filter(kind__in=("restore", "push")).exists()


def test_what_a_working_agent_did_itself_can_be_restored(working, workspace, lena):
    AgentRun.objects.update(before=snapshot_of(workspace, 2))
    snapshot_of(workspace, 3)
    assert lifecycle.restore(workspace, 3, by=caller_of(lena).actor).kind == "restore"
    assert lifecycle.restore(workspace, 2, by=caller_of(lena).actor, paths=["a.txt"]).kind == "restore"


@pytest.mark.parametrize("fate", ["accepted", "done"])
def test_work_of_later_runs_is_taken_away_only_if_somebody_says_so(working, workspace, lena, browser_of, fate):
    caller = caller_of(lena)
    first = ended(working, ANSWER)
    first.before = snapshot_of(workspace, 2)
    first.save()
    agent_runs.start(workspace, WISH | {"task": "Paint it."}, caller=caller)
    follow()
    Operation.objects.filter(kind="snapshot", phase=Phase.DUE).update(
        phase=Phase.SETTLED, outcome={"ok": True, "snapshot": 2}
    )
    second = ended(follow(), ANSWER)
    if fate == "accepted":
        agent_runs.accept(second, caller=caller)
    with pytest.raises(Problem) as refused:
        agent_runs.discard(first, caller=caller)
    assert (refused.value.status, refused.value.extra["code"]) == (409, "later_runs")
    assert "“Paint it.”" in refused.value.detail
    browser = browser_of(lena)
    shown = browser.get(f"/agent-runs/{first.pk}/").text
    assert "A later run has worked on these files. What it did is taken away too:" in shown
    browser.post(f"/agent-runs/{first.pk}/discard/")
    first.refresh_from_db()
    assert first.state == "done"
    browser.post(f"/agent-runs/{first.pk}/discard/", {"later": str(second.pk)})
    assert [run.state for run in AgentRun.objects.all()] == ["discarded", "discarded"]
    assert Operation.objects.get(kind="restore").args["number"] == 2


def test_a_run_without_a_restorable_snapshot_cannot_be_discarded(working, lena):
    run = ended(working, ANSWER)
    AgentRun.objects.update(before=None)
    with pytest.raises(Problem, match="no snapshot"):
        agent_runs.discard(AgentRun.objects.get(), caller=caller_of(lena))
    run.refresh_from_db()
    assert run.state == "done"


# How a turn ends ------------------------------------------------------------------------------------------------------


def test_a_program_that_ends_without_an_answer_goes_on_three_times_at_most(working):
    run = working
    for number in (1, 2):
        run = ended(run, exit_status=137)
        assert (run.state, run.turns.count()) == ("starting", number + 1)
        run = follow()
    run = ended(run, exit_status=137)
    assert (run.state, [end for _, end in told(run)]) == ("failed", ["crashed"] * 3)


def test_the_last_line_of_a_crashed_program_is_in_the_result(working):
    session = {"type": "system", "session_id": "s-1"}
    run = ended(working, session, "Traceback (most recent call last):", "ModuleNotFoundError: json", "", exit_status=1)
    assert run.reason.endswith("ModuleNotFoundError: json")


def test_an_answer_between_counts_the_tries_anew(working, lena):
    run = ended(working, exit_status=1)
    run = follow()
    run = ended(run, ANSWER)
    assert (run.state, run.tries) == ("done", 0)


@pytest.mark.parametrize(
    ("outcome", "state", "end"),
    [
        ({"ok": False, "reason": "Lost.", "reason_code": "lost", "phase": Phase.UNCERTAIN}, "starting", "lost"),
        ({"ok": False, "reason": "Unknown.", "reason_code": "forgotten"}, "starting", "lost"),
        ({"ok": False, "reason": "Killed with its workspace.", "reason_code": "killed"}, "interrupted", "ended"),
        ({"ok": False, "reason": "No such file.", "reason_code": "not_started"}, "starting", "crashed"),
    ],
)
def test_the_end_of_a_turn_decides_the_next_state(working, outcome, state, end):
    run = ended(working, exit_status=None, **outcome)
    assert (run.state, told(run)[0]) == (state, ("task", end))


@pytest.mark.parametrize("kind", [*lifecycle.ENDS_ON_REQUEST])
@pytest.mark.parametrize("how", [{"exit_status": 130}, {"exit_status": 143}, {"exit_status": 1}, {"signal": 15}])
def test_a_workspace_that_somebody_ended_stays_so(working, kind, how):
    """The program may exit by itself on the signal that it gets before it is killed."""
    command = turn(working).command
    Command.objects.filter(pk=command.pk).update(started_at=clock.now())
    operations.submit(kind, workspace=working.workspace, by=Actor.system("tests"))
    run = ended(working, **{"exit_status": None} | how)
    assert (run.state, told(run)) == ("interrupted", [("task", "ended")])
    assert run.reason == f"repo-task-1 was {lifecycle.ENDS_ON_REQUEST[kind]}."
    follow()
    assert not Operation.objects.filter(kind="resume").exists()


def test_a_stop_that_was_refused_or_followed_by_a_resume_ended_nothing(working):
    by = Actor.system("tests")
    refused = operations.submit("stop", workspace=working.workspace, by=by)
    Operation.objects.filter(pk=refused.pk).update(phase=Phase.SETTLED, outcome={"ok": False, "reason": "In use."})
    operations.submit("pause", workspace=working.workspace, by=by)
    operations.submit("resume", workspace=working.workspace, by=by)
    run = ended(working, exit_status=1)
    assert (run.state, told(run)) == ("starting", [("task", "crashed"), ("go_on", "")])


def test_a_run_whose_workspace_is_stopped_before_it_begins_does_not_resume_it(started, workspace, lena):
    operations.submit("stop", workspace=workspace, by=Actor.system("tests"))
    Workspace.objects.filter(pk=workspace.pk).update(state="stopped")
    run = follow()
    assert (run.state, run.reason) == ("interrupted", "repo-task-1 was stopped before it began.")
    assert not Operation.objects.filter(kind="resume").exists()
    agent_runs.go_on(run, caller=caller_of(lena))
    follow()
    assert Operation.objects.filter(kind="resume", workspace=workspace).count() == 1


def test_words_that_wait_when_a_workspace_is_stopped_are_not_lost(working, lena):
    agent_runs.interrupt(working, "Do other things.", caller=caller_of(lena))
    operations.submit("stop", workspace=working.workspace, by=Actor.system("tests"))
    run = ended(working, exit_status=143)
    assert (run.state, told(run)) == ("stopped", [("task", "stopped")])
    agent_runs.go_on(run, caller=caller_of(lena))
    assert (turn(run).kind, turn(run).prompt) == ("message", "Do other things.")


def test_a_stopped_team_starts_no_further_turn(working, lena):
    agent_runs.interrupt(working, "Do other things.", caller=caller_of(lena))
    Team.objects.filter(pk=working.team_id).update(stopped_at=clock.now())
    run = ended(working, exit_status=143)
    assert (run.state, told(run)) == ("stopped", [("task", "stopped")])


def test_an_error_of_the_model_provider_is_shown(working):
    error = {"type": "result", "is_error": True, "result": "API Error: 401 invalid key"}
    run = ended(working, error, exit_status=1)
    assert (run.state, run.reason) == ("failed", "API Error: 401 invalid key")


def test_a_session_that_the_program_does_not_know_begins_anew(working):
    before = working.native_id
    lost = {"type": "result", "is_error": True, "errors": [f"No conversation found with session ID: {before}"]}
    run = ended(working, lost, exit_status=1)
    assert run.state == "starting"
    assert run.native_id not in ("", before)
    run = follow()
    argv = turn(run).command.argv
    assert "--session-id" in argv
    assert argv[-1].startswith("Make it green.")


def test_a_met_budget_asks_and_goes_on_with_more(working, lena):
    AgentRun.objects.update(budget_met="1,000 tokens")
    run = ended(working, {"type": "result", "is_error": True, "result": "403"}, exit_status=1)
    assert (run.state, run.reason) == ("asks", "Its budget is met: 1,000 tokens.")
    with pytest.raises(Problem) as refused:
        agent_runs.extend_budget(run, {}, caller=caller_of(lena))
    assert refused.value.extra["field"] == "budget_minutes"
    agent_runs.extend_budget(run, {"budget_tokens": 5000}, caller=caller_of(lena))
    run = follow()
    assert (run.state, run.budget_tokens, run.budget_met, told(run)[-1]) == ("working", 5000, "", ("go_on", ""))


def test_minutes_count_work_and_not_waiting(working, lena):
    began = clock.now() - timedelta(minutes=20)
    AgentRun.objects.update(budget_minutes=15, budget_from=began)
    run = AgentRun.objects.get()
    assert accounts.minutes_are_over(run)
    about = {"team": run.team, "agent": run.agent, "workspace": run.workspace, "session": run.native_id}
    about |= {"mode": "gate", "tool": "Bash", "title": "x", "tier": "high", "undo": "no", "digest": ""}
    asked = {"created_at": began + timedelta(minutes=1), "expires_at": clock.now()}
    Action.objects.create(**about, **asked, number=1, call_hash="1", decided_at=began + timedelta(minutes=9))
    Action.objects.create(
        **about, **asked, number=2, call_hash="2", decided_at=began + timedelta(minutes=5)
    )  # at the same time
    assert not accounts.minutes_are_over(run)
    AgentRun.objects.update(budget_minutes=11)
    assert follow().budget_met == "11 minutes"


def test_a_call_of_a_run_waits_for_a_day(working, agent, workspace):
    ask = {"tool": "Bash", "arguments": {"command": "git push --force origin main"}, "session": working.native_id}
    caller = caller_by_token(find_token(make_token(workspace.team, agent=agent)))
    action, _ = gate.submit(Call(**ask, workspace=workspace, mode="gate"), caller=caller)
    assert action.expires_at - action.created_at > timedelta(hours=23)
    ended(working, ANSWER)
    later, _ = gate.submit(Call(**ask | {"session": "of a person"}, workspace=workspace, mode="gate"), caller=caller)
    assert later.expires_at - later.created_at < timedelta(hours=1)


def test_a_person_interrupts_with_words_or_stops(working, lena):
    caller = caller_of(lena)
    agent_runs.interrupt(working, "Not like this.", caller=caller)
    assert turn(working).command.cancelled_at
    run = ended(working, exit_status=143)
    assert (told(run), turn(run).prompt) == ([("task", "stopped"), ("message", "")], "Not like this.")
    run = follow()
    agent_runs.send_text(run, "And hurry.", caller=caller)
    agent_runs.stop(run, caller=caller)
    run = ended(run, exit_status=143)
    assert (run.state, told(run)[-1]) == ("stopped", ("message", "stopped"))
    agent_runs.go_on(run, caller=caller)
    assert follow().state == "working"


def test_a_run_that_has_not_begun_is_stopped_at_once(started, lena):
    agent_runs.stop(started, caller=caller_of(lena))
    run = follow()
    assert (run.state, told(run)) == ("stopped", [("task", "stopped")])


# Who may --------------------------------------------------------------------------------------------------------------


def test_only_leads_start_and_answer(workspace, lena, bob, vera, agent_token, api, token_of):
    for person in (bob, vera):
        with pytest.raises(Problem) as refused:
            agent_runs.start(workspace, WISH, caller=caller_of(person))
        assert refused.value.status == 403
    run = agent_runs.start(workspace, WISH, caller=caller_of(lena))
    for person in (bob, vera):
        for answer in (agent_runs.stop, agent_runs.accept, agent_runs.go_on, agent_runs.discard):
            with pytest.raises(Problem) as refused:
                answer(run, caller=caller_of(person))
            assert refused.value.status == 403
    body = WISH | {"workspace": workspace.key}
    answer = api(agent_token).post("/api/v1/agent-runs", body, content_type="application/json")
    assert answer.status_code == 403


def test_a_starter_who_may_no_longer_starts_nothing(started, lena):
    Membership.objects.filter(user=lena).update(role=Role.VIEWER)
    run = follow()
    assert (run.state, run.reason) == ("failed", "lena may no longer start agents in this team.")


def test_a_workspace_has_one_run_at_a_time(started, workspace, lena):
    with pytest.raises(Problem, match="works in repo-task-1 already"):
        agent_runs.start(workspace, WISH, caller=caller_of(lena))
    assert AgentRun.objects.count() == 1


# What is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({"task": "  "}, "task"),
        ({"task": "x" * 50_001}, "task"),
        ({"program": "emacs"}, "program"),
        ({"model": "gpt-5"}, "model"),
        ({"model": "claude-*"}, "model"),
        ({"model": "--help"}, "model"),
        ({"ticket_url": "javascript:alert(1)"}, "ticket_url"),
        ({"ticket_url": "https://x/\u202e"}, "ticket_url"),
        ({"budget_minutes": 10**6}, "budget_minutes"),
        ({"budget_tokens": 5}, "budget_tokens"),
        ({"budget_cost": 1}, "budget_cost"),  # the team has no prices
    ],
)
def test_an_invalid_field_is_named(workspace, lena, wish, field):
    with pytest.raises(Problem) as refused:
        agent_runs.start(workspace, WISH | wish, caller=caller_of(lena))
    assert (refused.value.status, refused.value.extra["field"]) == (422, field)
    assert not AgentRun.objects.exists()


def test_a_cost_is_a_budget_once_the_team_has_prices(workspace, lena, team):
    Prices.objects.create(team=team, input_mtok=3, output_mtok=15)
    run = agent_runs.start(workspace, WISH | {"budget_cost": "2.5"}, caller=caller_of(lena))
    assert str(run.budget_cost) == "2.5"


def test_a_program_that_is_not_installed_is_named(workspace, lena):
    environment = workspace.environment
    environment.agent_programs = ["claude-code@9.9.9"]
    with pytest.raises(Problem, match=r"manage\.py agents install claude-code@9\.9\.9"):
        agent_programs.require(environment, "claude-code")
    environment.driver = "microvm"
    with pytest.raises(Problem, match="sandbox and docker, not of microvm"):
        agent_programs.require(environment, "claude-code")


def test_without_models_or_a_key_of_its_own_it_does_not_start(workspace, lena):
    Environment.objects.update(model_access={})
    workspace.environment.refresh_from_db()
    with pytest.raises(Problem, match="gives claude-code no models"):
        agent_runs.start(workspace, WISH | {"model": "claude-x"}, caller=caller_of(lena))
    Environment.objects.update(secrets={"agent": ["CLAUDE_CODE_OAUTH_TOKEN"]})
    workspace.environment.refresh_from_db()
    run = agent_runs.start(workspace, WISH | {"model": "claude-x"}, caller=caller_of(lena))
    follow()
    Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": False})
    assert follow().before is None
    assert "ANTHROPIC_BASE_URL" not in turn(run).command.env


# Schedules ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def nightly(workspace, team, lena):
    wish = {"name": "nightly", "cron": "0 3 * * *", "kind": "agent", "workspace": "repo-task-1"} | WISH
    return schedules.add(team, wish | {"budget_minutes": 30, "budget_tokens": 9000}, caller=caller_of(lena))


def test_a_schedule_starts_an_agent_and_ends_with_it(nightly, lena):
    schedules.run_now(nightly, caller=caller_of(lena))
    run = AgentRun.objects.get()
    assert (run.budget_minutes, run.budget_tokens, run.scheduled.state) == (30, 9000, "running")
    follow()
    Operation.objects.filter(kind="snapshot").update(phase=Phase.SETTLED, outcome={"ok": True, "snapshot": 2})
    follow()
    run_schedules()
    assert ScheduledRun.objects.get().state == "running"
    ended(AgentRun.objects.get(), ANSWER)
    run_schedules()
    assert ScheduledRun.objects.get().state == "passed"


def test_a_schedule_in_a_new_workspace_waits_for_it(nightly, team, lena):
    schedules.change(nightly, {"workspace": "", "environment": "default"}, caller=caller_of(lena))
    schedules.run_now(nightly, caller=caller_of(lena))
    made = Workspace.objects.get(key__startswith="nightly-")
    assert follow().state == "starting"
    Workspace.objects.filter(pk=made.pk).update(state=State.READY)
    follow()
    assert Operation.objects.get(workspace=made, kind="snapshot")


def test_a_schedule_whose_workspace_is_busy_says_so(nightly, started, lena):
    schedules.run_now(nightly, caller=caller_of(lena))
    found = ScheduledRun.objects.get()
    assert (found.state, found.reason.startswith("An agent works in repo-task-1")) == ("not_started", True)


def test_stopping_a_scheduled_run_stops_its_agent(nightly, lena):
    found = schedules.run_now(nightly, caller=caller_of(lena))
    schedules.stop(found, caller=caller_of(lena))
    assert follow().state == "stopped"
    run_schedules()
    assert ScheduledRun.objects.get().state == "stopped"


def test_a_schedule_names_what_is_wrong_with_its_agent(workspace, team, lena):
    wish = {"name": "x", "cron": "0 3 * * *", "kind": "agent", "workspace": "repo-task-1"} | WISH
    for wrong, field in (({"task": ""}, "task"), ({"model": "gpt-5"}, "model"), ({"program": "x"}, "program")):
        with pytest.raises(Problem) as refused:
            schedules.add(team, wish | wrong, caller=caller_of(lena))
        assert refused.value.extra["field"] == field
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("lines", "said"),
    [((ANSWER,), "is done. Look at its work"), (({"type": "result", "is_error": True, "result": "401"},), "failed")],
)
def test_the_notification_of_a_run_says_nothing_of_its_task(working, lena, lines, said):
    Channel.objects.create(user=lena, value=b"", label="ntfy", created_at=clock.now())
    ended(working, *lines)
    text = Delivery.objects.get().text
    assert text.endswith(said)
    assert "green" not in text


def test_a_run_that_a_limit_of_its_team_stopped_goes_on_once_that_is_lifted(working, lena, browser_of):
    cap = Cap.objects.create(team=working.team, measure="agent_tokens", limit=1)
    met = "the team's monthly limit of 1 tokens of started agents"
    with pytest.raises(accounts.NotGiven) as not_given:
        accounts.reserve(working.pk, "anthropic", "claude-x", size=10, output=100)
    assert (not_given.value.status, met in str(not_given.value)) == (403, True)
    asks = ended(working, exit_status=1)
    assert (asks.state, asks.reason) == ("asks", f"Its budget is met: {met}.")
    page = f"/agent-runs/{asks.pk}/"
    assert "A limit of the team is met, not one of this run." in browser_of(lena).get(page).text

    with pytest.raises(Problem) as refused:
        agent_runs.extend_budget(asks, {}, caller=caller_of(lena))
    assert refused.value.status == 409
    browser_of(lena).post("/measures/limits/lift/", {"team": working.team.slug, "measure": cap.measure})
    browser_of(lena).post(f"{page}budget/", {"team_limit": "lifted"})
    again = follow()
    assert (again.state, again.budget_met, again.met_limit) == ("working", "", "")
    assert accounts.reserve(working.pk, "anthropic", "claude-x", size=10, output=100)[1] == 100


def test_a_limit_of_cost_lowers_answers_and_then_refuses_them(working):
    Prices.objects.create(team=working.team, input_mtok=0, output_mtok=1000)  # a tenth of a cent for a token
    Cap.objects.create(team=working.team, measure="agent_cost", limit=250)
    ask = lambda: accounts.reserve(working.pk, "anthropic", "claude-x", size=10, output=2000)  # noqa: E731
    assert ask()[1] == 2000
    with pytest.raises(accounts.NotGiven):
        ask()
    assert AgentRun.objects.get().met_limit == "agent_cost"
    Cap.objects.update(limit=350)
    AgentRun.objects.update(budget_met="", met_limit="")
    assert ask()[1] == 1500


def test_accepted_work_becomes_a_pull_request_or_a_branch_at_once(working, lena, browser_of):
    done = ended(working, ANSWER)
    caller = caller_of(lena)
    with pytest.raises(Problem) as refused:  # it came from no repository
        agent_runs.accept(done, {"pull_request": True}, caller=caller)
    assert (refused.value.status, AgentRun.objects.get().state) == (409, "done")

    source = {"git": "https://github.com/acme/shop.git"}
    Workspace.objects.update(source=source)
    with pytest.raises(Problem) as refused:
        agent_runs.accept(agent_runs.find(caller, done.pk), {"branch": "a..b"}, caller=caller)
    assert (refused.value.status, AgentRun.objects.get().state) == (422, "done")
    assert "Accept and open a pull request" in browser_of(lena).get(f"/agent-runs/{done.pk}/").text
    browser_of(lena).post(f"/agent-runs/{done.pk}/accept/", {"pull_request": "yes"})
    assert (AgentRun.objects.get().state, Operation.objects.filter(kind="pull_request").count()) == ("done", 0)
    shown = {"sha": "ab" * 20, "seen": "cd" * 32}
    browser_of(lena).post(f"/agent-runs/{done.pk}/accept/", {"pull_request": "yes", **shown})
    assert AgentRun.objects.get().state == "accepted"
    asked = Operation.objects.get(kind="pull_request")
    assert asked.args["branch"] == f"handrail/{done.workspace.key}"
    assert {name: asked.args[name] for name in shown} == shown


def test_opencode_is_configured_only_where_an_environment_names_it(workspace):
    assert opencode_settings.system_files(workspace) == {}
    workspace.environment.agent_programs = ["opencode@1.2.3"]
    files = opencode_settings.system_files(workspace)
    settings = json.loads(files["opencode/opencode.json"])
    assert settings["permission"] == {"*": "ask"}
    assert settings["plugin"] == ["file:///etc/opencode/handrail.js"]
    assert {"opencode/handrail.js", "opencode/handrail_hook.py", "handrail-acp/__main__.py"} <= set(files)
