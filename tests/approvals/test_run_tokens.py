"""A token of one workspace is that workspace's: it sees and moves nothing of what its agent does elsewhere."""

import re
from datetime import timedelta

import pytest

from approvals.models import Action, Grant
from dashboard.database import clock
from dashboard.models import Event, Token
from dashboard.people.tokens import make_token
from workspaces.models import Environment, State, Workspace
from workspaces.services import run_tokens

from .conftest import PUSH

ASK = {"tool": "Bash", "arguments": PUSH}


@pytest.fixture
def places(team, agent):
    """{"here": …, "there": …}: two workspaces of one agent."""
    environment = Environment.objects.create(team=team, name="default")
    common = {"team": team, "environment": environment, "state": State.READY, "created_by_agent": agent}
    return {key: Workspace.objects.create(key=key, **common) for key in ("here", "there")}


@pytest.fixture
def inside(places, agent):
    """The token that programs in `here` have."""
    return make_token(agent.team, agent=agent, workspace=places["here"], for_run=True)


@pytest.fixture
def theirs(places, agent_token, post):
    """(what waits in `there`, what waits in no workspace)"""
    asked = [post(agent_token, "/api/v1/actions", ASK | more) for more in ({"workspace": "there"}, {})]
    assert [status for status, _ in asked] == [201, 201]
    return [action for _, action in asked]


def test_a_run_token_asks_and_collects_in_its_own_workspace(inside, post, api):
    status, action = post(inside, "/api/v1/actions", ASK)
    assert (status, action["workspace"]) == (201, "here")
    assert [a["id"] for a in api(inside).get("/api/v1/actions").json()["actions"]] == [action["id"]]
    assert post(inside, f"/api/v1/actions/{action['id']}/cancel", {})[1]["status"] == "cancelled"


def test_what_its_agent_asks_elsewhere_is_not_there(inside, theirs, post, api):
    assert api(inside).get("/api/v1/actions").json()["actions"] == []
    for action in theirs:
        path = f"/api/v1/actions/{action['id']}"
        assert api(inside).get(path).status_code == 404
        assert api(inside).get(f"{path}/evidence").status_code == 404
        assert post(inside, f"{path}/consume", {"digest": action["digest"]})[0] == 404
        assert post(inside, f"{path}/outcome", {"status": "succeeded"})[0] == 404
        assert post(inside, f"{path}/cancel", {})[0] == 404
    assert list(Action.objects.values_list("status", flat=True)) == ["pending", "pending"]


def test_an_approval_elsewhere_is_not_collected(inside, theirs, places, decide, bob, post):
    decide(Action.objects.get(pk=theirs[0]["id"]), by=bob)
    collect = {"digest": theirs[0]["digest"]}
    assert post(inside, f"/api/v1/actions/{theirs[0]['id']}/consume", collect)[0] == 404
    assert Action.objects.get(pk=theirs[0]["id"]).status == "approved"


def test_the_same_key_in_another_workspace_is_no_way_to_its_action(inside, agent_token, places, post):
    body = ASK | {"workspace": "there"}
    assert post(agent_token, "/api/v1/actions", body, **{"Idempotency-Key": "k"})[0] == 201
    there = make_token(places["there"].team, agent=places["there"].created_by_agent, workspace=places["there"])
    assert post(there, "/api/v1/actions", ASK, **{"Idempotency-Key": "own"})[0] == 201
    status, problem = post(inside, "/api/v1/actions", ASK, **{"Idempotency-Key": "own"})
    assert (status, "id" in problem) == (422, False)


def test_events_and_grants_are_its_workspaces(inside, theirs, places, agent, bob, api, post):
    own = post(inside, "/api/v1/actions", ASK)[1]
    seen = api(inside).get("/api/v1/events").json()["events"]
    assert {(e["subject"]["id"], e["workspace"]) for e in seen} == {(own["id"], str(places["here"].pk))}
    soon = clock.now() + timedelta(hours=1)
    Grant.objects.create(team=agent.team, agent=agent, workspace=places["there"], by=bob, expires_at=soon, uses_left=1)
    assert api(inside).get("/api/v1/grants").json()["grants"] == []


def test_a_run_token_creates_no_workspace(inside, places, post, api):
    assert post(inside, "/api/v1/workspaces", {"key": "more"})[0] == 403
    assert post(inside, "/api/v1/workspaces/here/fork", {"key": "more"})[0] == 403
    assert post(inside, "/api/v1/workspaces/there/fork", {"key": "more"})[0] == 404
    assert api(inside).post("/api/v1/uploads", b"", content_type="application/x-tar").status_code == 403
    assert set(Workspace.objects.values_list("key", flat=True)) == {"here", "there"}


def test_the_agents_own_token_reaches_all_of_it(agent_token, theirs, inside, post, api):
    own = post(inside, "/api/v1/actions", ASK)[1]
    ids = {a["id"] for a in api(agent_token).get("/api/v1/actions").json()["actions"]}
    assert ids == {own["id"], *(action["id"] for action in theirs)}


def test_a_token_has_no_scopes_that_nobody_asks_about():
    assert "scopes" not in {field.name for field in Token._meta.get_fields()}


def test_one_agent_leaves_room_for_the_others(settings, team, agent_token, post):
    settings.HANDRAIL_AGENT_PENDING_LIMIT = 2
    busy = [post(agent_token, "/api/v1/actions", ASK) for _ in range(3)]
    assert [status for status, _ in busy] == [201, 201, 429]
    assert "actions of claude" in busy[-1][1]["detail"]
    other = type(Token.objects.get().agent).objects.create(team=team, name="other")
    assert post(make_token(team, agent=other), "/api/v1/actions", ASK)[0] == 201
    assert Event.objects.filter(verb="action.submitted").count() == 3


def test_the_agent_of_a_workspace_that_a_person_made_is_named_for_it_and_is_never_another_ones(team):
    environment = Environment.objects.create(team=team, name="default")
    common = {"team": team, "environment": environment, "state": State.READY, "key": "shop"}
    first = Workspace.objects.create(**common, trashed_at=clock.now())
    found = run_tokens.agent_of(first)
    assert (found.name, list(first.bound_agents.all()), run_tokens.agent_of(first)) == ("shop's agent", [found], found)
    second = run_tokens.agent_of(Workspace.objects.create(**common))
    assert (second.pk != found.pk, re.fullmatch("shop's agent [0-9a-f]{6}", second.name) is not None) == (True, True)
