"""Who makes a workspace chooses the agents that may work in it."""

import pytest

from dashboard.models import Agent, Event
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db

NEW = "/workspaces/new/"


def wish(team, *agents, key="shop"):
    return {"team": team.slug, "key": key, "where": "driver:sandbox", "agents": [agent.pk for agent in agents]}


def made() -> Workspace:
    return Workspace.objects.get(key="shop")


def test_a_lead_binds_agents_while_making_it(browser_of, lena, team, agent):
    other = Agent.objects.create(team=team, name="second")
    client = browser_of(lena)
    assert "Agents that may work here" in client.get(NEW).content.decode()
    assert client.post(NEW, wish(team, agent, other)).status_code == 302
    assert set(made().bound_agents.all()) == {agent, other}
    event = Event.objects.get(verb="workspace.agents_changed")
    assert event.data["added"] == sorted([agent.name, other.name])
    assert event.actor_label == lena.username


def test_none_need_be_chosen(browser_of, lena, team, agent):
    assert browser_of(lena).post(NEW, wish(team)).status_code == 302
    assert not made().bound_agents.exists()


def test_an_agent_of_another_team_is_refused(browser_of, lena, team, agent, other_agent):
    page = browser_of(lena).post(NEW, wish(team, other_agent))
    assert page.status_code == 200
    assert not Workspace.objects.filter(key="shop").exists()


def test_a_person_who_may_not_bind_agents_is_not_asked(browser_of, bob, team, agent):
    client = browser_of(bob)
    page = client.get(NEW)
    assert "Agents that may work here" not in page.content.decode()
    client.post(NEW, wish(team, agent))
    assert not Workspace.objects.filter(key="shop", bound_agents=agent).exists()


def test_opening_one_that_exists_changes_no_agents(browser_of, lena, team, agent):
    client = browser_of(lena)
    client.post(NEW, wish(team, agent))
    client.post(NEW, wish(team))
    assert list(made().bound_agents.all()) == [agent]
