"""Claude Code asks, a person answers, and the disk shows what ran."""

import json
import re

from approvals.agents.claude_code.settings import settings_to_copy
from dashboard import settings
from tests.approvals.agents.claude_code.model import DONE, call, say

ONE = call("Bash", command="./deploy.sh one", description="Deploy")


def test_without_handrail_the_tool_would_run(project, model):
    """The other tests would mean nothing if Claude Code refused by itself."""
    project.hooks.unlink()
    model.scripts["SHIP"] = [[ONE], DONE]
    project.run("SHIP it")
    assert project.ran == ["one"]


def test_approved_it_runs_and_its_end_is_recorded(project, model, reviewer, session, wire):
    model.scripts["SHIP"] = [[say("I deploy."), ONE], DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    assert (card["tool"], card["arguments"]["command"], card["cwd"]) == ("Bash", "./deploy.sh one", str(project.folder))
    assert project.ran == []
    reviewer.answer(card, "approve")
    project.finish(running)
    assert project.ran == ["one"]
    [action] = reviewer.actions(session)
    assert (action["status"], action["decision"]["by"]) == ("succeeded", "rita")
    # Claude Code 2.1.329 skips an http hook for SessionStart.
    told = [exchange.event["hook_event_name"] for exchange in wire.exchanges]
    assert told == ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop", "SessionEnd"]
    assert [e.decision for e in wire.before_tools()] == ["allow"]


def test_denied_it_does_not_run_and_the_model_hears_why(project, model, reviewer, session):
    model.scripts["SHIP"] = [[ONE], DONE]
    running = project.start("SHIP it", session=session)
    reviewer.answer(reviewer.card(session), "deny", comment="Not on a Friday")
    project.finish(running)
    assert project.ran == []
    [heard] = model.results_of("SHIP")
    assert heard["is_error"] is True
    assert "rita denied this: Not on a Friday. Do not work around this." in heard["content"]


def test_an_edited_call_runs_and_the_model_reads_of_the_edit(project, model, reviewer, session):
    model.scripts["SHIP"] = [[ONE], DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    reviewer.answer(card, "edit", arguments=card["arguments"] | {"command": "./deploy.sh staging"})
    project.finish(running)
    assert project.ran == ["staging"]
    assert "rita edited this before it ran. What ran instead: ./deploy.sh staging" in model.transcript("SHIP")
    [action] = reviewer.actions(session)
    assert (action["status"], action["decision"]["edited"]) == ("succeeded", True)


def test_a_failed_call_has_its_exit_status_and_output(project, model, reviewer, session):
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one; echo broken pipe; exit 3")], DONE]
    running = project.start("SHIP it", session=session)
    reviewer.answer(reviewer.card(session), "approve")
    project.finish(running)
    [action] = reviewer.actions(session)
    assert (action["status"], action["result"]["exit_status"]) == ("failed", 3)
    assert action["result"]["tail"].strip() == "broken pipe"


def test_the_note_on_an_edit_reaches_the_model(project, model, reviewer, session):
    model.scripts["SHIP"] = [[ONE], DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    edited = card["arguments"] | {"command": "./deploy.sh staging"}
    reviewer.answer(card, "edit", arguments=edited, comment="Production is frozen until Monday.")
    project.finish(running)
    assert "Note from rita: Production is frozen until Monday." in model.transcript("SHIP")


def test_a_call_that_the_users_own_settings_ask_about_is_asked_here_once(project, model, reviewer, session):
    """Claude Code would ask at its terminal after the gate's answer, and without one it would deny the call."""
    own = project.home / ".claude" / "settings.json"
    own.write_text(json.dumps({"permissions": {"allow": ["Bash"], "ask": ["Bash(./deploy.sh:*)"]}}))
    model.scripts["SHIP"] = [[ONE], DONE]
    running = project.start("SHIP it", session=session)
    reviewer.answer(reviewer.card(session), "approve")
    project.finish(running)
    assert project.ran == ["one"]


def test_two_hooks_of_one_call_have_one_card_and_one_answer(project, model, reviewer, session, product):
    """As in a folder that is connected and lies on a machine that is gated as a whole."""
    second = json.dumps(settings_to_copy()).replace(settings.HANDRAIL_PUBLIC_URL, product.url)
    (project.home / ".claude" / "settings.json").write_text(second)
    two = [ONE, call("Bash", command="./deploy.sh two")]
    model.scripts["SHIP"] = [[two[0]], [two[1]], DONE]
    running = project.start("SHIP it", session=session, mode="bypassPermissions")
    reviewer.answer(reviewer.card(session), "approve")
    reviewer.answer(reviewer.card(session), "deny")
    project.finish(running)
    assert project.ran == ["one"]
    assert [action["status"] for action in reviewer.actions(session)] == ["succeeded", "denied"]


def test_two_calls_in_one_turn_have_two_answers(project, model, reviewer, session):
    two = [ONE, call("Bash", command="./deploy.sh two")]
    model.scripts["SHIP"] = [two, DONE]
    running = project.start("SHIP it", session=session)
    answered = set()
    while len(answered) < 2:  # Claude Code may ask for both at once, or for one after the other
        for card in reviewer.cards(session):
            if card["id"] not in answered:
                word = card["arguments"]["command"].split()[1]
                reviewer.answer(card, "approve" if word == "two" else "deny", comment="Only the other one")
                answered.add(card["id"])
    project.finish(running)
    assert project.ran == ["two"]
    first, second = model.results_of("SHIP")
    assert "Only the other one" in first["content"]
    assert not second.get("is_error")


def test_a_sub_agent_is_gated_as_well(project, model, reviewer, session, wire):
    model.scripts["MAIN"] = [
        [call("Agent", description="Deploy", prompt="SUBTASK: deploy", subagent_type="general-purpose")],
        DONE,
    ]
    model.scripts["SUBTASK"] = [[call("Bash", command="./deploy.sh sub")], [say("Deployed.")]]
    running = project.start("MAIN", session=session)
    card = reviewer.card(session)
    assert card["arguments"]["command"] == "./deploy.sh sub"
    assert project.ran == []
    reviewer.answer(card, "approve")
    project.finish(running)
    assert project.ran == ["sub"]
    asked = [exchange.event for exchange in wire.before_tools() if exchange.event["tool_name"] == "Bash"]
    assert [bool(event["agent_id"]) for event in asked] == [True]


def test_a_sub_agent_that_is_denied_does_nothing(project, model, reviewer, session):
    model.scripts["MAIN"] = [
        [call("Agent", description="Deploy", prompt="SUBTASK: deploy", subagent_type="general-purpose")],
        DONE,
    ]
    model.scripts["SUBTASK"] = [[call("Bash", command="./deploy.sh sub")], [say("It was denied.")]]
    running = project.start("MAIN", session=session)
    reviewer.answer(reviewer.card(session), "deny", comment="Stay out")
    project.finish(running)
    assert project.ran == []
    assert "Stay out" in model.results_of("SUBTASK")[0]["content"]


def test_bypassing_permissions_does_not_bypass_handrail(project, model, reviewer, session):
    model.scripts["SHIP"] = [[ONE], [call("Bash", command="./deploy.sh two")], DONE]
    running = project.start("SHIP it", session=session, mode="bypassPermissions")
    reviewer.answer(reviewer.card(session), "deny", comment="No")
    reviewer.answer(reviewer.card(session), "approve")
    project.finish(running)
    assert project.ran == ["two"]


def test_a_reading_call_runs_without_a_card(project, model, reviewer, session):
    model.scripts["LOOK"] = [[call("Bash", command="pwd")], DONE]
    project.run("LOOK at it", session=session)
    assert str(project.folder) in model.results_of("LOOK")[0]["content"]
    [action] = reviewer.actions(session)
    assert (action["status"], action["tier"]) == ("succeeded", "low")
    assert re.fullmatch(r"policy \d+", action["decision"]["by"])


def test_a_file_is_written_as_it_was_edited_by_the_reviewer(project, model, reviewer, session):
    file = project.folder / "notes.txt"
    model.scripts["NOTE"] = [[call("Write", file_path=str(file), content="port = 1\n")], DONE]
    running = project.start("NOTE it", session=session)
    card = reviewer.card(session)
    assert not file.exists()
    reviewer.answer(card, "edit", arguments={"file_path": str(file), "content": "port = 2\n"})
    project.finish(running)
    assert file.read_text() == "port = 2\n"
    assert "rita edited this before it ran" in model.transcript("NOTE")


def test_a_forbidden_call_never_reaches_a_person(project, model, reviewer, session):
    model.scripts["WIPE"] = [[call("Bash", command="rm -rf /")], DONE]
    project.run("WIPE it", session=session)
    [action] = reviewer.actions(session)
    assert (action["status"], action["tier"]) == ("denied", "forbidden")
    assert "The policy forbids this" in model.results_of("WIPE")[0]["content"]


def test_a_wrong_token_lets_nothing_run(project_at, model, wire):
    project = project_at(wire.url, "hr_of-nobody")
    model.scripts["SHIP"] = [[ONE], DONE]
    project.run("SHIP it", mode="bypassPermissions")
    assert project.ran == []
    assert "This token is invalid" in model.results_of("SHIP")[0]["content"]
    assert [e.decision for e in wire.before_tools()] == ["deny"]
