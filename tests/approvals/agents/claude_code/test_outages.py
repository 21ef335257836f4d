"""Handrail is away, is killed, or has no answer yet: nothing runs unasked, and no answer is lost."""

import os
import signal
import threading
import time

import pytest

from approvals.hooks import open_hooks
from tests.approvals.agents.claude_code.conftest import Reviewer
from tests.approvals.agents.claude_code.model import DONE, call

ONE = {"command": "./deploy.sh one"}
MODES = ["default", "bypassPermissions"]

NEW_POLICY = """
from approvals.evaluation.judge import policies
from approvals.policy import default_policy
from dashboard.people.access import caller_of
from dashboard.models import Team
from django.contrib.auth import get_user_model
lead = caller_of(get_user_model().objects.get(username="lena"))
policies.save(default_policy("everything"), caller=lead, team=Team.objects.get(slug="main"))
"""


def bash(description: str) -> dict:
    return call("Bash", **ONE, description=description)


def kill_web(product):
    end_web(product, signal.SIGKILL)


def end_web(product, number):
    """Send the signal, and wait until another process answers."""
    before = product.part_pid("web")
    os.kill(before, number)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if product.part_pid("web") != before:
                break
        except (AssertionError, OSError):
            pass
        time.sleep(0.05)
    product.wait_for("/readyz", within=60)


@pytest.mark.parametrize("mode", MODES)
def test_nothing_runs_while_the_server_is_down(project_at, model, new_product, mode):
    away = new_product()
    project = project_at(away.url, "hr_whatever")
    model.scripts["SHIP"] = [[bash("Deploy")], DONE]
    project.run("SHIP it", mode=mode)
    assert project.ran == []
    assert "blocking" in model.results_of("SHIP")[0]["content"]


def test_a_person_who_interrupts_claude_code_takes_its_card_back(project_at, model, product, reviewer, session):
    project = project_at(product.url, reviewer.agent_token)
    model.scripts["SHIP"] = [[bash("Deploy")], DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    reviewer.settled(card, "cancelled")
    assert project.ran == []


@pytest.mark.parametrize("mode", MODES)
def test_nothing_runs_when_the_server_is_killed_while_it_waits(
    project_at, model, wired, brief, brief_reviewer, session, mode
):
    wire = wired(brief)
    project = project_at(wire.url, brief_reviewer.agent_token)
    model.scripts["SHIP"] = [[bash("Deploy")], DONE]
    running = project.start("SHIP it", session=session, mode=mode)
    brief_reviewer.card(session)
    kill_web(brief)
    project.finish(running)
    assert project.ran == []
    assert wire.before_tools()[0].answer == b""
    assert "blocking" in model.results_of("SHIP")[0]["content"]
    [kept] = brief_reviewer.cards(session)  # the card is still there, and can still be answered
    brief_reviewer.answer(kept, "deny")


def test_a_web_server_that_is_told_to_end_leaves_the_card(project_at, model, new_product, session):
    """Its connections close as an agent's would, and are not taken for it."""
    away = new_product()
    away.start()
    desk = Reviewer(away)
    project = project_at(away.url, desk.agent_token)
    model.scripts["SHIP"] = [[bash("Deploy")], [bash("Once more")], DONE]
    running = project.start("SHIP it", session=session)
    card = desk.card(session)
    end_web(away, signal.SIGTERM)
    time.sleep(open_hooks.GRACE + 1)
    [kept] = [action for action in desk.actions(session) if action["id"] == card["id"]]
    assert kept["status"] == "pending"
    desk.answer(kept, "approve")
    project.finish(running)
    assert project.ran == ["one"]


def test_an_approval_outlives_the_hold_a_restart_and_a_new_policy_and_is_used_once(
    project_at, model, wired, brief, brief_reviewer, session
):
    wire = wired(brief)
    project = project_at(wire.url, brief_reviewer.agent_token)

    def meanwhile():
        brief_reviewer.answer(brief_reviewer.card(session), "approve")
        kill_web(brief)
        brief.person_token("lena", "lead")
        brief.shell(NEW_POLICY)
        return [bash("In other words"), bash("And in others again")]

    model.scripts["SHIP"] = [[bash("Deploy")], meanwhile, DONE]
    project.run("SHIP it", session=session)
    assert project.ran == ["one"]
    first, *later = model.results_of("SHIP")
    assert "Not approved yet" in first["content"]
    assert "This is not a denial" in first["content"]
    assert [result.get("is_error", False) for result in later].count(False) == 1
    assert sorted(e.decision for e in wire.before_tools()) == ["allow", "deny", "deny"]
    first, *again = brief_reviewer.actions(session)
    assert first["status"] == "succeeded"
    for action in again:  # whether the second call became a card of its own, it did not run
        assert action["status"] == "pending"
        brief_reviewer.answer(action, "deny")


def test_an_agent_that_let_go_is_told_when_it_stops_and_makes_the_call_again(
    project_at, model, wired, brief, brief_reviewer, session
):
    wire = wired(brief)
    project = project_at(wire.url, brief_reviewer.agent_token)

    def meanwhile():
        brief_reviewer.answer(brief_reviewer.card(session), "approve")
        return DONE

    model.scripts["SHIP"] = [[bash("Deploy")], meanwhile, [bash("As I was told")], DONE]
    project.run("SHIP it", session=session)
    assert project.ran == ["one"]
    assert "has been approved. Make that call again" in model.transcript("SHIP")
    assert [e.event["hook_event_name"] for e in wire.exchanges].count("Stop") == 2
    assert [action["status"] for action in brief_reviewer.actions(session)] == ["succeeded"]


def test_an_approval_outlives_claude_code_itself(project_at, model, wired, brief, brief_reviewer, session):
    project = project_at(wired(brief).url, brief_reviewer.agent_token)
    model.scripts["SHIP"] = [[bash("Deploy")], DONE, [bash("Deploy, once more")], DONE]
    project.run("SHIP it", session=session)
    assert project.ran == []
    brief_reviewer.answer(brief_reviewer.card(session), "approve")
    project.run("Try again", resume=session)
    assert project.ran == ["one"]
    assert [action["status"] for action in brief_reviewer.actions(session)] == ["succeeded"]


def test_the_same_call_twice_at_one_instant_runs_once(brief, brief_reviewer, session):
    event = {
        "session_id": session,
        "cwd": "/repo",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_use_id": "toolu_1",
    }

    def ask(description, answers):
        body = event | {"tool_input": ONE | {"description": description}, "tool_use_id": f"toolu_{description}"}
        answers.append(brief.post("/hooks/claude-code", brief_reviewer.agent_token, body).json["hookSpecificOutput"])

    first = []
    ask("first", first)
    assert first[0]["permissionDecision"] == "deny"
    brief_reviewer.answer(brief_reviewer.card(session), "approve")
    answers = []
    threads = [threading.Thread(target=ask, args=(str(number), answers)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer["permissionDecision"] for answer in answers) == ["allow", "deny", "deny", "deny", "deny"]
    for action in brief_reviewer.actions(session)[1:]:
        brief_reviewer.answer(action, "deny")
