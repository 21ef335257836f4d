"""Reasons that others' output is part of: short on lists, whole on the workspace's page, code as code."""

import pytest

from dashboard.templatetags.handrail import beginning_of_reason, reason_line
from tests.pages.conftest import make_workspace
from workspaces.models import State

pytestmark = pytest.mark.django_db
FAILED = (
    "The setup script failed (exit 128). It ends at the first command that fails. Last output:\n\n"
    "fatal: detected dubious ownership\n\nTo add an exception for this directory, call:\n\n\tgit config"
)


def test_the_desk_shows_the_first_line_of_the_output_and_the_page_all_of_it(team, agent, lena, browser_of, read):
    make_workspace(team, agent, "broken", state=State.FAILED, reason=FAILED)
    page = read(browser_of(lena), f"/w/{team.slug}/broken/")
    assert "To add an exception" in page
    for address in ("/", "/workspaces/"):
        text = read(browser_of(lena), address)
        assert "Last output: fatal: detected dubious ownership" in text
        assert "To add an exception" not in text


@pytest.mark.parametrize(
    ("reason", "beginning"),
    [
        ("", ""),
        ("One line.", "One line."),
        ("One.\nTwo.", "One."),
        ("Says:\n\n x\ny", "Says:  x"),
        ("\n\nLate", "Late"),
    ],
)
def test_the_beginning_of_a_reason(reason, beginning):
    assert beginning_of_reason(reason) == beginning


def test_code_in_a_reason_is_shown_as_code_and_nothing_in_it_is_html():
    assert reason_line("Run `docker pull` there.") == "Run <code>docker pull</code> there."
    assert reason_line("a ` b") == "a ` b"
    assert "<b>" not in reason_line("`<b>` `</code><b>`")
    assert reason_line("`a\u202eb`").count("<code>") == 0
