"""The form of a new run: what is preselected, what is asked first, and that a refused start keeps what was typed."""

import re

import pytest

from approvals import agent_runs
from approvals.models import AgentRun
from dashboard.people.access import caller_of
from workspaces.models import Environment
from workspaces.provisioning import agent_programs

from .steps import WISH

FORM = {"task": "Make it green.", "place": "environment:payments/default", "program": "claude-code"}
START = "/agent-runs/new/"


@pytest.fixture
def lead(browser_of, lena):
    return browser_of(lena)


def chosen(page: str) -> list[str]:
    return re.findall(r'<option value="([^"]+)" selected', page)


def test_the_desk_leads_who_may_to_the_form(browser_of, lena, bob, workspace):
    link = f'href="{START}"'
    assert link in browser_of(lena).get("/").content.decode()
    assert link not in browser_of(bob).get("/").content.decode()


def test_it_asks_for_the_task_and_folds_the_rest(lead, workspace):
    page = lead.get(START).content.decode()
    first, _, rest = page.partition("<details")
    assert [name for name in ("task", "place", "program") if f'name="{name}"' in first] == ["task", "place", "program"]
    assert not [name for name in ("model", "ticket_url", "budget_minutes") if f'name="{name}"' in first]
    assert 'name="budget_cost"' in rest
    assert "autofocus" in first
    assert '<details class="fold panel-fold" open' not in page


def test_a_filled_field_of_the_rest_shows_it(lead, workspace):
    assert '<details class="fold panel-fold" open' in lead.get(f"{START}?ticket=https://t.example/1").content.decode()
    page = lead.post(START, FORM | {"budget_cost": "3"}).content.decode()
    assert '<details class="fold panel-fold" open' in page


def test_an_environment_where_an_agent_can_start_is_preselected(lead, workspace, team):
    Environment.objects.create(team=team, name="absent", agent_programs=["codex@9.9.9"])  # installed nowhere
    assert chosen(lead.get(START).content.decode()) == ["environment:payments/default"]


def test_place_and_agent_of_the_last_run_are_preselected(lead, lena, workspace, team, started):
    other = {"agent_programs": ["claude-code@1.2.3", "codex@1.2.3"], "model_access": workspace.environment.model_access}
    other["model_access"] |= {"openai": {"secret": "KEY", "models": ["gpt-x"]}}
    Environment.objects.create(team=team, name="zoo", **other)
    wish = WISH | {"program": "codex"}
    agent_runs.start(
        agent_runs.place_for(team, "zoo", "x", wish=wish, caller=caller_of(lena)), wish, caller=caller_of(lena)
    )
    assert chosen(lead.get(START).content.decode()) == ["environment:payments/zoo", "codex"]
    linked = lead.get(f"{START}?workspace=payments/repo-task-1&program=claude-code").content.decode()
    assert chosen(linked) == ["workspace:payments/repo-task-1", "claude-code"]


def test_one_agent_alone_is_named_and_needs_no_choice(lead, workspace):
    Environment.objects.update(agent_programs=["claude-code@1.2.3"])
    page = lead.get(START).content.decode()
    assert "The first one that the environment names" not in page
    assert '<option value="claude-code">Claude Code</option>' in page


@pytest.mark.parametrize("why", ["absent", "busy"])
def test_a_refused_start_says_why_and_keeps_what_was_typed(lead, lena, workspace, monkeypatch, why):
    form = FORM | {"ticket_url": "https://t.example/1"}
    if why == "absent":
        monkeypatch.setattr(agent_programs, "is_installed", lambda named: False)
        said = "claude-code@1.2.3 is not installed on this host."
    else:
        agent_runs.start(workspace, WISH, caller=caller_of(lena))
        form["place"], said = "workspace:payments/repo-task-1", "An agent works in repo-task-1 already."
    answer = lead.post(START, form)
    page = answer.content.decode()
    assert (answer.status_code, said in page) == (200, True)
    assert "Make it green.</textarea>" in page
    assert 'value="https://t.example/1"' in page
    assert AgentRun.objects.count() == (1 if why == "busy" else 0)


def test_the_run_is_shown_at_once(lead, workspace):
    sent = lead.post(START, FORM)
    assert sent.headers["Location"] == f"/agent-runs/{AgentRun.objects.get().pk}/"
