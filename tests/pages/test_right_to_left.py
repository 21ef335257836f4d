"""Text of a right-to-left script can be read as it reads, beside its exact view; what reorders text stays marked."""

import re

import pytest

from dashboard.database import clock
from dashboard.text.visible_text import as_it_reads, visible
from workspaces.changes.highlight import coloured_lines
from workspaces.models import Operation, Terminal

from .test_hostile import decoded

HEBREW, ARABIC, PERSIAN = "שלום עולם", "مرحبا بالعالم", "می\u200cروم"
MIXED = "Please tell נועה: deploy 3 of 5"
READABLE = [HEBREW, ARABIC, MIXED, f"line one\n{HEBREW}\n{ARABIC}", f"{HEBREW} <b>&"]


@pytest.mark.parametrize("text", READABLE)
def test_right_to_left_text_is_shown_once_more_in_its_own_order(text):
    shown = as_it_reads(text)
    assert re.fullmatch(r'<span class="reads" data-bytes="" data-label="As it reads" dir="auto">[^<]*</span>', shown)
    assert decoded(visible(text) + shown) == text.encode()


@pytest.mark.parametrize("control", "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c")
def test_text_with_a_character_that_changes_the_order_has_only_its_exact_view(control):
    assert as_it_reads(f"{HEBREW}{control}") == ""
    assert f"U+{ord(control):04X}" in visible(f"{HEBREW}{control}")


def test_other_hidden_characters_stay_marked():
    assert "[U+200C]" in as_it_reads(PERSIAN)
    assert "\u200c" not in as_it_reads(PERSIAN)


@pytest.mark.parametrize("text", ["", "plain", "naïve café", "日本語", "12 → 3"])
def test_left_to_right_text_is_not_repeated(text):
    assert as_it_reads(text) == ""


@pytest.mark.parametrize("text", READABLE)
def test_cards_groups_files_and_diffs_show_it(ask, bob, browser_of, text):
    said = [
        ask({"channel": "help", "text": text, "n": number}, tool="mcp__slack__post", reasoning=text)
        for number in range(3)
    ]
    client = browser_of(bob)
    card = client.get(f"/actions/{said[0].pk}/").content.decode()
    assert card.count('class="reads"') >= 2
    assert 'class="reads"' in client.get(f"/waiting/alike/{said[0].pk}/").content.decode()
    command = ask({"command": f"git push origin main && echo '{text}'"})
    assert 'class="reads"' in client.get(f"/actions/{command.pk}/").content.decode()
    for name in ("a.py", "a.unknown"):
        lines = coloured_lines(f"a\n{text}\n", name)
        assert len(lines) == 2 + text.count("\n")
        assert any('class="reads"' in line for line in lines)
        assert 'class="reads"' not in lines[0]


def test_an_origin_that_is_not_known_is_not_stated(ask, workspace, bob, browser_of, read):
    """A terminal that was open says that it was open, not that the call came from it."""
    about = Operation.objects.create(workspace=workspace, kind="terminal", phase="started", due_at=clock.now())
    Terminal.objects.create(workspace=workspace, operation=about, argv=["bash"], opened_by={"label": "alice"})
    action = ask({"command": "git push"}, workspace=workspace)
    text = read(browser_of(bob), f"/actions/{action.pk}/")
    assert "Terminal open then" in text
    assert "from terminal" not in text
