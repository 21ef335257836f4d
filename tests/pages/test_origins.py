"""Who asked, started or wrote something is stated only where Handrail itself knows it."""

import re
from pathlib import Path

import pytest

from approvals.sessions import prompts

TEMPLATES = Path(__file__).parents[2] / "templates"
SAID = re.compile(
    r"{% (?:translate|trans) [\"'](.*?)[\"']|{% blocktranslate[^%]*%}(.*?){% endblocktranslate %}", re.DOTALL
)
ORIGIN = re.compile(
    r"(?i)\b(?:asked|sent|started|requested|submitted|written|typed|opened|created|called|prompted|reported) by\b"
    r"|\b(?:asked|sent|requested|reported) from\b|\bfrom terminal\b"
)
# Each text that states an origin, and how Handrail knows it.
KNOWN = {
    "Reported by the agent; never used to allow a call.": "the transcript and the hooks of the agent's own program",
    "started by {{ name }}": "the signed-in person who pressed Run now",
    "started by “{{ parent }}”": "the session whose transcript holds the sub-agent's",
    "started by {{ name }} {{ at }}": "the person or the schedule that started the agent's run",
    "started by hand": "the run was not started by its time",
    "What an account writes there counts as written by its person, with that person": "an admin mapped the account",
    "created by it": "the agent's token created the workspace",
    "Written by {{ kind }} {{ author }} in {{ key }}, {{ time }}.": "the token or the person who sent the lesson",
}


def origins() -> dict[str, str]:
    found = {}
    for file in TEMPLATES.rglob("*.html"):
        for match in SAID.finditer(file.read_text()):
            text = " ".join((match[1] or match[2]).split())
            if ORIGIN.search(text):
                found[text] = str(file.relative_to(TEMPLATES))
    return found


def test_every_text_that_states_an_origin_is_known_to_be_true():
    found = origins()
    assert {text: file for text, file in found.items() if text not in KNOWN} == {}
    assert set(KNOWN) <= set(found)


@pytest.mark.parametrize("server", [{}, {"server": "billing"}])
def test_a_question_for_an_mcp_server_is_told_as_the_agents_program_says(ask, bob, browser_of, read, server):
    action = ask({"message": "How much?", "requestedSchema": {"properties": {"cents": {"type": "integer"}}}} | server,
                 tool="elicitation/create")  # fmt: skip
    text = re.sub(r"\s+", " ", read(browser_of(bob), f"/actions/{action.pk}/")).replace("&#x27;", "'")
    assert "As the agent's program says, for " in text
    assert "Asked by" not in text


def test_a_prompt_is_told_as_the_session_says(ask, agent, bob, browser_of, read):
    prompts.save(agent, "s9", "Ship it")
    text = read(browser_of(bob), f"/actions/{ask(session='s9').pk}/")
    assert "The prompt before this" in text
    assert "Asked by" not in text
