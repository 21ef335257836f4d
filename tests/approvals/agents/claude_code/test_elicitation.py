"""What an MCP server asks through the real Claude Code is a card, and the server gets what a person answered there."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.approvals.agents.claude_code.model import DONE, call

SERVER = Path(__file__).parent / "eliciting_server.py"
TOOL = "mcp__shop__refund"


@pytest.fixture
def shop(project):
    """The project, with the server that asks; the agent may call its tool."""
    script = project.home / "eliciting_server.py"
    shutil.copy(SERVER, script)
    server = {"type": "stdio", "command": sys.executable, "args": ["-S", "-E", str(script)]}
    (project.home / "mcp.json").write_text(json.dumps({"mcpServers": {"shop": server}}))
    for path in project.home.iterdir():
        path.chmod(0o755)
    return project


def start(shop, session):
    config = str(shop.home / "mcp.json")
    return shop._start("-p", "SHIP it", "--session-id", session, "--mcp-config", config, mode="bypassPermissions")


@pytest.fixture
def asked(shop, model, reviewer, session):
    """(Claude Code, the card of what the server asks), after a person approved the call of the server's tool."""
    model.scripts["SHIP"] = [[call(TOOL)], DONE]
    running = start(shop, session)
    tool = reviewer.card(session)
    assert tool["tool"] == TOOL
    reviewer.answer(tool, "approve")
    reviewer.settled(tool, "running")
    card = reviewer.card(session)
    assert card["tool"] == "elicitation/create"
    return running, card


def heard(shop, running, model) -> str:
    shop.finish(running)
    [block] = model.results_of("SHIP")
    return json.dumps(block["content"], ensure_ascii=False)


def test_the_server_gets_the_persons_answer_with_its_types(shop, asked, model, reviewer):
    running, card = asked
    assert (card["title"], card["arguments"]["server"]) == ("Answer 4 questions", "shop")
    content = {"cents": 1250, "reason": "late", "mail": True}
    reviewer.answer(card, "edit", arguments=card["arguments"] | {"content": content})
    said = heard(shop, running, model)
    assert "It was answered:" in said
    assert json.dumps({"action": "accept", "content": content}, sort_keys=True) in said.replace('\\"', '"')
    reviewer.settled(card, "succeeded")


def test_the_server_hears_that_a_person_declined(shop, asked, model, reviewer):
    running, card = asked
    reviewer.answer(card, "deny", comment="Ask the shop first")
    said = heard(shop, running, model).replace('\\"', '"')
    assert '"action": "decline"' in said
    assert '"accept"' not in said


def test_an_unanswered_question_is_not_accepted(shop, asked, model, reviewer):
    running, card = asked
    left = reviewer.product.post(f"/api/v1/actions/{card['id']}/cancel", reviewer._token, {})
    assert left.status == 200, left.body
    said = heard(shop, running, model).replace('\\"', '"')
    assert '"accept"' not in said
