"""Two agents in one workspace: shown and told to both, or one at a time, as its environment says."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.test import Client

from approvals.actions import gate
from approvals.models import Action
from dashboard.database import clock
from dashboard.models import Actor, Agent, Event
from dashboard.people.access import caller_by_token
from dashboard.people.tokens import find_token, make_token
from dashboard.problems import Problem
from tests.pages.conftest import LIST, PUSH, tight
from workspaces.lifecycle import agents_at_work
from workspaces.models import AgentAtWork, Environment, Operation
from workspaces.services import environments


@pytest.fixture
def second(team, alice, workspace) -> str:
    """The token of a second agent, codex, that is bound to the workspace."""
    codex = Agent.objects.create(team=team, name="codex", owner=alice)
    workspace.bound_agents.add(codex)
    return make_token(team, agent=codex)


@pytest.fixture
def rule(workspace):
    """`rule("one_at_a_time")`: what the workspace's environment says."""

    def set_to(value):
        Environment.objects.filter(pk=workspace.environment_id).update(agents_together=value)
        workspace.refresh_from_db()

    return set_to


@pytest.fixture
def call(workspace):
    """`call(token, LIST)`: the agent asks at the gate, over the API; returns (status, answer)."""

    def ask(token, arguments=LIST):
        body = {"tool": "Bash", "arguments": arguments, "workspace": workspace.key}
        headers = {"Authorization": f"Bearer {token}"}
        answer = Client().post("/api/v1/actions", body, content_type="application/json", headers=headers)
        return answer.status_code, answer.json()

    return ask


def pause_of(minutes):
    AgentAtWork.objects.update(at=clock.now() - timedelta(minutes=minutes))


# Warn ----------------------------------------------------------------------------------------------------------------


def test_people_and_both_agents_are_told(call, second, agent_token, workspace, browser_of, bob, read):
    assert workspace.environment.agents_together == "warn"
    assert call(agent_token)[1]["others_at_work"] == []
    status, answer = call(second, PUSH)
    assert (status, answer["others_at_work"]) == (201, ["claude"])
    assert call(agent_token)[1]["others_at_work"] == ["codex"]
    client = browser_of(bob)
    assert "Several agents work here: claude, codex" in read(client, "/w/payments/repo-task-1/")
    card = tight(read(client, f"/actions/{answer['id']}/"))
    assert "<dt>Also at work on these files</dt><dd>claude</dd>" in card


def test_an_idle_agent_is_not_shown(call, second, agent_token, browser_of, bob, read):
    call(agent_token)
    call(second)
    Action.objects.update(status="succeeded")
    pause_of(11)
    assert "agents work here" not in read(browser_of(bob), "/w/payments/repo-task-1/")


def test_an_agent_is_warned_once_in_ten_minutes(call, second, agent_token, workspace):
    call(agent_token)
    call(second)
    caller = caller_by_token(find_token(second))
    assert agents_at_work.warning_for(workspace, caller).startswith("claude is at work in repo-task-1 too")
    assert agents_at_work.warning_for(workspace, caller) == ""


def test_where_it_is_allowed_nothing_is_shown(call, second, agent_token, rule, browser_of, bob, read):
    rule("allow")
    call(agent_token)
    assert call(second)[1]["others_at_work"] == []
    assert "agents work here" not in read(browser_of(bob), "/w/payments/repo-task-1/")


# One at a time -------------------------------------------------------------------------------------------------------


def test_the_second_is_refused_at_the_gate_and_at_the_api(call, second, agent_token, rule, workspace):
    rule("one_at_a_time")
    assert call(agent_token)[0] == 201
    status, refused = call(second)
    assert (status, refused["code"], refused["holder"]) == (409, "agent_at_work", "claude")
    assert refused["detail"].startswith("claude is at work in repo-task-1, where one agent at a time may work.")
    headers = {"Authorization": f"Bearer {second}"}
    ran = Client().post(
        "/api/v1/workspaces/repo-task-1/commands", {"command": "true"}, content_type="application/json", headers=headers
    )
    assert (ran.status_code, ran.json()["code"]) == (409, "agent_at_work")
    assert Client().get("/api/v1/workspaces/repo-task-1", headers=headers).status_code == 200
    events = Event.objects.filter(verb="workspace.agent_refused")
    assert [(each.actor_label, each.data["holder"]) for each in events] == [("alice's codex", "claude")]


def test_the_place_is_free_after_ten_minutes_without_anything(call, second, agent_token, rule):
    rule("one_at_a_time")
    call(agent_token)
    Action.objects.update(status="succeeded")
    pause_of(9)
    assert call(second)[0] == 409
    pause_of(11)
    assert call(second)[0] == 201
    assert call(agent_token)[0] == 409


def test_what_runs_keeps_the_place(call, second, agent_token, agent, rule, workspace):
    rule("one_at_a_time")
    by = {"type": "agent", "id": str(agent.pk), "label": "claude"}
    running = Operation.objects.create(workspace=workspace, kind="command", due_at=clock.now(), by=by)
    assert call(second)[0] == 409
    Operation.objects.filter(pk=running.pk).update(phase="settled", outcome={"ok": True})
    assert call(second)[0] == 201


def test_an_approval_waits_until_the_other_has_done(ask, decide, bob, call, second, agent_token, workspace, rule):
    action = ask(PUSH, workspace=workspace)
    decide(action, by=bob)
    rule("one_at_a_time")
    pause_of(11)
    assert call(second)[0] == 201
    caller = caller_by_token(find_token(agent_token))
    with pytest.raises(Problem) as refused:
        async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=caller)
    assert refused.value.extra["code"] == "agent_at_work"
    action.refresh_from_db()
    assert action.status == "approved"


def test_people_are_never_refused(call, agent_token, rule, team, alice, workspace):
    rule("one_at_a_time")
    call(agent_token)
    headers = {"Authorization": f"Bearer {make_token(team, user=alice)}"}
    answer = Client().patch(
        "/api/v1/workspaces/repo-task-1", {"description": "Mine."}, content_type="application/json", headers=headers
    )
    assert answer.status_code == 200


# The environment -----------------------------------------------------------------------------------------------------


def test_a_version_says_it_and_another_word_is_refused(team, alice, workspace):
    by, base = Actor.person(alice), workspace.environment
    made = environments.save(team, base.name, {"agents_together": "one_at_a_time"}, base=base, by=by)
    assert (made.version, made.agents_together) == (2, "one_at_a_time")
    with pytest.raises(Problem):
        environments.save(team, base.name, {"agents_together": "never"}, base=made, by=by)
