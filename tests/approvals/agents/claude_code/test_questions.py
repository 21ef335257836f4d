"""Plans and questions of Claude Code are cards: what a person answers there is what the model hears.

What nobody answers here stays with the person at its own terminal.
"""

import json
import os
import re

import pytest

from tests.approvals.agents.claude_code.model import DONE, call
from tests.approvals.agents.claude_code.session import Project

TEXT = "# Release\n\n1. Delete the old release.\n"
PLAN_FILE = re.compile(r"/[^\s\"`\\]+/\.claude/plans/[^\s\"`\\]+\.md")
QUESTION = {
    "questions": [
        {
            "question": "Which branch?",
            "header": "Branch",
            "multiSelect": False,
            "options": [{"label": "main", "description": "now"}, {"label": "next", "description": "later"}],
        },
        {
            "question": "Which tests?",
            "header": "Tests",
            "multiSelect": True,
            "options": [{"label": "unit", "description": "fast"}, {"label": "browser", "description": "slow"}],
        },
    ]
}
ANSWERS = {"Which branch?": "next", "Which tests?": "unit, browser"}


def asked_at_the_terminal(running) -> list[tuple[str, str]]:
    """Answer each prompt of Claude Code with a no, as the program around it does for a person; (kind, tool) of each."""
    asked = []
    for line in running.stdout:
        told = json.loads(line)
        if told["type"] == "result":
            running.communicate(timeout=60)
            return asked
        if told["type"] == "control_request":
            asked.append((told["request"]["subtype"], told["request"].get("tool_name")))
            no = {"behavior": "deny", "message": "Not like this, says the person."}
            answer = {"subtype": "success", "request_id": told["request_id"], "response": no}
            running.stdin.write(json.dumps({"type": "control_response", "response": answer}) + "\n")
            running.stdin.flush()
    raise AssertionError(f"Claude Code ended without a result: {running.stderr.read()[-2000:]}")


@pytest.fixture
def all_tools(project):
    """The project, with every tool hooked."""
    hooks = json.loads(project.hooks.read_text())
    hooks["hooks"]["PreToolUse"][0]["matcher"] = "*"
    project.hooks.write_text(json.dumps(hooks))
    return project


@pytest.fixture
def connected(claude, model, product):
    """A folder that `connect` has gated, with Claude Code as the user that runs Handrail."""
    project = Project(claude, model.url, product.url, token="none")
    if os.geteuid() == 0:
        project.as_root = False
        for path in [project.root, *project.root.rglob("*")]:
            os.chown(path, 0, 0)
    project.hooks.unlink()
    done = product.manage("connect", "claude-code", str(project.folder))
    assert done.returncode == 0, done.stderr
    yield project
    product.manage("disconnect", str(project.folder))
    project.close()


def present(model) -> list:
    """A model's turns that write the plan to the file that Claude Code names for it, and present it."""

    def write():
        [file] = set(PLAN_FILE.findall(model.transcript("SHIP")))
        return [call("Write", file_path=file, content=TEXT)]

    return [write, [call("ExitPlanMode")], DONE]


def heard(model) -> str:
    block = model.results_of("SHIP")[-1]
    return json.dumps(block["content"], ensure_ascii=False)


@pytest.mark.parametrize(
    ("hooked", "mode"),
    [("all_tools", "default"), ("all_tools", "bypassPermissions"), ("connected", "default")],
)
def test_the_choices_reach_the_model_and_nobody_is_asked_at_the_terminal(
    request, model, reviewer, session, hooked, mode
):
    project = request.getfixturevalue(hooked)
    model.scripts["SHIP"] = [[call("AskUserQuestion", **QUESTION)], DONE]
    running = project.start_for_a_program("SHIP it", mode=mode, session=session)
    card = reviewer.card(session)
    assert card["arguments"]["questions"] == QUESTION["questions"]
    reviewer.answer(card, "edit", arguments=card["arguments"] | {"answers": ANSWERS})
    assert asked_at_the_terminal(running) == []
    for answer in ("next", "unit, browser"):
        assert answer in heard(model)
    [action] = reviewer.actions(session)
    assert (action["status"], action["answers"]) == ("succeeded", ANSWERS)


def test_without_a_terminal_claude_code_has_no_such_question(all_tools, model, reviewer, session):
    """`claude -p` takes the tool away from the model, so that no hook hears of it."""
    model.scripts["SHIP"] = [[call("AskUserQuestion", **QUESTION)], DONE]
    all_tools.run("SHIP it", session=session)
    assert "No such tool available: AskUserQuestion" in heard(model)
    assert reviewer.actions(session) == []


@pytest.mark.parametrize("hooked", ["all_tools", "connected"])
def test_an_approved_plan_ends_the_plan_mode(request, model, reviewer, session, hooked):
    project = request.getfixturevalue(hooked)
    model.scripts["SHIP"] = present(model)
    running = project.start_for_a_program("SHIP it", mode="plan", session=session)
    card = reviewer.card(session)
    assert (card["title"], card["arguments"]["plan"].strip()) == ("Review a plan", TEXT.strip())
    reviewer.answer(card, "approve")
    assert asked_at_the_terminal(running) == []
    assert "approved your plan" in heard(model).lower()


def test_a_plan_that_is_sent_back_brings_the_comments(all_tools, model, reviewer, session):
    model.scripts["SHIP"] = present(model)
    running = all_tools.start_for_a_program("SHIP it", mode="plan", session=session)
    reviewer.answer(reviewer.card(session), "deny", comment="On line 3: keep the last two")
    assert asked_at_the_terminal(running) == []
    assert "rita sent the plan back with comments: On line 3: keep the last two." in heard(model)


@pytest.mark.parametrize("tool", ["ExitPlanMode", "AskUserQuestion"])
def test_a_question_left_to_the_terminal_is_asked_there(all_tools, model, reviewer, session, tool):
    is_plan = tool == "ExitPlanMode"
    model.scripts["SHIP"] = present(model) if is_plan else [[call(tool, **QUESTION)], DONE]
    mode = "plan" if is_plan else "default"
    running = all_tools.start_for_a_program("SHIP it", mode=mode, session=session)
    card = reviewer.card(session)
    left = reviewer.product.post(f"/api/v1/actions/{card['id']}/cancel", reviewer._token, {})
    assert left.status == 200, left.body
    assert asked_at_the_terminal(running) == [("can_use_tool", tool)]
    assert "Not like this, says the person." in heard(model)


@pytest.mark.parametrize("hooked", ["all_tools", "connected"])
def test_the_card_has_what_the_person_asked(request, model, reviewer, session, hooked):
    project = request.getfixturevalue(hooked)
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one")], DONE]
    running = project.start("SHIP it, says Mia", session=session)
    card = reviewer.card(session)
    ask = (
        "from approvals.sessions import prompts; from approvals.models import Action;"
        f"print(prompts.before(Action.objects.get(pk='{card['id']}')).text)"
    )
    assert reviewer.product.shell(ask).strip() == "SHIP it, says Mia"
    reviewer.answer(card, "deny")
    project.finish(running)


def test_a_prompt_goes_on_without_a_valid_token(all_tools, model):
    all_tools.environment["HANDRAIL_TOKEN"] = "wrong"
    model.scripts["SHIP"] = [DONE]
    assert all_tools.run("SHIP it")[-1]["subtype"] == "success"
    assert "SHIP it" in model.transcript("SHIP")
