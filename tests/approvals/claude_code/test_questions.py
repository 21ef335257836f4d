"""Plans and questions of Claude Code stay with the person at its own terminal: the gate has no opinion on them."""

import json
import os

import pytest

from tests.approvals.claude_code.model import DONE, call
from tests.approvals.claude_code.session import Project

PLAN = ("ExitPlanMode", "plan", {"plan": "Delete the old release."})
QUESTION = (
    "AskUserQuestion",
    "default",
    {
        "questions": [
            {
                "question": "Which branch?",
                "header": "Branch",
                "multiSelect": False,
                "options": [{"label": "main", "description": "now"}, {"label": "next", "description": "later"}],
            }
        ]
    },
)


def refuse_as_person(running) -> list[tuple[str, str]]:
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


@pytest.mark.parametrize("hooked", ["all_tools", "connected"])
@pytest.mark.parametrize(("tool", "mode", "arguments"), [PLAN, QUESTION], ids=["plan", "question"])
def test_claude_code_asks_its_own_person(request, model, reviewer, session, hooked, tool, mode, arguments):
    project = request.getfixturevalue(hooked)
    model.scripts["SHIP"] = [[call(tool, **arguments)], DONE]
    running = project.start_for_a_program("SHIP it", mode=mode, session=session)
    assert refuse_as_person(running) == [("can_use_tool", tool)]
    assert "Not like this, says the person." in model.heard("SHIP")[0]["content"]
    assert reviewer.actions(session) == []


def test_with_bypassed_permissions_a_question_is_still_the_persons(all_tools, model, reviewer, session):
    tool, _, arguments = QUESTION
    model.scripts["SHIP"] = [[call(tool, **arguments)], DONE]
    running = all_tools.start_for_a_program("SHIP it", mode="bypassPermissions", session=session)
    assert refuse_as_person(running) == [("can_use_tool", tool)]
    assert reviewer.actions(session) == []
