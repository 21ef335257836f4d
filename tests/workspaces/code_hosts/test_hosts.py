"""Pull requests at GitHub, GitLab and Gitea: the real client against a server that answers as their APIs do."""

import asyncio
from dataclasses import replace

import pytest

from tests.support.code_host import TOKEN, CodeHost
from workspaces import code_hosts
from workspaces.code_hosts import Account, PullRequest, Refused, Repository

KINDS = ("github", "gitlab", "gitea")
WANTED = PullRequest("agent/work", "", "Add a cart", "### Commits\n\n- `ab` Add a cart")


@pytest.fixture(params=KINDS)
def host(request):
    made = CodeHost(request.param)
    yield made
    made.close()


@pytest.fixture(params=KINDS)
def two_bases(request):
    made = CodeHost(request.param)
    made.branches |= {"release": "c0ffee2", "topic/a": "c0ffee3"}
    yield made
    made.close()


def opened(host, wanted=WANTED, token=TOKEN, path="team/shop", addresses=(), kind=""):
    account = Account(Repository("127.0.0.1", host.url, path), token, addresses=addresses, kind=kind)

    async def work():
        async with code_hosts.connected(account) as api:
            return await api.open(replace(wanted, base=await api.base_of(wanted)))

    return asyncio.run(work())


def test_a_pull_request_is_opened_into_the_default_branch(host):
    found = opened(host)
    page = {"gitlab": "-/merge_requests"}.get(host.kind, "pull")
    assert (found.number, found.url, found.base, found.is_new) == (1, f"{host.url}/team/shop/{page}/1", "main", True)
    assert host.pulls == [
        {"number": 1, "head": "agent/work", "base": "main", "title": WANTED.title, "body": WANTED.body}
    ]


def test_the_one_that_is_open_is_found_again(host):
    first, again = opened(host), opened(host, replace(WANTED, title="Another", body="text", given=()))
    assert (again.number, again.url, again.base, again.is_new) == (first.number, first.url, "main", False)
    assert [(pull["title"], pull["body"]) for pull in host.pulls] == [(WANTED.title, WANTED.body)]


def test_the_same_branch_may_go_into_two_bases(two_bases):
    host = two_bases
    into = {base: opened(host, replace(WANTED, base=base)).number for base in ("release", "main")}
    again = {base: opened(host, replace(WANTED, base=base)).number for base in ("main", "release")}
    assert (into, again) == ({"release": 1, "main": 2}, {"main": 2, "release": 1})


def test_ours_is_found_on_the_last_page(host):
    host.opens("agent/work", "main")
    for number in range(7):
        host.opens("agent/work" if host.kind != "gitea" else f"other/{number}", "release" if number % 2 else "old")
        host.pulls.insert(0, host.pulls.pop())
    found = opened(host)
    assert (found.number, found.is_new) == (1, False)


def test_a_listing_that_repeats_itself_ends(host):
    host.fork_opens("agent/work")
    host._page = lambda rows, *_: (200, rows, {"Link": f'<{host.url}/api/>; rel="next"'})
    host._is_open = lambda *_: True
    with pytest.raises(Refused, match="has a pull request from agent/work into main already, and lists none"):
        opened(host)
    assert len(host.calls) < 12


def test_texts_that_were_given_replace_those_of_the_open_one(host):
    opened(host)
    again = opened(host, replace(WANTED, title="Given", body="lost", given=("title",)))
    assert (again.updated, again.is_new) == (("title",), False)
    assert [(pull["title"], pull["body"]) for pull in host.pulls] == [("Given", WANTED.body)]


def test_a_draft_is_opened_as_one_and_stays_one(host):
    opened(host, replace(WANTED, draft=True))
    opened(host, replace(WANTED, title="Later", draft=True))
    title = {"github": "Later", "gitlab": "Draft: Later", "gitea": "WIP: Later"}[host.kind]
    assert [(pull["title"], pull.get("draft", False)) for pull in host.pulls] == [(title, host.kind == "github")]
    opened(host, replace(WANTED, title="Latest"))
    assert host.pulls[0]["title"] == title.replace("Later", "Latest")


def test_a_title_that_says_draft_gets_no_second_mark(host):
    mark = {"github": "", "gitlab": "[Draft] ", "gitea": "wip: "}[host.kind]
    opened(host, replace(WANTED, title=f"{mark}x", draft=True))
    assert host.pulls[0]["title"] == f"{mark}x"


def test_a_missing_base_branch_is_named(host):
    with pytest.raises(Refused, match=r"team/shop at 127.0.0.1:\d+ has no branch does-not-exist"):
        opened(host, replace(WANTED, base="does-not-exist"))
    assert (host.pulls, [method for method, _, _ in host.calls if method != "GET"]) == ([], [])


def test_a_base_with_a_slash_is_found(two_bases):
    assert opened(two_bases, replace(WANTED, base="topic/a")).base == "topic/a"


def test_a_repository_that_was_renamed_is_followed(host):
    first, again = opened(host, path="old/shop"), opened(host, path="old/shop")
    assert (first.number, first.is_new, again.number, again.is_new) == (1, True, 1, False)


def test_a_redirect_to_another_origin_gets_no_token(host):
    other = CodeHost(host.kind)
    for target in (f"{other.url}/api/v1/repos/team/shop", "//localhost/x", "https://127.0.0.1/x", "http://[x"):
        host.fails = (301, None, {"Location": target})
        with pytest.raises(Refused, match="it redirects to"):
            opened(host, kind=host.kind)
    assert other.calls == []
    other.close()


def test_redirects_in_a_circle_end(host):
    host.fails = (307, None, {"Location": "/api/round"})
    with pytest.raises(Refused, match="redirects more than three times"):
        opened(host, kind=host.kind)


def test_a_gitea_that_shows_its_version_to_tokens_alone_is_known():
    host = CodeHost("gitea")
    host.requires_signin = True
    assert opened(host).number == 1
    with pytest.raises(Refused, match="does not say which API it has with the token in the secret CODE_HOST_127_0_0_1"):
        opened(host, token="not-that-one")
    host.close()


def test_a_stated_kind_is_not_asked_for(host):
    assert opened(host, kind=host.kind).number == 1
    assert [path for _, path, _ in host.calls if path.endswith(("/version", "/meta"))] == []


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]},
            "Validation Failed; head invalid",
        ),
        ({"message": {"title": ["is too long", "is odd"]}}, "title is too long; title is odd"),
        ({"error": "a\u202eb\n\x1b[31mc."}, "a b [31mc"),
        ({"message": f"your token {TOKEN} may not"}, "your token … may not"),
    ],
)
def test_the_words_of_a_refusal_are_said_cleaned(host, told, words):
    host.fails_to = {"POST": (500, told)}
    with pytest.raises(Refused) as refused:
        opened(host)
    assert f" at {host.url.partition('://')[2]} said 500: {words}." in str(refused.value)


def test_a_wrong_token_is_reported_with_the_name_of_the_secret(host):
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


def test_a_missing_repository_is_named(host):
    with pytest.raises(Refused, match="404"):
        opened(host, path="team/other")


@pytest.mark.parametrize("told", [(500, None), (200, {"odd": 1}), (302, None)])
def test_an_answer_that_makes_no_sense_is_refused(host, told):
    host.fails = told
    with pytest.raises(Refused):
        opened(host)


def test_a_host_without_an_answer_is_named():
    made = CodeHost("gitea")
    made.close()
    with pytest.raises(Refused, match="did not answer"):
        opened(made)


def test_only_the_checked_addresses_are_contacted(host):
    repository = Repository("code.example.org", host.url.replace("127.0.0.1", "code.example.org"), "team/shop")
    account = Account(repository, TOKEN, addresses=("127.0.0.1",))

    async def work():
        async with code_hosts.connected(account) as api:
            return await api.default_branch()

    assert asyncio.run(work()) == "main"


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
def test_an_unknown_address_has_no_code_host(address):
    assert code_hosts.repository_of(address) is None
