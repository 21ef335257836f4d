"""Claude Code's hook, driven as a server drives it: held, answered in full, and never open."""

import asyncio
import json
import threading
import time

import pytest
from django.db import connection

from approvals.actions import gate
from approvals.evaluation import policies
from approvals.models import Action, Status
from dashboard.database import clock
from dashboard.models import Actor, Agent, Event
from dashboard.people.tokens import make_token
from workspaces.models import Environment, Workspace

from ..conftest import FORCE, LIST, PUSH, WIPE, before, full, send_hook

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


# It works ----------------------------------------------------------------------------------------------------------


def test_an_allowed_call_runs_at_once_with_its_own_input(hook, agent_token):
    asked = LIST | {"description": "Look round", "timeout": 120000}
    answer = full(hook(agent_token, before(asked)))
    said = answer.json["hookSpecificOutput"]
    assert answer.decision == ("allow", "Allowed by policy 1 (A-1).")
    assert said["updatedInput"] == asked
    assert "additionalContext" not in said
    action = Action.objects.get()
    assert (action.status, action.session, action.call_id) == (Status.RUNNING, "s1", "toolu_1")


def test_a_forbidden_call_is_denied_at_once_with_the_reason(hook, agent_token):
    decision, reason = full(hook(agent_token, before(WIPE))).decision
    assert decision == "deny"
    assert reason.startswith("The policy forbids this: ")
    assert reason.endswith(" Do not work around this.")


def test_an_agents_word_on_the_server_of_a_tool_opens_no_rule(hook, agent_token, team):
    """`mcp__a__b__c` may be `b__c` of a, or `c` of a__b."""
    policies.add(team.pk, 'low = ["mcp__a__*"]', actor=Actor.system("test"))
    for name, status in (("mcp__a__get", Status.RUNNING), ("mcp__a__b__c", Status.PENDING)):
        hook(agent_token, before({}, tool=name) | {"mcp_server": "a"})
        assert Action.objects.get(tool=name).status == status


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
    assert answer.decision == ("deny", "bob denied this: not on a Friday. Do not work around this.")


def test_the_edited_call_runs_and_the_model_reads_of_the_edit(hook, agent_token, soon, decide, bob, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30
    instead = {"command": "git push origin review", "timeout": 5000}
    soon(lambda action: decide(action, "edit", by=bob, arguments=instead))
    said = full(hook(agent_token, before(PUSH))).json["hookSpecificOutput"]
    assert (said["permissionDecision"], said["updatedInput"]) == ("allow", instead)
    assert said["additionalContext"] == "bob edited this before it ran. What ran instead: git push origin review"


def test_the_note_on_an_edit_reaches_the_model(hook, agent_token, soon, decide, bob, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30
    instead = {"command": "git push origin review"}
    soon(lambda action: decide(action, "edit", by=bob, arguments=instead, comment="main is frozen"))
    said = full(hook(agent_token, before(PUSH))).json["hookSpecificOutput"]
    assert said["additionalContext"] == (
        "bob edited this before it ran. What ran instead: git push origin review Note from bob: main is frozen."
    )


def test_the_notes_of_all_who_approved_reach_the_model(hook, agent_token, ask, decide, bob, lena):
    hook(agent_token, before(FORCE))
    action = Action.objects.get()
    decide(action, by=bob, comment="Only this once!")
    decide(action, by=lena, comment="tell me when it is done")
    said = full(hook(agent_token, before(FORCE, call_id="toolu_2"))).json["hookSpecificOutput"]
    assert said["additionalContext"] == "Note from bob: Only this once! Note from lena: tell me when it is done."


def test_the_persons_terminal_shows_the_address_of_the_card(hook, agent_token, decide, bob):
    assert "systemMessage" not in full(hook(agent_token, before(LIST))).json
    waiting = full(hook(agent_token, before(PUSH))).json
    action = Action.objects.get(status=Status.PENDING)
    card = f"http://127.0.0.1:8000/actions/{action.pk}/"
    assert waiting["systemMessage"] == f"Handrail: A-2 needs approval: {card}"
    decide(action, by=bob)
    assert hook(agent_token, before(PUSH)).json["systemMessage"] == f"Handrail: bob approved A-2: {card}"


def test_the_persons_terminal_says_that_a_call_was_edited(hook, agent_token, decide, bob):
    hook(agent_token, before(PUSH))
    decide(action := Action.objects.get(), "edit", by=bob, arguments={"command": "git push origin review"})
    said = full(hook(agent_token, before(PUSH))).json["systemMessage"]
    assert said == f"Handrail: bob edited and approved A-1: http://127.0.0.1:8000/actions/{action.pk}/"


def test_a_call_that_expires_while_it_waits_is_not_denied(hook, agent_token, soon, settings):
    settings.HANDRAIL_HOLD_SECONDS = 30

    def expire(action):
        Action.objects.filter(pk=action.pk).update(expires_at=clock.now())
        gate.sweep()

    soon(expire)
    decision, reason = full(hook(agent_token, before(PUSH))).decision
    assert decision == "deny"
    assert reason.endswith("UTC, so this did not run. This is not a denial. Ask again if you still need it.")


@pytest.mark.parametrize("tool", ["ExitPlanMode", "AskUserQuestion"])
def test_a_question_to_the_agents_own_person_is_denied_without_a_token_and_in_a_stop(
    hook, agent_token, person, bob, team, tool
):
    assert full(hook("wrong", before({}, tool=tool))).decision[0] == "deny"
    gate.stop_everything(team, caller=person(bob))
    assert full(hook(agent_token, before({}, tool=tool))).decision[0] == "deny"


# Kept answers ------------------------------------------------------------------------------------------------------

WAITING = (
    "Not approved yet (A-1). This is not a denial. Continue with other work, then make exactly the same call again; "
    "if it's approved it will run at once."
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


def test_a_denial_after_the_wait_is_delivered_with_the_next_call(hook, agent_token, decide, bob):
    hook(agent_token, before(PUSH))
    decide(Action.objects.get(), "deny", by=bob, comment="use a branch")
    assert (
        full(hook(agent_token, before(PUSH))).decision[1] == "bob denied this: use a branch. Do not work around this."
    )
    again = before(PUSH, call_id="toolu_2")
    assert full(hook(agent_token, again)).decision[1].startswith("Not approved yet (A-2).")


def test_a_kept_yes_is_used_once_and_the_next_call_asks_again(hook, agent_token, decide, bob):
    hook(agent_token, before(PUSH))
    decide(Action.objects.get(), by=bob)
    assert hook(agent_token, before(PUSH)).decision[0] == "allow"
    again = before(PUSH, call_id="toolu_2")
    assert full(hook(agent_token, again)).decision[1].startswith("Not approved yet (A-2).")


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


# Workspaces --------------------------------------------------------------------------------------------------------


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
    Workspace.objects.update(state="failed", reason="the setup failed")
    answer = full(hook(agent_token, asked, path="/hooks/claude-code?workspace=repo-1"))
    assert (answer.decision[0], Action.objects.get().status) == ("deny", Status.APPROVED)


def test_another_agent_at_work_is_told_of_once_and_refuses_it_where_one_at_a_time_may(hook, agent_token, workspace):
    other = Agent.objects.create(team=workspace.team, name="codex", owner=workspace.created_by_agent.owner)
    workspace.bound_agents.add(other)
    path, token = "/hooks/claude-code?workspace=repo-1", make_token(workspace.team, agent=other)
    hook(agent_token, before(LIST, cwd="/workspace"), path=path)

    def ask(number):
        return full(hook(token, before(LIST, cwd="/workspace", call_id=f"toolu_{number}"), path=path))

    said = ask(2).json["hookSpecificOutput"]
    assert (said["permissionDecision"], "claude is at work in repo-1 too" in said["additionalContext"]) == (
        "allow",
        True,
    )
    assert "additionalContext" not in ask(3).json["hookSpecificOutput"]
    Environment.objects.update(agents_together="one_at_a_time")
    decision, reason = ask(4).decision
    assert (decision, reason.startswith("claude is at work in repo-1, where one agent")) == ("deny", True)


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
        "This token is invalid, so nothing is allowed.",
    )
    assert Action.objects.count() == 0


def test_a_persons_token_and_a_paused_agent_are_denied(hook, token_of, bob, agent, agent_token):
    assert full(hook(token_of(bob), before(LIST))).decision[0] == "deny"
    Agent.objects.filter(pk=agent.pk).update(paused_at=clock.now())
    decision, why = full(hook(agent_token, before(LIST))).decision
    assert decision == "deny"
    assert why.startswith("Paused at ")
    assert "Your token is valid: wait until a person resumes you" in why


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


def test_a_call_is_denied_with_the_reason_while_everything_is_stopped(hook, agent_token, person, bob, team):
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
    assert (decision, reason) == ("deny", "The limit of 1 pending actions is reached. Try again later.")


def test_the_site_puts_the_wall_in_front_of_its_hooks():
    """An address below /hooks/ that does not exist is a denial, not Django's 404."""
    from dashboard import asgi

    sent = []

    async def ask():
        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/hooks/nothing", "headers": [], "query_string": b""}
        await asgi.application(scope | {"asgi": {"version": "3.0"}}, receive, send)

    asyncio.run(ask())
    assert sent[0]["status"] == 200
    assert json.loads(sent[1]["body"])["hookSpecificOutput"]["permissionDecision"] == "deny"


@pytest.mark.parametrize(
    ("cwd", "asked_for"), [("/srv/shop", "shop"), ("/srv/shop/src", "shop"), ("/srv/shopping", None), ("/", None)]
)
def test_a_token_of_no_workspace_asks_for_the_connected_folder_it_works_in(
    hook, agent_token, agent, team, cwd, asked_for
):
    environment = Environment.objects.create(team=team, name="folder-shop", driver="folder", minimum_isolation="none")
    source = {"path": "/srv/shop"}
    Workspace.objects.create(team=team, key="shop", environment=environment, source=source, created_by_agent=agent)
    hook(agent_token, before(LIST, cwd=cwd))
    assert [action.workspace and action.workspace.key for action in Action.objects.all()] == [asked_for]


# What the agent's own settings ask about ---------------------------------------------------------------------------


def own_prompt(arguments, tool="Bash", session="s1") -> dict:
    """The event of Claude Code's own question about a call; it does not tell the call's id."""
    event = {name: value for name, value in before(arguments).items() if name != "tool_use_id"}
    return event | {"hook_event_name": "PermissionRequest", "tool_name": tool, "session_id": session}


def test_what_a_person_approved_here_is_not_asked_again_at_the_terminal(hook, agent_token, soon, decide, bob):
    soon(lambda action: decide(action, "edit", by=bob, arguments=LIST))
    hook(agent_token, before(PUSH))
    permitted = {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}
    assert hook(agent_token, own_prompt(LIST)).json["hookSpecificOutput"] == permitted
    # Nothing else, not another session, and not once it has ended.
    for other in (own_prompt(PUSH), own_prompt(LIST, tool="Write"), own_prompt(LIST, session="s2")):
        assert hook(agent_token, other).json == {"continue": True}
    Action.objects.update(status=Status.SUCCEEDED)
    assert hook(agent_token, own_prompt(LIST)).json == {"continue": True}


def test_what_the_policy_allowed_by_itself_stays_a_question_of_its_users_own(hook, agent_token):
    hook(agent_token, before(LIST))
    assert hook(agent_token, own_prompt(LIST)).json == {"continue": True}
