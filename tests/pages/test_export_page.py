"""The Export page without a runner: what it offers to whom, and the pull requests that are kept."""

import pytest

from dashboard import clock
from dashboard.models import Actor
from workspaces import secrets
from workspaces.models import PullRequest
from workspaces.services import pull_requests

from .conftest import make_workspace

HERE = "/w/payments/shop/export/"


@pytest.fixture
def shop(team, agent):
    return make_workspace(team, agent, "shop", source={"git": "https://git.example.org/team/shop.git"})


def test_a_workspace_without_a_repository_cannot_push(workspace, lena, browser_of, read):
    text = read(browser_of(lena), "/w/payments/repo-task-1/export/")
    assert "It was not created from a git address, so there is nowhere to push." in text
    assert "Pull request" not in text
    assert "?from=1&amp;to=live" in text


def test_a_viewer_downloads_and_pushes_nothing(shop, vera, browser_of, read):
    client = browser_of(vera)
    text = read(client, HERE)
    assert "All files as a zip" in text
    assert "A lead can push." in text
    for address in ("push", "pull-request", "bundle"):
        assert client.post(f"/w/payments/shop/{address}/", {"branch": "x"}).status_code == 403


def test_without_a_token_it_says_which_secret_to_set(shop, team, lena, browser_of, read):
    text = read(browser_of(lena), HERE)
    assert "There is no token for git.example.org." in text
    assert 'href="/secrets/new/?name=CODE_HOST_GIT_EXAMPLE_ORG"' in text
    secrets.put(team, "CODE_HOST_GIT_EXAMPLE_ORG", "host", "the-token", by=_by(lena))
    assert "There is no token for git.example.org." in read(browser_of(lena), HERE)
    origin = {"origin": "https://git.example.org", "replace": True}
    secrets.put(team, "CODE_HOST_GIT_EXAMPLE_ORG", "host", "the-token", **origin, by=_by(lena))
    text = read(browser_of(lena), HERE)
    assert "Push and open it at git.example.org" in text
    assert "the-token" not in text


def test_a_token_for_the_agent_is_none_for_pull_requests(shop, team, lena):
    secrets.put(team, "CODE_HOST_GIT_EXAMPLE_ORG", "agent", "another", by=_by(lena))
    assert pull_requests.has_token(shop) is False
    assert secrets.for_code_host(team, "CODE_HOST_GIT_EXAMPLE_ORG") == ""


def test_pull_requests_stay_with_the_workspace(shop, bob, browser_of, read):
    now = clock.now()
    PullRequest.objects.create(
        workspace=shop, number=7, url="https://git.example.org/team/shop/pulls/7", branch="agent/x", base="main",
        title="Count <b>items</b>", sha="ab" * 20, by={"label": "lena"}, opened_at=now, pushed_at=now,
    )  # fmt: skip
    text = read(browser_of(bob), HERE)
    assert '<a class="row-title" href="https://git.example.org/team/shop/pulls/7" rel="noreferrer">' in text
    assert "Count &lt;b&gt;items&lt;/b&gt;" in text


def test_a_fork_knows_where_its_origin_came_from(team, agent):
    source = {"fork": {"workspace": "shop", "snapshot": 1, "id": "x", "git": "https://git.example.org/team/shop.git"}}
    fork = make_workspace(team, agent, "shop-fork", source=source)
    assert pull_requests.repository_of(fork).path == "team/shop"


def _by(user):
    return Actor.person(user)
