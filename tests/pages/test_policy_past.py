"""The part of the Policy page that shows the policy on the past, and one tap to trust."""

import os
import re
import time
from pathlib import Path

import pytest

from approvals.evaluation import policies
from approvals.past.reports import reports
from dashboard.models import Event, Membership
from dashboard.people.access import caller_of
from tests.approvals.past.conftest import Home
from tests.pages.conftest import make_workspace, tight
from workspaces.models import Environment

HOSTILE = "frob </code><script>alert(1)</script> \u202eevil\x1b[31m"


@pytest.fixture
def folder(team, agent, tmp_path, monkeypatch):
    """A connected folder with the transcripts of some calls in it."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", f"{tmp_path}/home/bin:{os.environ['PATH']}")
    root = tmp_path / "calc"
    root.mkdir()
    home = Home(tmp_path / "home")
    home.program("bd")
    rows = [home.claude_row(f"bd show {n}", cwd=str(root)) for n in range(4)]
    more = [home.claude_row(text, cwd=str(root)) for text in (HOSTILE, "git push https://me:hunter2@example.com/x")]
    home.claude(*rows, *more, name="-calc/a.jsonl")
    home.claude(home.claude_row("elsewhere", cwd="/elsewhere"), name="-elsewhere/a.jsonl")
    environment = Environment.objects.create(team=team, name="folder-calc", version=1, driver="folder")
    made = make_workspace(team, agent, "calc")
    type(made).objects.filter(pk=made.pk).update(environment=environment, source={"path": str(root)})
    reports.kept.clear()
    return Path(root)


@pytest.fixture
def report(browser_of, lena):
    """`report()`: the finished report, as the page asks for it again and again."""

    def get(address="/policy/past/", within=60) -> str:
        deadline = time.monotonic() + within
        while "Reading the transcripts" in (text := browser_of(lena).get(address).content.decode()):
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
        return text

    return get


def test_the_page_offers_it_where_a_folder_is_connected(lena, browser_of, folder, team):
    assert "/policy/past/?team=" in browser_of(lena).get("/policy/").content.decode()
    Environment.objects.create(team=team, name="web", version=1)
    assert "/policy/past/" not in browser_of(lena).get("/policy/?environment=web").content.decode()
    assert "No connected folder" in browser_of(lena).get("/policy/past/?environment=web").content.decode()


def test_the_fragment_asks_again_while_the_report_is_made(lena, browser_of, folder, report):
    first = browser_of(lena).get("/policy/past/", headers={"HX-Request": "true"}).content.decode()
    assert 'hx-trigger="load delay:1s"' in first
    assert "<html" not in first
    assert 'hx-trigger="load' not in re.search(r"<div id=\"past-report\".*", report(), re.DOTALL)[0]


def test_only_calls_of_the_teams_folders_are_told_and_no_password(folder, report):
    text = tight(report())
    assert "In your last 30 days 6 calls (Claude Code 6)" in text
    assert "<code>elsewhere</code>" not in text
    assert "hunter2" not in text


def test_what_an_agent_wrote_is_shown_harmlessly(folder, report):
    text = report()
    assert "<script>alert(1)" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "\u202e" not in text
    assert "\x1b" not in text


def trust_form(text: str) -> dict:
    form = re.search(r'<form method="post" action="/policy/past/trust/.*?</form>', text, re.DOTALL)[0]
    return dict(re.findall(r'name="(\w+)"\s+value="([^"]*)"', form))


def test_one_tap_trusts_a_program_by_its_file_and_digest(lena, browser_of, folder, report, team):
    text = report()
    assert "Trusting bd leaves" in tight(text)
    form = trust_form(text)
    assert (form["kind"], form["label"], form["path"].endswith("/home/bin/bd")) == ("program", "bd", True)
    answer = browser_of(lena).post(f"/policy/past/trust/?team={team.slug}", form)
    assert answer.status_code == 302
    saved = policies.active(team.pk)
    assert (saved.by, f'sha256 = "{form["sha256"]}"' in saved.text) == (lena, True)
    event = Event.objects.filter(verb="policy.saved").latest("seq")
    assert (event.data["number"], event.data["sha256"]) == (saved.number, saved.sha256)
    assert "Trusting" not in report()
    assert "/home/bin/bd" in browser_of(lena).get("/policy/").content.decode()


def test_a_tap_on_an_older_version_saves_nothing(lena, browser_of, folder, report, team):
    form = trust_form(report())
    policies.save('mode = "everything"\n', caller=caller_of(lena), team=team)
    browser_of(lena).post(f"/policy/past/trust/?team={team.slug}", form)
    assert policies.active(team.pk).text == 'mode = "everything"\n'


@pytest.mark.parametrize(
    "wish",
    [
        {"kind": "place", "label": "/"},
        {"kind": "place", "label": "/home/lena/.ssh"},
        {"kind": "program", "label": "bash", "path": "/bin/bash", "sha256": "0" * 64},
        {"kind": "program", "label": 'a"\n[trust]', "path": "/bin/a", "sha256": "0" * 64},
        {"kind": "code_host", "label": "x", "base": "no number"},
    ],
)
def test_what_must_not_be_trusted_is_refused(lena, browser_of, folder, team, wish):
    policies.active(team.pk)
    browser_of(lena).post(f"/policy/past/trust/?team={team.slug}", {"base": "1"} | wish)
    assert policies.active(team.pk).number == 1


def test_a_person_who_may_not_edit_the_policy_neither_sees_nor_trusts(browser_of, bob, folder, team):
    Membership.objects.filter(user=bob, team=team).update(role="reviewer")
    client = browser_of(bob)
    assert "/policy/past/" not in client.get("/policy/").content.decode()
    assert client.get("/policy/past/").status_code == 403
    assert client.post("/policy/past/trust/", {"kind": "code_host", "base": "0"}).status_code == 403


def test_the_folders_own_policy_gets_the_trust(lena, browser_of, folder, report, team):
    address = f"?team={team.slug}&environment=folder-calc"
    form = trust_form(report(f"/policy/past/{address}"))
    browser_of(lena).post(f"/policy/past/trust/{address}", form)
    assert "[[trust.programs]]" in policies.own(team.pk, "folder-calc").text
    assert "[[trust.programs]]" not in policies.active(team.pk).text
