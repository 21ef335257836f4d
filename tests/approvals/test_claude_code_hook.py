"""Claude Code's hook, driven as a server drives it: held, answered in full, and never open."""

import asyncio
import json
import threading
import time

import pytest
from django.db import connection

from approvals import gate
from approvals.models import Action, Status
from dashboard import clock
from dashboard.models import Agent, Event
from dashboard.tokens import make_token
from workspaces.models import Environment, Workspace

from .conftest import LIST, PUSH, WIPE, before, send_hook

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 1


@pytest.fixture
def soon():
    """`soon(function)`: run it in a thread once an action waits; joined at the end."""
    threads, failures = [], []

    def start(function):
        def run():
            try:
                for _ in range(200):
                    if action := Action.objects.filter(status=Status.PENDING).first():
                        time.sleep(0.1)  # the hook is held by now
                        function(action)
                        return
                    time.sleep(0.02)
                failures.append("nothing ever waited")
            except Exception as error:  # shown by the test, which is on another thread
                failures.append(error)
            finally:
                connection.close()

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    assert failures == []


def full(answer):
    """What must hold of every answer there is."""
    assert (answer.status, len(answer.starts)) == (200, 1)
    assert answer.headers["content-type"] == "application/json"
    assert int(answer.headers["content-length"]) == len(answer.body)
    assert isinstance(json.loads(answer.body), dict)
    assert answer.json
    return answer


# It works ----------------------------------------------------------------------------------------------------------


def test_what_the_policy_allows_runs_at_once_with_its_own_input(hook, agent_token):
    asked = LIST | {"description": "Look round", "timeout": 120000}
    answer = full(hook(agent_token, before(asked)))
    said = answer.json["hookSpecificOutput"]
    assert answer.decision == ("allow", "Allowed by policy 1 (A-1).")
    assert said["updatedInput"] == asked
    assert "additionalContext" not in said
    action = Action.objects.get()
    assert (action.status, action.session, action.call_id) == (Status.RUNNING, "s1", "toolu_1")


def test_what_the_policy_forbids_is_denied_at_once_with_the_reason(hook, agent_token):
    decision, reason = full(hook(agent_token, before(WIPE))).decision
    assert decision == "deny"
    assert reason.startswith("The policy forbids this: ")
    assert reason.endswith(" Do not work around this.")


def test_a_yes_while_it_is_held_runs_it(hook, agent_token, soon, decide, bob, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30
    soon(lambda action: decide(action, by=bob))
    answer = full(hook(agent_token, before(PUSH)))
    assert answer.decision == ("allow", "Approved by bob (A-1).")
    assert answer.json["hookSpecificOutput"]["updatedInput"] == PUSH


def test_a_no_while_it_is_held_tells_the_agent_why(hook, agent_token, soon, decide, bob, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30
    soon(lambda action: decide(action, "deny", by=bob, comment="not on a Friday"))
    answer = full(hook(agent_token, before(PUSH)))
    assert answer.decision == ("deny", "bob said no: not on a Friday. Do not work around this.")


def test_an_edit_runs_instead_and_the_model_is_told(hook, agent_token, soon, decide, bob, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30
    instead = {"command": "git push origin review", "timeout": 5000}
    soon(lambda action: decide(action, "edit", by=bob, arguments=instead))
    said = full(hook(agent_token, before(PUSH))).json["hookSpecificOutput"]
    assert (said["permissionDecision"], said["updatedInput"]) == ("allow", instead)
    assert said["additionalContext"] == ("bob changed this before it ran. What ran instead: git push origin review")


def test_what_expires_while_it_is_held_is_not_a_no(hook, agent_token, soon, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30

    def expire(action):
        Action.objects.filter(pk=action.pk).update(expires_at=clock.now())
        gate.sweep()

    soon(expire)
    decision, reason = full(hook(agent_token, before(PUSH))).decision
    assert (decision, reason.endswith("UTC. This is not a no. Ask again if it still matters.")) == ("deny", True)


# Kept answers ------------------------------------------------------------------------------------------------------

WAITING = (
    "Waiting for a person (A-1). Go on with something else and make the same call again later; the answer is kept."
)


def test_after_the_hold_the_agent_hears_that_the_answer_is_kept(hook, agent_token, decide, bob):
    assert full(hook(agent_token, before(PUSH))).decision == ("deny", WAITING)
    decide(Action.objects.get(), by=bob)
    again = before(PUSH | {"description": "Share it after all"}, call_id="toolu_2")
    assert full(hook(agent_token, again)).decision[0] == "allow"
    assert (Action.objects.get().status, Action.objects.get().call_id) == (Status.RUNNING, "toolu_2")


def test_the_same_call_while_it_waits_is_the_same_card(hook, agent_token):
    for call_id in ("toolu_1", "toolu_2"):
        assert full(hook(agent_token, before(PUSH, call_id=call_id))).decision == ("deny", WAITING)
    assert Action.objects.count() == 1


def test_a_no_after_the_hold_is_heard_at_the_next_call(hook, agent_token, decide, bob):
    hook(agent_token, before(PUSH))
    decide(Action.objects.get(), "deny", by=bob, comment="use a branch")
    assert full(hook(agent_token, before(PUSH))).decision[1] == "bob said no: use a branch. Do not work around this."
    assert full(hook(agent_token, before(PUSH))).decision[1].startswith("Waiting for a person (A-2).")


def test_a_kept_yes_is_used_once_and_the_next_call_asks_again(hook, agent_token, decide, bob):
    hook(agent_token, before(PUSH))
    decide(Action.objects.get(), by=bob)
    assert hook(agent_token, before(PUSH)).decision[0] == "allow"
    assert full(hook(agent_token, before(PUSH))).decision[1].startswith("Waiting for a person (A-2).")


def test_the_same_call_of_another_session_asks_for_itself(hook, agent_token, decide, bob):
    hook(agent_token, before(PUSH))
    decide(Action.objects.get(), by=bob)
    assert full(hook(agent_token, before(PUSH, session="s2"))).decision[0] == "deny"
    assert Action.objects.filter(status=Status.PENDING).count() == 1


def test_twice_at_once_runs_once(agent_token, decide, bob, hook):
    hook(agent_token, before(PUSH))
    decide(Action.objects.get(), by=bob)

    async def both():
        calls = [send_hook(agent_token, before(PUSH, call_id=f"toolu_{n}")) for n in range(5)]
        return await asyncio.gather(*calls)

    answers = [full(answer).decision[0] for answer in asyncio.run(both())]
    assert answers.count("allow") == 1
    assert Event.objects.filter(verb="action.consumed").count() == 1


def test_a_client_that_goes_away_leaves_its_card(agent_token, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30

    async def leave():
        gone = asyncio.Event()
        asked = asyncio.ensure_future(send_hook(agent_token, before(PUSH), gone=gone))
        for _ in range(300):
            if await Action.objects.filter(status=Status.PENDING).aexists():
                break
            await asyncio.sleep(0.02)
        gone.set()
        await asyncio.wait_for(asked, 5)

    asyncio.run(leave())
    assert Action.objects.get().status == Status.PENDING


# Workspaces --------------------------------------------------------------------------------------------------------


@pytest.fixture
def workspace(team, agent):
    environment = Environment.objects.create(team=team, name="default")
    return Workspace.objects.create(
        team=team, key="repo-1", environment=environment, state="ready", created_by_agent=agent
    )


@pytest.mark.parametrize("how", ["header", "query", "token"])
def test_the_workspace_is_named_by_token_header_or_address(hook, agent, agent_token, workspace, how):
    token = make_token(agent.team, agent=agent, workspace=workspace) if how == "token" else agent_token
    path = "/hooks/claude-code?workspace=repo-1" if how == "query" else "/hooks/claude-code"
    headers = [("X-Handrail-Workspace", "repo-1")] if how == "header" else []
    answer = full(hook(token, before(LIST, cwd="/workspace"), path=path, headers=headers))
    assert (answer.decision[0], Action.objects.get().workspace) == ("allow", workspace)


def test_a_workspace_that_is_not_the_agents_is_denied(hook, other_agent_token, workspace):
    answer = full(hook(other_agent_token, before(LIST), path="/hooks/claude-code?workspace=repo-1"))
    assert (answer.decision, Action.objects.count()) == (("deny", "There is no such workspace."), 0)


def test_without_a_snapshot_first_nothing_runs_in_a_workspace(hook, agent_token, workspace, decide, bob):
    """The workspace is broken, so nothing can be saved; the answer stays."""
    asked = before(PUSH, cwd="/workspace")
    hook(agent_token, asked, path="/hooks/claude-code?workspace=repo-1")
    decide(Action.objects.get(), by=bob)
    Workspace.objects.update(state="failed", reason="the set-up failed")
    answer = full(hook(agent_token, asked, path="/hooks/claude-code?workspace=repo-1"))
    assert (answer.decision[0], Action.objects.get().status) == ("deny", Status.APPROVED)


# Afterwards --------------------------------------------------------------------------------------------------------


def after(response=None, *, call_id="toolu_1", **more):
    return before(LIST, call_id=call_id) | {
        "hook_event_name": "PostToolUse",
        "tool_response": {"stdout": "x", "stderr": "", "interrupted": False} if response is None else response,
        "duration_ms": 12,
    } | more  # fmt: skip


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (after(), "succeeded"),
        (after({"stdout": "", "interrupted": True}), "failed"),
        (after({"is_error": True}), "failed"),
        (after("plain text"), "succeeded"),
        (after(hook_event_name="PostToolUseFailure", error="exit 1"), "failed"),
        (after(call_id=""), "succeeded"),
    ],
)
def test_how_it_ended_is_recorded(hook, agent_token, event, status):
    hook(agent_token, before(LIST))
    assert full(hook(agent_token, event)).json == {"continue": True}
    assert Action.objects.get().status == status


def test_the_end_of_an_unknown_call_changes_nothing(hook, agent_token):
    hook(agent_token, before(LIST))
    assert full(hook(agent_token, after(call_id="toolu_9"))).json == {"continue": True}
    assert Action.objects.get().status == Status.RUNNING


def test_the_beginning_and_the_end_of_a_session_are_in_the_log(hook, agent_token):
    for name in ("SessionStart", "Stop"):
        event = {"hook_event_name": name, "session_id": "s1", "source": "startup", "cwd": "/home/mia"}
        assert full(hook(agent_token, event)).json == {"continue": True}
    seen = Event.objects.filter(verb__startswith="session.").order_by("seq").values_list("verb", "data")
    assert list(seen) == [
        ("session.started", {"session": "s1", "source": "startup"}),
        ("session.stopped", {"session": "s1", "source": "startup"}),
    ]


def test_an_event_nobody_knows_is_answered_in_full_and_changes_nothing(hook, agent_token):
    assert full(hook(agent_token, {"hook_event_name": "FutureThing", "x": 1})).json == {"continue": True}
    assert (Action.objects.count(), Event.objects.count()) == (0, 0)


# Never open --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b'{"hook_event_name": 5}',
        b'{"hook_event_name": "PreToolUse"}',
        b'{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": 5, "tool_input": {}}',
        b'{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": "ls"}',
        b'{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"a":1,"a":2}}',
        b'{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": {"a": "\\ud800"}}',
        b'{"hook_event_name": "PreToolUse", "session_id": "", "tool_name": "Bash", "tool_input": {"command":"ls"}}',
        b'{"hook_event_name": "PreToolUse", "session_id": "s", "cwd": 7, "tool_name": "Bash", "tool_input": {}}',
        b'{"hook_event_name": "PreToolUse", "tool_input": ' + b"[" * 50_000,
        b'{"hook_event_name": "PreToolUse", "x": "' + b"a" * 10_500_000 + b'"}',
        b'{"hook_event_name": "PreToolUse", "x": "' + b"a" * 2_000_000 + b'"}',
    ],
    ids=lambda body: repr(body[:60]),
)
def test_a_body_that_makes_no_sense_is_denied(hook, agent_token, body):
    decision, reason = full(hook(agent_token, body)).decision
    assert (decision, bool(reason), Action.objects.count()) == ("deny", True, 0)


@pytest.mark.parametrize("token", ["", "wrong", "hr_0000_x", "ü", "x" * 9000])
def test_a_wrong_or_missing_token_is_denied(hook, token):
    headers = [] if token != "ü" else [("Authorization", "Bearer ü")]
    answer = full(hook("" if headers else token, before(LIST), headers=headers))
    assert answer.decision == (
        "deny",
        "Handrail does not know this token, or its agent is paused, so nothing is allowed.",
    )
    assert Action.objects.count() == 0


def test_a_persons_token_and_a_paused_agent_are_denied(hook, token_of, bob, agent, agent_token):
    assert full(hook(token_of(bob), before(LIST))).decision[0] == "deny"
    Agent.objects.filter(pk=agent.pk).update(paused_at=clock.now())
    assert full(hook(agent_token, before(LIST))).decision[0] == "deny"


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse", "SessionStart", "Whatever"])
def test_a_wrong_token_is_denied_whatever_the_event(hook, event):
    assert full(hook("wrong", before(LIST) | {"hook_event_name": event})).decision[0] == "deny"


@pytest.mark.parametrize("more", [{"method": "GET"}, {"method": "PUT"}, {"host": "evil.example"}])
def test_what_django_refuses_before_the_view_is_denied(hook, agent_token, more):
    assert full(hook(agent_token, before(LIST), **more)).decision[0] == "deny"
    assert Action.objects.count() == 0


@pytest.mark.parametrize("path", ["/hooks/", "/hooks/claude-code/", "/hooks/nobody", "/hooks/claude-code%00"])
def test_an_address_that_does_not_exist_is_denied(hook, agent_token, path):
    assert full(hook(agent_token, before(LIST), path=path)).decision[0] == "deny"


def test_when_the_database_fails_it_is_denied(hook, agent_token, team):
    """A table that is gone stands for every error of a database."""
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE approvals_action RENAME TO away")
    try:
        decision, reason = full(hook(agent_token, before(LIST))).decision
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE away RENAME TO approvals_action")
    assert (decision, "OperationalError" in reason or "ProgrammingError" in reason) == ("deny", True)


def test_when_everything_is_stopped_the_agent_is_told_so(hook, agent_token, person, bob, team):
    gate.stop_everything(team, caller=person(bob))
    assert full(hook(agent_token, before(LIST))).decision == (
        "deny",
        "Stopped by a person. Do not retry. Wait until you are told to go on.",
    )


def test_a_stop_while_it_is_held_ends_the_wait(hook, agent_token, soon, person, bob, team, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30
    soon(lambda action: gate.stop_everything(team, caller=person(bob)))
    assert full(hook(agent_token, before(PUSH))).decision[1].startswith("Stopped by a person.")


def test_when_too_many_wait_it_is_denied(hook, agent_token, settings):
    settings.HANDRAIL_PENDING_LIMIT = 1
    hook(agent_token, before(PUSH))
    decision, reason = full(hook(agent_token, before(PUSH, session="s2"))).decision
    assert (decision, reason) == ("deny", "1 actions wait for a person already. Ask again later.")


def test_the_site_puts_the_wall_in_front_of_its_hooks():
    from approvals.hooks import edge
    from dashboard import asgi

    assert asgi.application.application_mapping["http"].__qualname__ == edge.fail_closed(None).__qualname__
