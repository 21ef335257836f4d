"""An agent as an identity: what it may use, its tokens, grants, denials and asks, on its page and over the API."""

from datetime import timedelta

import pytest

from approvals.models import Grant
from dashboard.database import clock
from dashboard.models import Agent, Event
from dashboard.people.tokens import make_token
from workspaces.lifecycle import agents_at_work
from workspaces.models import AgentAtWork, Environment

from .conftest import LIST, PUSH, make_workspace, tight

ADDRESS = "/api/v1/workspaces/repo-task-1/agents"


@pytest.fixture
def told(client):
    def get(token, name="claude"):
        answer = client.get(f"/api/v1/agents/{name}", headers={"Authorization": f"Bearer {token}"})
        return answer.status_code, answer.json()

    return get


@pytest.fixture
def post(client):
    def send(token, body, address=ADDRESS):
        headers = {"Authorization": f"Bearer {token}"}
        return client.post(address, body, content_type="application/json", headers=headers)

    return send


@pytest.fixture
def full(team, agent, workspace, ask, decide, bob):
    """The agent with one of everything."""
    shared = Environment.objects.create(team=team, name="web", egress={"agent": ["packages.example"]})
    Environment.objects.create(team=team, name="vault", secrets={"agent": ["KEY"]}, agents=["other"])
    soon = clock.now() + timedelta(days=9)
    make_token(team, agent=agent, expires_at=soon)
    Grant.objects.create(
        team=team, agent=agent, workspace=workspace, says="Edits in src", by=bob, expires_at=soon, uses_left=7
    )
    ask(LIST, workspace=workspace)
    decide(ask(PUSH, workspace=workspace), "deny", by=bob, comment="Not on a Friday.")
    ask({"command": "rm -rf /"}, workspace=workspace)
    return shared


def test_the_page_answers_what_it_may_use_and_what_it_was_denied(full, agent, bob, browser_of, read):
    text = read(browser_of(bob), f"/agents/{agent.pk}/")
    for words in (
        "repo-task-1",
        "reaches packages.example",
        "vault has secrets",
        "isn&#x27;t one of its agents",
        "valid until",
    ):
        assert words in text
    for words in ("Edits in src", "Not on a Friday.", "denied by bob", "denied by the policy", "team Payments"):
        assert words in text
    assert "<b>33.3</b>asks per 100 calls" in tight(text)
    assert "it may create workspaces from 2 of 3" in text
    assert "/bind/" not in text  # a reviewer binds nothing


def test_the_api_tells_the_same(full, agent_token, bob, token_of, told):
    status, found = told(token_of(bob))
    assert (status, found["name"], found["team"]) == (200, "claude", "payments")
    assert [(each["key"], each["is_creator"]) for each in found["workspaces"]] == [("repo-task-1", True)]
    assert {each["name"]: each["may_use"] for each in found["environments"]} == {
        "default": True, "web": True, "vault": False,
    }  # fmt: skip
    assert found["asks"] == {"days": 7, "calls": 3, "asked": 1, "denied": 2, "per_100_calls": 33.3}
    assert [(each["tool"], each["calls"], each["denied"]) for each in found["tools"]] == [("Bash", 3, 2)]
    assert [(each["by"], each["title"] != "") for each in found["denied"]] == [(None, True), ("bob", True)]
    assert found["denied"][1]["reasons"] == ["Not on a Friday."]
    assert [each["says"] for each in found["grants"]] == ["Edits in src"]
    assert sorted(each["expires_at"] is None for each in found["tokens"]) == [False, True]
    assert agent_token not in str(found)
    assert told(agent_token) == (status, found | {"tokens": told(agent_token)[1]["tokens"]})


def test_strangers_find_no_agent(full, team, agent, workspace, mallory, other_team, token_of, told):
    codex = Agent.objects.create(team=team, name="codex")
    inside = make_token(team, agent=agent, workspace=workspace)
    for token in (make_token(other_team, user=mallory), make_token(team, agent=codex), inside):
        assert told(token)[0] == 404


def test_more_of_everything_costs_no_more_queries(
    full, team, agent, bob, ask, decide, browser_of, django_assert_max_num_queries
):
    client, address = browser_of(bob), f"/agents/{agent.pk}/"
    client.get(address)
    with django_assert_max_num_queries(200) as few:
        client.get(address)
    for number in range(5):
        place = make_workspace(team, agent, f"more-{number}")
        AgentAtWork.objects.create(workspace=place, agent=agent, at=clock.now())
        make_token(team, agent=agent)
        Environment.objects.create(team=team, name=f"e{number}")
        decide(ask({"command": f"git push origin b{number}"}, workspace=place), "deny", by=bob)
    with django_assert_max_num_queries(len(few.captured_queries)):
        client.get(address)


def test_a_lead_binds_and_unbinds_over_the_api(workspace, team, lena, bob, agent_token, token_of, client, post):
    helper = Agent.objects.create(team=team, name="helper")
    sees = {"Authorization": f"Bearer {make_token(team, agent=helper)}"}
    lead = token_of(lena)
    assert post(token_of(bob), {"agent": "helper"}).status_code == 403
    assert post(agent_token, {"agent": "helper"}).status_code == 403
    assert post(lead, {"agent": "nobody"}).status_code == 422
    assert post(lead, {"agent": "helper"}, ADDRESS.replace("-1", "-9")).status_code == 404
    answer = post(lead, {"agent": "helper"})
    assert (answer.status_code, answer.json()["agents"]) == (201, ["helper"])
    assert post(lead, {"agent": "helper"}).status_code == 200
    assert post(lead, {"agent": "claude"}).status_code == 200  # it created the workspace
    assert client.get("/api/v1/workspaces/repo-task-1", headers=sees).status_code == 200
    headers = {"Authorization": f"Bearer {lead}"}
    assert client.delete(f"{ADDRESS}/helper", headers=headers).json()["agents"] == []
    assert client.delete(f"{ADDRESS}/helper", headers=headers).json()["code"] == "not_bound"
    assert client.delete(f"{ADDRESS}/claude", headers=headers).json()["code"] == "created_it"
    assert client.get("/api/v1/workspaces/repo-task-1", headers=sees).status_code == 404
    changes = [each.data for each in Event.objects.filter(verb="workspace.agents_changed").order_by("seq")]
    assert changes == [{"added": ["helper"], "removed": []}, {"added": [], "removed": ["helper"]}]


def test_a_lead_binds_and_unbinds_on_the_agents_page(workspace, team, lena, bob, browser_of, read):
    helper = Agent.objects.create(team=team, name="helper")
    client, address = browser_of(lena), f"/agents/{helper.pk}/"
    assert '<option value="repo-task-1">' in read(client, address)
    assert browser_of(bob).post(f"{address}bind/", {"key": "repo-task-1"}).status_code == 403
    assert "There is no workspace named" in client.post(f"{address}bind/", {"key": "gone"}).content.decode()
    assert client.post(f"{address}bind/", {"key": "repo-task-1"}).status_code == 302
    assert list(workspace.bound_agents.all()) == [helper]
    assert "Unbind from repo-task-1" in read(client, address)
    client.post(f"{address}unbind/", {"key": "repo-task-1"})
    assert list(workspace.bound_agents.all()) == []


def test_an_unbound_agent_uses_no_token_and_no_approval_there(
    workspace, team, lena, bob, token_of, ask, decide, client, post
):
    helper = Agent.objects.create(team=team, name="helper")
    workspace.bound_agents.add(helper)
    token, inside = make_token(team, agent=helper), make_token(team, agent=helper, workspace=workspace)
    action = ask(PUSH, workspace=workspace, token=token)
    decide(action, by=bob)
    client.delete(f"{ADDRESS}/helper", headers={"Authorization": f"Bearer {token_of(lena)}"})
    used = post(token, {"digest": action.digest}, f"/api/v1/actions/{action.pk}/consume")
    assert (used.status_code, used.json()["code"]) == (409, "not_bound")
    assert used.json()["detail"] == "helper may no longer work in repo-task-1."
    for each in (token, inside):
        body = {"tool": "Bash", "arguments": LIST, "workspace": "repo-task-1"}
        assert post(each, body, "/api/v1/actions").status_code == 404


def test_a_lock_is_said_on_the_page_over_the_api_and_at_the_card(
    workspace, team, agent, bob, token_of, ask, browser_of, read, told
):
    Environment.objects.update(agents_together="one_at_a_time")
    helper = Agent.objects.create(team=team, name="helper")
    workspace.bound_agents.add(helper)
    action = ask(PUSH, workspace=workspace)
    AgentAtWork.objects.update(at=clock.now() - timedelta(minutes=agents_at_work.MINUTES + 1))
    AgentAtWork.objects.create(workspace=workspace, agent=helper, at=clock.now())
    client = browser_of(bob)
    assert "<b>Refused here now.</b> helper is at work" in read(client, f"/agents/{agent.pk}/")
    place = told(token_of(bob))[1]["workspaces"][0]
    assert (place["is_locked"], place["others_at_work"], place["agents_together"]) == (
        True,
        ["helper"],
        "one_at_a_time",
    )
    assert "helper is at work here, where one agent at a time may work" in read(client, f"/actions/{action.pk}/")
