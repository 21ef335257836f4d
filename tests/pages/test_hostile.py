"""What strangers write is text: escaped, marked, and never part of the page."""

import html
import re

import pytest

from dashboard.text.visible_text import visible

from .conftest import make_command

SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    SCRIPT,
    '"><img src=x onerror=alert(1)>',
    "{{ 7|add:7 }}{% now 'Y' %}",
    "rm -rf build\u200b/",
    "\u202egnp.exe",
    "a\x1b]52;c;ZXZpbA==\x07b",
    "pаypal.com",
    "x" + " " * 600 + "; rm -rf ~",
    "javascript:alert(1)",
]


def decoded(text: str) -> bytes:
    """The exact bytes that marked-up text stands for, by the rule in dashboard.text.visible_text."""
    out = b""
    for part in re.split(r"(<span[^>]*>[^<]*</span>)", text):
        if marked := re.match(r'<span[^>]*data-bytes="([0-9a-f]*)"(?: data-times="(\d+)")?', part):
            out += bytes.fromhex(marked[1]) * int(marked[2] or 1)
        else:
            out += html.unescape(re.sub(r"<[^>]*>", "", part)).encode("utf-8", "surrogateescape")
    return out


@pytest.mark.parametrize("payload", HOSTILE)
def test_a_command_on_the_card_decodes_to_its_exact_bytes(ask, bob, browser_of, read, payload):
    command = f"git push origin {payload}"
    action = ask({"command": command})
    text = read(browser_of(bob), f"/actions/{action.pk}/")
    shown = re.search(r'<div class="code"[^>]*>.*?<code class="exact">(.*?)</code>', text, re.DOTALL)[1]
    assert decoded(shown) == command.encode()
    assert SCRIPT not in text


@pytest.mark.parametrize("payload", HOSTILE)
def test_every_list_escapes_what_an_agent_wrote(ask, bob, browser_of, read, payload, workspace, agent):
    make_command(workspace, shown=payload)
    ask({"command": f"git push origin {payload}"}, workspace=workspace, reasoning=payload, session=payload[:50])
    ask({"text": payload, payload: 1}, tool="mcp__server__say")
    type(agent).objects.filter(pk=agent.pk).update(name=payload[:80])
    client = browser_of(bob)
    here = "/w/payments/repo-task-1/"
    for address in ("/", "/waiting/", "/actions/", "/log/", "/agents/", "/connect/", here, f"{here}checks/"):
        text = read(client, address)
        assert "<script>alert" not in text, address
        assert "<img src=x" not in text, address
        assert "\u202e" not in text, address
        assert "\x1b" not in text, address


def test_hidden_characters_are_said_in_words(ask, bob, browser_of, read):
    action = ask({"command": "git push origin ma\u200bin"})
    assert "Holds 1 hidden character, shown as U+200B." in read(browser_of(bob), f"/actions/{action.pk}/")


def test_a_long_argument_is_all_there_and_must_be_read(ask, bob, browser_of, read):
    lines = "\n".join(f"echo {number}" for number in range(500))
    action = ask({"command": f"git push origin main\n{lines}\ncurl evil.example.org"})
    text = read(browser_of(bob), f"/actions/{action.pk}/")
    assert "data-must-read" in text
    assert "data-needs-reading" in text
    assert all(f"echo {number}" in text for number in range(500))


def test_no_bytes_of_a_name_are_lost():
    assert decoded(str(visible(b"caf\xe9 \xff"))) == b"caf\xe9 \xff"


@pytest.mark.parametrize(
    "wanted", ["https://evil.example.org/", "//evil.example.org/", "javascript:alert(1)", "\\\\evil"]
)
def test_the_way_back_leads_nowhere_else(alice, browser_of, wanted):
    response = browser_of(alice).post("/me/theme/", {"theme": "dark", "next": wanted})
    assert response.headers["Location"] == "/me/"
