"""Pages of started agents: the form, what a run shows in each state, and the answers on its page."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals import agent_runs
from approvals.models import AgentRun
from dashboard.people.access import caller_of
from tests.pages.conftest import tight

from .steps import ANSWER, WISH, ended, follow

FORM = {"task": "Make it green.", "program": "claude-code", "model": "", "ticket_url": "https://tickets.example/T-1"}
FORM |= {"budget_minutes": "30", "budget_tokens": "", "budget_cost": ""}


def page(client, run: AgentRun) -> str:
    return tight(client.get(f"/agent-runs/{run.pk}/").content.decode())


def test_a_link_fills_the_form_in_and_starts_nothing(browser_of, lena, workspace):
    client = browser_of(lena)
    shown = client.get("/agent-runs/new/?workspace=payments/repo-task-1&task=Fix+T-1&ticket=https://t.example/1")
    text = shown.content.decode()
    assert '<option value="workspace:payments/repo-task-1" selected>' in text
    assert "Fix T-1</textarea>" in text
    assert 'value="https://t.example/1"' in text
    assert not AgentRun.objects.exists()


def test_a_lead_starts_one_in_a_workspace(browser_of, lena, workspace):
    client = browser_of(lena)
    assert "/agent-runs/new/?workspace=payments/repo-task-1" in client.get("/w/payments/repo-task-1/").content.decode()
    sent = client.post("/agent-runs/new/", FORM | {"place": "workspace:payments/repo-task-1"})
    run = AgentRun.objects.get()
    assert sent.headers["Location"] == f"/agent-runs/{run.pk}/"
    assert (run.workspace, run.model, run.budget_minutes) == (workspace, "claude-x", 30)
    assert "Make it green." in client.get("/agent-runs/").content.decode()
    assert "https://tickets.example/T-1" in page(client, run)


def test_a_lead_starts_one_in_a_new_workspace(browser_of, lena, workspace):
    browser_of(lena).post("/agent-runs/new/", FORM | {"place": "environment:payments/default"})
    run = AgentRun.objects.get()
    assert run.workspace != workspace
    assert run.workspace.key.startswith("make-it-green-")


def test_the_form_offers_the_agents_that_environments_name_and_an_empty_choice_starts_the_first(
    browser_of, lena, workspace
):
    client = browser_of(lena)
    text = client.get("/agent-runs/new/").content.decode()
    assert 'value="claude-code"' in text
    assert 'value="opencode"' not in text
    client.post("/agent-runs/new/", FORM | {"place": "environment:payments/default", "program": ""})
    assert AgentRun.objects.get().program.startswith("claude-code@")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"task": ""}, "This field is required."),
        ({"model": "gpt-5"}, "does not give the model gpt-5"),
        ({"ticket_url": "ftp://x"}, "A ticket is an address"),
        ({"place": "workspace:payments/none"}, "is not one of the available choices"),
        ({"budget_cost": "3"}, "has no prices for tokens"),
    ],
)
def test_an_error_stands_at_its_field_and_nothing_is_created(browser_of, lena, workspace, wrong, said):
    form = FORM | {"place": "environment:payments/default"} | wrong
    answer = browser_of(lena).post("/agent-runs/new/", form)
    assert (answer.status_code, said in answer.content.decode()) == (200, True)
    assert not AgentRun.objects.exists()


def test_a_person_who_may_not_start_agents_sees_runs_without_buttons(browser_of, bob, vera, started):
    for person in (bob, vera):
        client = browser_of(person)
        text = page(client, started)
        assert "Make it green." in text
        assert "Stop the agent" not in text
        assert client.get("/agent-runs/new/").status_code == 403
        assert client.post(f"/agent-runs/{started.pk}/stop/").status_code == 403
    assert follow().state == "starting"


def test_the_result_has_its_summary_and_leads_to_the_changes(browser_of, lena, working):
    client = browser_of(lena)
    assert "Interrupt and send" in page(client, working)
    run = ended(working, ANSWER)
    text = page(client, run)
    assert "It is green." in text
    assert "/w/payments/repo-task-1/changes/?from=2&amp;to=live" in text
    assert "Make it green." in client.get("/").content.decode()  # the Desk says that it is to review
    client.post(f"/agent-runs/{run.pk}/accept/")
    run.refresh_from_db()
    assert run.state == "accepted"
    text = page(client, run)
    assert "Accept the work" not in text
    assert "It is green." in text


def test_words_send_it_back(browser_of, lena, working):
    run = ended(working, ANSWER)
    client = browser_of(lena)
    assert "This field is required." in client.post(f"/agent-runs/{run.pk}/say/", {"text": ""}).content.decode()
    client.post(f"/agent-runs/{run.pk}/say/", {"text": "The tests are missing."})
    assert follow().state == "working"


def test_a_run_that_asks_gets_more_at_its_page_or_works_until_the_morning(browser_of, lena, working):
    AgentRun.objects.update(budget_met="9 minutes", budget_minutes=9)
    run = ended(working, exit_status=1)
    client = browser_of(lena)
    assert "Extend the budget" in page(client, run)
    wrong = client.post(f"/agent-runs/{run.pk}/budget/", {"budget_minutes": ""}).content.decode()
    assert "Give more minutes, tokens or money." in wrong
    client.post(f"/agent-runs/{run.pk}/budget/", {"budget_minutes": "45"})
    run = follow()
    assert (run.state, run.budget_minutes) == ("working", 45)
    client.post(f"/agent-runs/{run.pk}/budget/", {"overnight": "1"})
    run.refresh_from_db()
    assert 0 < run.budget_minutes <= 24 * 60


def test_a_list_takes_as_many_queries_for_three_as_for_one(browser_of, lena, working):
    client = browser_of(lena)
    client.get("/agent-runs/")
    with CaptureQueriesContext(
        connection,
    ) as one:
        client.get("/agent-runs/")
    run = AgentRun.objects.get()
    for number in (1, 2):
        run.pk, run.state, run.token_sha256 = None, "done", str(number) * 64
        run._state.adding = True
        run.save()
    with CaptureQueriesContext(connection) as three:
        client.get("/agent-runs/")
    assert len(three) == len(one)


def test_discarding_says_what_it_restores(browser_of, lena, working):
    run = ended(working, ANSWER)
    client = browser_of(lena)
    assert "All files are restored from snapshot 2" in page(client, run)
    client.post(f"/agent-runs/{run.pk}/discard/")
    run.refresh_from_db()
    assert run.state == "discarded"


def test_an_environment_takes_its_agents_and_models_from_the_form(browser_of, lena, workspace):
    client = browser_of(lena)
    shown = client.get(f"/environments/{workspace.environment_id}/").content.decode()
    assert "claude-code@1.2.3" in shown
    assert "which stays outside the workspace" in shown
    text = tight(client.get(f"/environments/{workspace.environment_id}/edit/").content.decode())
    assert 'value="claude-code@1.2.3"' in text
    assert '<option value="A_KEY" selected>A_KEY</option>' in text
    assert 'value="claude-x claude-*"' in text
    assert agent_runs.start(workspace, WISH, caller=caller_of(lena))
