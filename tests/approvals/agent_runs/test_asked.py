"""What a started agent's turn asked ends with the turn: its card is cancelled with the reason, and nothing uses it."""

import pytest
from asgiref.sync import async_to_sync

from approvals import agent_runs
from approvals.actions import gate, interrupts
from approvals.actions.answer import Answer
from approvals.evaluation.calls import Call
from approvals.models import Action, AgentSession
from dashboard.database import clock
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token, make_token
from dashboard.problems import Problem
from workspaces.models import Command
from workspaces.services import commands

from .steps import ANSWER, ended, follow, turn


@pytest.fixture
def caller(agent, team):
    return caller_by_token(find_token(make_token(team, agent=agent)))


def ask(working, caller, session=None, command="git push --force origin main") -> Action:
    session = working.native_id if session is None else session
    call = Call(tool="Bash", arguments={"command": command}, session=session, workspace=working.workspace, mode="gate")
    return gate.submit(call, caller=caller)[0]


def state_of(action: Action) -> tuple[str, str, str]:
    action.refresh_from_db()
    return action.status, action.end_code, (action.result or {}).get("note", "")


WAYS = {
    "interrupt": lambda run, lena: agent_runs.interrupt(run, "Not like this.", caller=caller_of(lena)),
    "stop": lambda run, lena: agent_runs.stop(run, caller=caller_of(lena)),
}
NOTES = {"interrupt": "lena interrupted the agent: “Not like this.”", "stop": "lena stopped the agent."}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("approved", [False, True])
def test_a_person_who_ends_a_turn_cancels_what_it_asked_at_once(working, lena, caller, way, approved):
    action = ask(working, caller)
    if approved:
        gate.decide(action, Answer("approve", action.digest), caller=caller_of(lena))
    WAYS[way](working, lena)
    assert state_of(action) == ("cancelled", "interrupted", NOTES[way])
    with pytest.raises(Problem) as refused:
        async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=caller)
    assert refused.value.status == 409


@pytest.mark.parametrize("way", WAYS)
def test_a_turn_that_a_person_ended_asks_and_runs_nothing_more(working, lena, caller, way):
    WAYS[way](working, lena)
    for command in ("git push --force origin main", "ls"):
        with pytest.raises(Problem) as refused:
            ask(working, caller, command=command)
        assert (refused.value.status, refused.value.extra["code"]) == (409, interrupts.CODE)
    assert ask(working, caller, session="a person's own").status == "pending"


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"exit_status": 1}, ""),
        ({"exit_status": None, "signal": 9}, ""),
        ({"exit_status": None, "ok": False, "reason": "Killed with it.", "reason_code": "killed"}, "Killed with it."),
        ({"exit_status": None, "ok": False, "reason": "Unknown.", "reason_code": "forgotten"}, "Unknown."),
    ],
)
def test_the_end_of_a_turn_ends_its_open_calls(working, caller, how, why):
    action, other = ask(working, caller), ask(working, caller, session="a person's own")
    ended(working, **how)
    status, code, note = state_of(action)
    assert (status, code, note.startswith("The agent's turn ended: "), why in note) == (
        "cancelled", "abandoned", True, True,
    )  # fmt: skip
    assert state_of(other)[0] == "pending"


def test_a_cancelled_command_and_a_met_budget_end_it_too(working, lena, caller):
    action = ask(working, caller)
    commands.cancel_command(turn(working).command, by=caller_of(lena).actor)
    ended(working, exit_status=143)
    assert state_of(action)[:2] == ("cancelled", "abandoned")
    agent_runs.go_on(follow(), caller=caller_of(lena))
    again = ask(follow(), caller)
    type(working).objects.update(budget_met="5 tokens")
    ended(working, exit_status=1)
    assert state_of(again)[0] == "cancelled"


def test_the_end_of_a_turn_ends_open_calls_of_sub_agents(working, caller):
    rows = {"team": working.team, "agent": working.agent, "dialect": "codex"}
    rows |= {"started_at": clock.now(), "last_at": clock.now()}
    own = AgentSession.objects.create(native_id=working.native_id, **rows)
    child = AgentSession.objects.create(native_id="child", parent=own, **rows)
    AgentSession.objects.create(native_id="grandchild", parent=child, **rows)
    type(working).objects.update(session=own)
    working.refresh_from_db()
    asked = [ask(working, caller, session=session) for session in ("child", "grandchild")]
    ended(working, exit_status=1)
    assert [state_of(action)[0] for action in asked] == ["cancelled", "cancelled"]


def test_calls_of_a_session_without_a_known_id_are_cancelled_too(working, lena, caller):
    type(working).objects.update(native_id="")
    working.refresh_from_db()
    action = ask(working, caller, session="of codex")
    agent_runs.stop(working, caller=caller_of(lena))
    assert state_of(action)[0] == "cancelled"
    with pytest.raises(Problem):
        ask(working, caller, session="of codex")


def test_a_running_call_is_uncertain_after_its_turn(working, lena, caller):
    action = ask(working, caller)
    gate.decide(action, Answer("approve", action.digest), caller=caller_of(lena))
    Action.objects.filter(pk=action.pk).update(status="running", consumed_at=clock.now())
    ended(working, ANSWER)
    assert state_of(action)[::2] == ("uncertain", "The agent's program ended before it reported an outcome.")


def test_the_next_turn_asks_as_ever(working, lena, caller):
    agent_runs.interrupt(working, "Do other things.", caller=caller_of(lena))
    ended(working, exit_status=143)
    run = follow()
    assert Command.objects.count() == 2
    assert ask(run, caller).status == "pending"
