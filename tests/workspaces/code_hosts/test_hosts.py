"""Pull requests at GitHub, GitLab and Gitea: the real client against a server that answers as their APIs do."""

import asyncio

import pytest

from tests.support.code_host import TOKEN, CodeHost
from workspaces import code_hosts
from workspaces.code_hosts import PullRequest, Refused, Repository

KINDS = ("github", "gitlab", "gitea")
WANTED = PullRequest("agent/work", "", "Add a cart", "### Commits\n\n- `ab` Add a cart")


@pytest.fixture(params=KINDS)
def host(request):
    made = CodeHost(request.param)
    yield made
    made.close()


def opened(host, wanted=WANTED, token=TOKEN, path="team/shop", addresses=()):
    repository = Repository("127.0.0.1", host.url, path)
    return asyncio.run(code_hosts.open_pull_request(repository, wanted, token, addresses))


def test_it_is_opened_into_the_default_branch(host):
    found = opened(host)
    page = {"gitlab": "-/merge_requests"}.get(host.kind, "pull")
    assert (found.number, found.url, found.base, found.is_new) == (1, f"{host.url}/team/shop/{page}/1", "main", True)
    assert host.pulls == [
        {"number": 1, "head": "agent/work", "base": "main", "title": WANTED.title, "body": WANTED.body}
    ]


def test_the_one_that_is_open_is_found_again(host):
    first = opened(host, PullRequest("agent/work", "release", "one", "x"))
    again = opened(host)
    assert (again.number, again.url, again.base, again.is_new) == (first.number, first.url, "release", False)
    assert len(host.pulls) == 1


def test_a_wrong_token_is_said_with_the_name_of_the_secret(host):
    with pytest.raises(Refused) as refused:
        opened(host, token="not-that-one")
    port = host.url.rpartition(":")[2]
    assert "401" in str(refused.value)
    assert f"Check the secret CODE_HOST_127_0_0_1_{port}." in str(refused.value)
    assert "not-that-one" not in str(refused.value)
    assert host.pulls == []


def test_a_branch_into_itself_is_refused(host):
    with pytest.raises(Refused, match="needs a branch of its own"):
        opened(host, PullRequest("main", "", "x", "y"))


@pytest.mark.parametrize("branch", ["main", "Main", "refs/heads/main", "heads/main"])
@pytest.mark.parametrize("base", ["", "main", "refs/heads/main"])
def test_no_spelling_of_a_branch_goes_into_itself(host, branch, base):
    with pytest.raises(Refused, match="needs a branch of its own"):
        opened(host, PullRequest(branch, base, "x", "y"))
    assert host.pulls == []


@pytest.mark.parametrize("is_deleted", [False, True])
def test_the_open_request_of_a_fork_is_not_ours(host, is_deleted):
    host.fork_opens("agent/work", is_deleted=is_deleted)
    first, again = opened(host), opened(host)
    assert (first.number, first.is_new) == (again.number, not again.is_new) == (2, True)


def test_a_repository_that_is_not_there_is_said(host):
    with pytest.raises(Refused, match="404"):
        opened(host, path="team/other")


@pytest.mark.parametrize("told", [(500, None), (200, {"odd": 1}), (302, None)])
def test_an_answer_that_makes_no_sense_is_refused(host, told):
    host.fails = told
    with pytest.raises(Refused):
        opened(host)


def test_a_host_that_does_not_answer_is_said():
    made = CodeHost("gitea")
    made.close()
    with pytest.raises(Refused, match="did not answer"):
        opened(made)


def test_only_the_checked_addresses_are_contacted(host):
    repository = Repository("code.example.org", host.url.replace("127.0.0.1", "code.example.org"), "team/shop")
    found = asyncio.run(code_hosts.open_pull_request(repository, WANTED, TOKEN, ("127.0.0.1",)))
    assert found.number == 1


@pytest.mark.parametrize(
    ("address", "base", "path", "token"),
    [
        ("https://github.com/team/shop.git", "https://github.com", "team/shop", "CODE_HOST_GITHUB_COM"),
        ("git@gitlab.com:group/sub/shop.git", "https://gitlab.com", "group/sub/shop", "CODE_HOST_GITLAB_COM"),
        ("ssh://git@git.example.org:2222/a/b", "https://git.example.org", "a/b", "CODE_HOST_GIT_EXAMPLE_ORG"),
        ("http://localhost:3000/a/b", "http://localhost:3000", "a/b", "CODE_HOST_LOCALHOST_3000"),
    ],
)
def test_a_git_address_leads_to_a_repository(address, base, path, token):
    found = code_hosts.repository_of(address)
    assert (found.base, found.path, found.token_name) == (base, path, token)


@pytest.mark.parametrize(
    "address", ["", "/srv/shop", "file:///srv/shop", "https://github.com/shop", "https://x/../y/z"]
)
def test_other_addresses_lead_to_none(address):
    assert code_hosts.repository_of(address) is None
