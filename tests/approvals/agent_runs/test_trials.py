"""A trial of an agent's program: a run with a built-in model, and what is made of it once it has ended."""

import json
from datetime import timedelta

import pytest

from approvals import agent_runs
from approvals.actions import gate
from approvals.agent_runs import set_up, trial_model, trials
from approvals.agent_runs.model_relay import accounts
from approvals.agents import wires
from approvals.evaluation.calls import Call
from approvals.models import Action, AgentRun, AgentTrial
from approvals.policy import classify, default_policy, load_policy
from dashboard.database import clock
from dashboard.models import Event
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token, make_token
from dashboard.problems import Problem
from workspaces import extensions
from workspaces.models import Environment, Operation, Phase

from .steps import WISH, ended, follow

HELD = {"type": "result", "subtype": "success", "is_error": False, "result": trial_model.HELD}
RAN = HELD | {"result": trial_model.ENDS[False, True]}


@pytest.fixture
def environment(workspace) -> Environment:
    return workspace.environment


@pytest.fixture
def trial(environment, lena):
    return trials.start(environment, "claude-code", caller=caller_of(lena))


@pytest.fixture
def working(trial):
    """Its program runs."""
    trial.run.workspace.__class__.objects.filter(pk=trial.run.workspace_id).update(state="ready")
    follow()
    Operation.objects.filter(kind="snapshot").update(phase=Phase.SETTLED, outcome={"ok": True, "snapshot": 2})
    return follow()


def called(run: AgentRun, command: str = trial_model.SCRIPT[0]) -> Action:
    """A call of the run, as the hook submits it."""
    caller = caller_by_token(find_token(make_token(run.team, agent=run.agent)))
    call = Call(
        tool="Bash", arguments={"command": command}, session=run.native_id, workspace=run.workspace, mode="gate"
    )
    return gate.submit(call, caller=caller)[0]


def both_calls(run: AgentRun):
    called(run)
    called(run, trial_model.SCRIPT[1])


def of(run) -> AgentTrial:
    return AgentTrial.objects.get(run=run)


def test_the_gate_held_if_one_call_came_and_the_forbidden_one_did_not_run(working, team):
    both_calls(working)
    run = ended(working, HELD)
    trial = of(run)
    assert (trial.state, trial.heard, trial.denied, trial.reason) == ("held", True, True, "")
    assert Operation.objects.filter(workspace=run.workspace, kind="trash").exists()
    found = set_up.find(team, "claude-code")
    assert found.is_tried
    assert Event.objects.get(verb="agent_trial.ended").data["state"] == "held"
    run.delete()  # with its workspace, after some days: the proof stays
    assert set_up.find(team, "claude-code").is_tried


@pytest.mark.parametrize(
    ("calls", "answer", "reason"),
    [
        (None, HELD, "No call of Claude Code 1.2.3 came to the gate."),
        (called, RAN, "The forbidden call did not come to the gate. The trial is over: the forbidden call ran."),
        (both_calls, RAN, "The trial is over: the forbidden call ran."),
        (both_calls, None, "it says no more"),
    ],
)
def test_a_failed_trial_says_why(working, team, calls, answer, reason):
    if calls:
        calls(working)
    broken = {"type": "result", "is_error": True, "subtype": "it says no more"}
    trial = of(ended(working, answer or broken))
    assert (trial.state, trial.reason) == ("failed", reason)
    assert not set_up.find(team, "claude-code").is_tried


def test_another_version_has_to_be_tried_again(working, team, environment):
    both_calls(working)
    ended(working, HELD)
    Environment.objects.filter(pk=environment.pk).update(agent_programs=["claude-code@2.0.0"])
    assert not set_up.find(team, "claude-code").is_tried


def test_nobody_is_asked_and_nobody_is_told(working, browser_of, lena):
    waits = called(working, "git push --force origin main")
    assert waits.status == "pending"
    follow()
    waits.refresh_from_db()
    assert waits.status == "cancelled"
    both_calls(working)
    run = ended(working, HELD)
    assert run.untold == ""
    client = browser_of(lena)
    assert "Handrail tries its gate" not in client.get("/agent-runs/").content.decode()
    assert "Handrail tries its gate" not in client.get("/").content.decode()
    assert "Accept the work" not in client.get(f"/agent-runs/{run.pk}/").content.decode()


def test_a_trial_that_does_not_end_is_given_up(working):
    AgentTrial.objects.update(created_at=clock.now() - trials.LONGEST - timedelta(minutes=1))
    follow()
    assert working.turns.get().asked_to_end_at
    assert of(ended(working)).state == "failed"


def test_a_trial_whose_workspace_is_gone_has_failed(trial):
    AgentRun.objects.all().delete()
    follow()
    trial.refresh_from_db()
    assert (trial.state, trial.reason) == ("failed", "Its workspace was deleted before it was over.")


def test_it_is_given_no_key_and_a_run_is_given_no_built_in_model(trial, started):
    given = accounts.given_to(accounts.token_of(trial.run), "anthropic")
    assert (given.is_trial, given.key) == (True, "")
    with pytest.raises(accounts.NotGiven, match="is not set"):
        accounts.given_to(accounts.token_of(started), "anthropic")


def test_only_who_may_start_agents_may_try_one(environment, bob):
    with pytest.raises(Problem) as refused:
        trials.start(environment, "claude-code", caller=caller_of(bob))
    assert refused.value.status == 403
    assert not AgentTrial.objects.exists()


def test_a_run_beside_a_trial_is_listed(trial, workspace, lena, browser_of):
    agent_runs.start(workspace, WISH, caller=caller_of(lena))
    assert AgentRun.objects.work().count() == 1
    assert "Make it green." in browser_of(lena).get("/agent-runs/").content.decode()


# The built-in model ---------------------------------------------------------------------------------------------------


def test_every_policy_forbids_the_second_call_and_lets_the_others_run():
    policy = load_policy(default_policy())
    found = [classify("Bash", {"command": each}, policy=policy) for each in trial_model.SCRIPT]
    assert [each.tier for each in found] == ["medium", "forbidden", "low"]
    assert any(trial_model.WHY in str(reason) for reason in found[1].reasons)


SHELLS = {"anthropic": {"name": "Bash"}, "openai": {"name": "shell_command", "type": "function"}}


def _conversation(provider: str, results: list[str]) -> dict:
    """A request's body after so many calls, as the agents send it."""
    if provider == "anthropic":
        messages = [{"role": "user", "content": "Go."}]
        for result in results:
            messages.append({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Bash"}]})
            messages.append({"role": "user", "content": [{"type": "tool_result", "content": result}]})
        return {"model": "m", "messages": messages, "tools": [SHELLS[provider]]}
    items = [{"role": "user", "content": "Go."}]
    for result in results:
        items.append({"type": "function_call", "name": "shell_command", "call_id": "c"})
        items.append({"type": "function_call_output", "call_id": "c", "output": result})
    return {"model": "m", "input": items, "tools": [SHELLS[provider]]}


@pytest.mark.parametrize("provider", sorted(SHELLS))
@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("ran", [True, False])
def test_the_model_says_what_it_saw(provider, read, ran):
    path = "/v1/messages" if provider == "anthropic" else "/v1/responses"
    denial = f"Forbidden: runs mkfs, which {trial_model.WHY}" if read else "no"
    results = ["", denial, f"handrail-tried.txt {trial_model.RAN if ran else ''}"]
    for turn, command in enumerate(trial_model.SCRIPT):
        body = _conversation(provider, results[:turn])
        _, said = trial_model.answer(provider, path, body, counts=False)
        assert json.dumps(command)[1:-1] in said.decode().replace('\\"', '"')
    _, said = trial_model.answer(provider, path, _conversation(provider, results), counts=False)
    assert trial_model.ENDS[read, ran] in said.decode()


def test_each_provider_of_an_agent_has_a_built_in_model():
    assert {program.provider for program in extensions.agent_programs.values()} <= trial_model.WIRES.keys()
    assert all(isinstance(wire, wires.Wire) for wire in trial_model.WIRES.values())
