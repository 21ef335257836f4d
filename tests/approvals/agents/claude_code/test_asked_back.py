"""A person asks Claude Code about its call: it hears a question, says why, makes the call again, and it runs."""

import pytest

from tests.approvals.agents.claude_code.model import DONE, call, say
from tests.support.waiting import until

COMMAND = "./deploy.sh one"


def messages(reviewer, card):
    found = reviewer.product.get(f"/api/v1/actions/{card['id']}/messages", reviewer.agent_token).json["messages"]
    return [(each["kind"], each["text"]) for each in found]


@pytest.mark.parametrize("where", ["description", "words"])
def test_the_answer_comes_on_the_same_card_and_the_call_runs_once(project, model, reviewer, session, where):
    answer = "It is the release of today."
    described = {"description": answer if where == "description" else "Deploy"}
    again = [say(answer), call("Bash", command=COMMAND, **described)]
    model.scripts["SHIP"] = [[call("Bash", command=COMMAND, description="Deploy")], again, DONE]
    running = project.start("SHIP it", session=session)
    card = reviewer.card(session)
    address = f"/api/v1/actions/{card['id']}/messages"
    asked = reviewer.product.post(address, reviewer._token, {"text": "Why now?"})
    assert asked.status == 201, asked.body
    until(lambda: len(messages(reviewer, card)) == 2, within=60)
    assert reviewer.card(session)["id"] == card["id"]
    reviewer.answer(card, "approve")
    project.finish(running)
    assert project.ran == ["one"]
    assert messages(reviewer, card) == [("question", "Why now?"), ("answer", answer)]
    assert "asks before deciding" in model.results_of("SHIP")[0]["content"]
