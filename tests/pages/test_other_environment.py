"""A tree under another environment: who may, what the pages offer, and what is refused in words."""

import json

import pytest

from dashboard.models import Event
from dashboard.people.access import caller_of
from workspaces import lifecycle
from workspaces.models import Environment, Operation, State, Workspace
from workspaces.provisioning import eligibility

AT = "/w/payments/repo-task-1/"


@pytest.fixture
def web(team):
    return Environment.objects.create(team=team, name="web", setup="make web")


@pytest.fixture
def send(api):
    def post(token, path, body):
        response = api(token).post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
        return response.status_code, response.json()

    return post


def names_on(page: str) -> list[str]:
    return [name for name in ("web", "cabin") if f'<option value="{name}"' in page]


def test_a_fork_is_made_under_another_environment_on_the_page(workspace, web, lena, browser_of, read):
    Environment.objects.create(team=workspace.team, name="cabin", driver="docker")  # which no host here offers
    assert names_on(read(browser_of(lena), f"{AT}snapshots/1/fork/")) == ["web"]
    browser_of(lena).post(f"{AT}snapshots/1/fork/", {"key": "under-web", "environment": "web"})
    made = Workspace.objects.get(key="under-web")
    assert (made.environment, made.base, made.source["fork"]["was"]) == (web, {}, "default v1")
    assert made.forked_from == workspace
    data = {"key": "under-web", "from": "repo-task-1", "snapshot": 1, "environment": "web v1"}
    assert Event.objects.get(verb="workspace.forked").data == data


def test_without_a_choice_a_fork_has_the_same_environment(workspace, web, lena, browser_of):
    browser_of(lena).post(f"{AT}snapshots/1/fork/", {"key": "same", "environment": ""})
    made = Workspace.objects.get(key="same")
    assert (made.environment, sorted(made.source["fork"])) == (
        workspace.environment,
        ["id", "origin", "snapshot", "workspace"],
    )


def test_an_unknown_environment_changes_nothing(workspace, lena, browser_of, read):
    answer = browser_of(lena).post(f"{AT}snapshots/1/fork/", {"key": "other", "environment": "nowhere"})
    assert "There is no environment named &#x27;nowhere&#x27;." in answer.content.decode()
    assert not Workspace.objects.filter(key="other").exists()


def test_an_agent_forks_under_another_one_unless_that_has_secrets(workspace, web, send, agent_token):
    status, told = send(agent_token, "/workspaces/repo-task-1/fork", {"key": "one", "environment": "web"})
    assert (status, told["environment"], told["environment_version"]) == (201, "web", 1)
    Environment.objects.filter(pk=web.pk).update(
        secrets={"agent": ["API_KEY"]}, agents=["claude"], repository="https://git.example.org/web"
    )
    status, told = send(agent_token, "/workspaces/repo-task-1/fork", {"key": "two", "environment": "web"})
    assert (status, "only with the environment's own source" in told["detail"]) == (403, True)


def test_a_set_up_with_secrets_does_not_run_on_these_files(workspace, web, send, token_of, lena):
    Environment.objects.filter(pk=web.pk).update(secrets={"setup": ["NPM_TOKEN"]})
    status, told = send(token_of(lena), "/workspaces/repo-task-1/fork", {"key": "one", "environment": "web"})
    assert (status, "an agent may have changed the files" in told["detail"]) == (409, True)


def test_files_that_came_from_elsewhere_stay_strange_in_a_fork_of_the_fork(workspace, web, lena, agent):
    Workspace.objects.filter(pk=workspace.pk).update(source={"git": "https://git.example.org/mine", "ref": ""})
    workspace.refresh_from_db()
    first = lifecycle.fork(workspace, "first", caller=caller_of(lena), number=1, environment="web")
    first.head = workspace.head
    first.save()
    second = lifecycle.fork(first, "second", caller=caller_of(lena))
    assert (second.source["fork"].get("foreign"), "was" in second.source["fork"]) == (True, False)
    later = Environment(team=web.team, name="web", version=2, secrets={"agent": ["API_KEY"]}, agents=["claude"])
    assert "own source" in eligibility.why_not(later, second.source, agent)


@pytest.fixture
def at_rest(workspace):
    Workspace.objects.filter(pk=workspace.pk).update(state=State.PAUSED)
    return workspace


def test_a_lead_returns_under_another_environment(at_rest, web, lena, browser_of, read):
    Environment.objects.create(team=at_rest.team, name="cabin", driver="docker")
    page = read(browser_of(lena), f"{AT}return/")
    assert (names_on(page), "The same files under another environment" in page) == (["web"], True)
    browser_of(lena).post(f"{AT}return/", {"choice": "environment", "environment": "web"})
    operation = Operation.objects.get()
    assert (operation.kind, operation.args) == ("rebuild", {"environment": str(web.pk), "then_resume": True})


def test_no_agent_may_change_the_environment(at_rest, web, send, agent_token):
    wish = {"choice": "environment", "environment": "web"}
    assert send(agent_token, "/workspaces/repo-task-1/return", wish)[0] == 403
    assert not Operation.objects.exists()


@pytest.mark.parametrize(
    ("environment", "status", "words"),
    [
        (None, 422, "Name the environment to return under."),
        ("nowhere", 422, "There is no environment named 'nowhere'."),
        ("default", 409, "repo-task-1 is of default already."),
        ("cabin", 409, "Fork it under cabin instead."),
        ("secret", 409, "only with the environment's own source"),
    ],
)
def test_what_is_not_possible_is_refused(at_rest, send, token_of, lena, environment, status, words):
    Environment.objects.create(team=at_rest.team, name="cabin", driver="docker")
    address = "https://git.example.org/x"
    fields = {"secrets": {"agent": ["API_KEY"]}, "agents": ["claude"], "repository": address}
    Environment.objects.create(team=at_rest.team, name="secret", **fields)
    wish = {"choice": "environment"} | ({"environment": environment} if environment else {})
    answer = send(token_of(lena), "/workspaces/repo-task-1/return", wish)
    assert (answer[0], words in answer[1]["detail"]) == (status, True)
    assert not Operation.objects.exists()
