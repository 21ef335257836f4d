"""Agents are bound to a workspace, and unbound, by those who may manage agents."""

import json

import pytest

from dashboard.models import Agent, Event
from dashboard.people.tokens import make_token

HERE = "/w/payments/repo-task-1/"
ADDRESS = "/api/v1/workspaces/repo-task-1"


@pytest.fixture
def helper(team):
    return Agent.objects.create(team=team, name="helper")


def patch(client, agents, token):
    body = json.dumps({"agents": agents})
    return client.patch(ADDRESS, body, content_type="application/json", headers={"Authorization": f"Bearer {token}"})


def test_a_lead_binds_and_unbinds_on_the_page(workspace, helper, lena, client, browser_of, read):
    sees = {"Authorization": f"Bearer {make_token(helper.team, agent=helper)}"}
    lead = browser_of(lena)
    assert 'name="agent" value="helper"> helper' in read(lead, HERE)
    assert client.get(ADDRESS, headers=sees).status_code == 404
    lead.post(f"{HERE}agents/", {"agent": ["helper"]})
    assert client.get(ADDRESS, headers=sees).status_code == 200
    assert 'name="agent" value="helper" checked> helper' in read(lead, HERE)
    assert Event.objects.get(verb="workspace.agents_changed").data == {"added": ["helper"], "removed": []}
    lead.post(f"{HERE}agents/", {})
    assert client.get(ADDRESS, headers=sees).status_code == 404
    assert list(workspace.bound_agents.all()) == []


def test_the_api_names_them(workspace, helper, lena, token_of, client):
    answer = patch(client, ["helper"], token_of(lena))
    assert (answer.status_code, answer.json()["agents"]) == (200, ["helper"])
    assert patch(client, ["helper", "nobody"], token_of(lena)).status_code == 422
    assert [agent.name for agent in workspace.bound_agents.all()] == ["helper"]
    assert patch(client, [], token_of(lena)).json()["agents"] == []


def test_nobody_else_chooses(workspace, helper, bob, other_agent, agent_token, token_of, client, browser_of, read):
    assert patch(client, ["helper"], agent_token).status_code == 403
    assert patch(client, ["helper"], token_of(bob)).status_code == 403
    assert patch(client, ["helper"], make_token(other_agent.team, agent=other_agent)).status_code == 404
    assert browser_of(bob).post(f"{HERE}agents/", {"agent": "helper"}).status_code == 403
    assert "Agents that may work here" not in read(browser_of(bob), HERE)
    assert list(workspace.bound_agents.all()) == []


def test_an_agent_of_another_team_is_not_bound(workspace, other_agent, lena, token_of, client):
    assert patch(client, [other_agent.name + "x", other_agent.name], token_of(lena)).status_code == 422
    assert list(workspace.bound_agents.all()) == []
