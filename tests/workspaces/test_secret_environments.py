"""Secrets belong to the source that they were given for, and to the agents that their environment names."""

import json

import pytest

from dashboard.models import Agent
from dashboard.people.access import caller_of
from dashboard.people.tokens import make_token
from dashboard.problems import Problem
from workspaces.models import Environment, Snapshot, State, Workspace
from workspaces.provisioning import uploads
from workspaces.runner import rootfs
from workspaces.services import environments

ADDRESS = "/srv/shop"


@pytest.fixture(autouse=True)
def sources(settings, tmp_path):
    settings.HANDRAIL_LOCAL_SOURCES = [tmp_path]
    for name in ("shop", "mine"):
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.fixture
def shop(team, sources):
    return Environment.objects.create(
        team=team,
        name="shop",
        repository=str(sources / "shop"),
        ref="main",
        setup="npm ci",
        secrets={"setup": ["NPM_TOKEN"], "agent": ["API_KEY"]},
        agents=["claude"],
    )


@pytest.fixture
def send(api):
    def post(token, path, body):
        response = api(token).post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
        return response.status_code, response.json()

    return post


@pytest.fixture
def stranger_token(team):
    return make_token(team, agent=Agent.objects.create(team=team, name="unnamed"))


@pytest.fixture
def made(shop, agent):
    """A workspace of it, as the named agent made it, with a snapshot."""
    workspace = Workspace.objects.create(
        team=shop.team,
        key="made",
        environment=shop,
        state=State.READY,
        source={"git": shop.repository, "ref": "main", "sha": "0" * 40},
        created_by_agent=agent,
    )
    workspace.baseline = workspace.head = snapshot(workspace, 1)
    workspace.save()
    return workspace


def snapshot(workspace, number) -> Snapshot:
    fields = {"tree": b"\0" * 32, "kind": "setup", "entries": 0, "bytes": 0, "added_bytes": 0}
    return Snapshot.objects.create(workspace=workspace, number=number, created_at=workspace.created_at, **fields)


def keys() -> list[str]:
    return sorted(Workspace.objects.values_list("key", flat=True))


def test_a_named_agent_gets_it_with_its_own_source(shop, send, agent_token):
    own = {"git": shop.repository, "ref": "main"}
    assert send(agent_token, "/workspaces", {"key": "one", "environment": "shop"})[0] == 201
    assert send(agent_token, "/workspaces", {"key": "two", "environment": "shop", "source": own})[0] == 201
    assert [w.source for w in Workspace.objects.order_by("key")] == [own, own]


@pytest.mark.parametrize("what", ["git", "ref", "upload", "setup"])
def test_an_agent_brings_nothing_else_to_it(shop, send, agent_token, sources, what, monkeypatch):
    upload = "0" * 32
    (sources / "a.tar").touch()
    monkeypatch.setattr(uploads, "find", lambda team_id, made: sources / "a.tar")
    wish = {
        "git": {"source": {"git": str(sources / "mine")}},
        "ref": {"source": {"git": shop.repository, "ref": "agent/work"}},
        "upload": {"source": {"upload": upload}},
        "setup": {"setup": "env > /workspace/env"},
    }[what]
    status, told = send(agent_token, "/workspaces", {"key": "one", "environment": "shop"} | wish)
    assert (status, keys()) == (422 if what == "setup" else 403, [])
    assert what == "setup" or "with the environment's own source" in told["detail"]


def test_an_agent_that_is_not_named_gets_none(shop, send, stranger_token):
    status, told = send(stranger_token, "/workspaces", {"key": "one", "environment": "shop"})
    assert (status, "unnamed isn't one of its agents" in told["detail"], keys()) == (403, True, [])


@pytest.mark.parametrize("wish", [{}, {"driver": "sandbox"}, {"environment": "default"}])
def test_nor_the_default_one_once_that_has_secrets(team, send, agent_token, wish):
    Environment.objects.create(team=team, name="default", secrets={"agent": ["API_KEY"]})
    assert (send(agent_token, "/workspaces", {"key": "one"} | wish)[0], keys()) == (403, [])


def test_without_secrets_any_agent_and_any_source(shop, send, stranger_token, sources):
    Environment.objects.update(secrets={})
    wish = {"key": "one", "environment": "shop", "source": {"git": str(sources / "mine")}}
    assert send(stranger_token, "/workspaces", wish)[0] == 201


def test_a_person_chooses_freely(shop, send, token_of, lena, sources):
    wish = {"key": "one", "environment": "shop", "source": {"git": str(sources / "mine")}}
    assert send(token_of(lena), "/workspaces", wish)[0] == 201


def test_a_fork_takes_the_same_leave(made, send, agent_token, stranger_token):
    stranger = Agent.objects.get(name="unnamed")
    made.bound_agents.add(stranger)
    assert send(stranger_token, "/workspaces/made/fork", {"key": "theirs"})[0] == 403
    Workspace.objects.update(source={"upload": "0" * 32})
    assert send(agent_token, "/workspaces/made/fork", {"key": "other"})[0] == 403
    Workspace.objects.update(source=made.source)
    assert send(agent_token, "/workspaces/made/fork", {"key": "own"})[0] == 201
    assert keys() == ["made", "own"]


def test_the_set_up_does_not_run_again_on_an_agents_files(made, lena):
    with pytest.raises(Problem, match="an agent may have changed"):
        environments.rebuild(made, by=caller_of(lena).actor)
    assert not made.operations.exists()


def test_a_workspace_of_other_files_does_not_come_to_the_secrets_later(made, lena, team, sources):
    older = Environment.objects.create(team=team, name="web")
    Workspace.objects.filter(pk=made.pk).update(environment=older, source={"git": str(sources / "mine"), "ref": ""})
    made.refresh_from_db()
    Environment.objects.create(team=team, name="web", version=2, secrets={"agent": ["API_KEY"]}, agents=["claude"])
    for change in (environments.adopt, environments.rebuild):
        with pytest.raises(Problem, match="with the environment's own source"):
            change(made, by=caller_of(lena).actor)
    made.refresh_from_db()
    assert made.environment == older


@pytest.mark.parametrize("before", [False, True])
def test_nor_does_a_fork_of_other_files(made, lena, send, agent_token, team, sources, before):
    """Also a fork made `before` forks kept the source that their files came from."""
    older = Environment.objects.create(team=team, name="web")
    Workspace.objects.filter(pk=made.pk).update(environment=older, source={"upload": "0" * 32})
    assert send(agent_token, "/workspaces/made/fork", {"key": "fork"})[0] == 201
    fork = Workspace.objects.get(key="fork")
    fork.state = State.READY
    if before:
        del fork.source["fork"]["origin"]
    fork.save()
    Environment.objects.create(team=team, name="web", version=2, secrets={"agent": ["API_KEY"]}, agents=["claude"])
    for change in (environments.adopt, environments.rebuild):
        with pytest.raises(Problem, match="with the environment's own source"):
            change(fork, by=caller_of(lena).actor)
    assert Workspace.objects.get(key="fork").environment == older


@pytest.mark.parametrize("before", [False, True])
def test_a_fork_of_the_environments_own_source_does(made, lena, send, agent_token, shop, before):
    assert send(agent_token, "/workspaces/made/fork", {"key": "fork"})[0] == 201
    fork = Workspace.objects.get(key="fork")
    fork.baseline = fork.head = snapshot(fork, 1)
    fork.save()
    if before:
        del fork.source["fork"]["origin"]
        fork.save()
    fields = {"repository": shop.repository, "ref": "main", "agents": ["claude"], "secrets": {"agent": ["API_KEY"]}}
    newest = Environment.objects.create(team=shop.team, name="shop", version=2, **fields)
    environments.adopt(fork, by=caller_of(lena).actor)
    assert Workspace.objects.get(key="fork").environment == newest


def test_what_a_set_up_installs_again_for_a_fork_is_made_from_the_origins_files(made, agent):
    late = snapshot(made, 2)
    source = {"fork": {"workspace": "made", "snapshot": 2, "id": str(late.pk)}}
    fork = Workspace.objects.create(team=made.team, key="fork", environment=made.environment, source=source)
    fork.baseline = fork.head = snapshot(fork, 1)
    fork.save()
    assert rootfs._origin(fork) == made
    late.delete()
    with pytest.raises(rootfs.DriverError, match="an agent may have changed"):
        rootfs._origin(fork)


def test_the_agents_are_set_and_shown_by_api_and_page(shop, send, api, token_of, lena, agent_token, browser_of):
    assert send(token_of(lena), "/environments", {"name": "shop", "agents": ["nobody"]})[0] == 422
    Agent.objects.create(team=shop.team, name="codex")
    status, told = send(token_of(lena), "/environments", {"name": "shop", "agents": ["codex", "codex"]})
    assert (status, told["version"], told["agents"]) == (201, 2, ["codex"])
    listed = api(agent_token).get("/api/v1/environments").json()["environments"]
    assert [(e["name"], e["agents"]) for e in listed] == [("shop", ["codex"])]
    newest = Environment.objects.get(version=2)
    assert newest.secrets == shop.secrets
    page = browser_of(lena).get(f"/environments/{newest.pk}/edit/").content.decode()
    assert 'name="agents" value="codex"' in page
    assert "so only these agents" in browser_of(lena).get(f"/environments/{newest.pk}/").content.decode()
    assert send(agent_token, "/workspaces", {"key": "one", "environment": "shop"})[0] == 403
