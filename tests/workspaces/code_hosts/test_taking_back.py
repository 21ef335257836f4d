"""What was opened or written at GitHub, GitLab and Gitea is taken back by the real client, and only what still fits."""

import asyncio
from datetime import UTC, datetime

import pytest

from tests.support.code_host import TOKEN
from tests.support.code_host_records import FullCodeHost
from workspaces import code_hosts
from workspaces.code_hosts import Account, Refused, Repository


@pytest.fixture(params=("github", "gitlab", "gitea"))
def host(request):
    made = FullCodeHost(request.param)
    made.most = 50
    made.issues[5] = {"state": "open", "labels": ["bug"]}
    made.labels = {"bug": 11, "urgent": 12}
    made.comments, made.releases = {77: "text"}, {"v1": 3}
    made.reviews = {5: {"state": "APPROVED", "submitted_at": "2026-11-30T00:10:00Z"}}
    yield made
    made.close()


def asked(host, work):
    account = Account(Repository("127.0.0.1", host.url, "team/shop"), TOKEN)

    async def run():
        async with code_hosts.connected(account) as api:
            return await work(api)

    return asyncio.run(run())


def takes_back(host, **step) -> list[bool]:
    """Take a step back; return whether it was done before, and is after."""

    async def work(api):
        before = await api.is_taken_back(step)
        await api.take_back(step)
        return [before, await api.is_taken_back(step)]

    return asked(host, work)


def test_a_pull_request_is_closed_and_opened_again(host):
    assert takes_back(host, do="close_pull_request", number=5) == [False, True]
    assert host.closed == {5}
    assert takes_back(host, do="reopen_pull_request", number=5) == [False, True]
    assert host.closed == set()


def test_a_merged_pull_request_no_longer_fits(host):
    host.merged.add(5)
    with pytest.raises(Refused, match=r"5 was merged at 127\.0\.0\.1:\d+ meanwhile"):
        takes_back(host, do="close_pull_request", number=5)
    assert [method for method, _, _ in host.calls if method != "GET"] == []


def test_an_issue_is_closed_and_opened_again(host):
    assert takes_back(host, do="close_issue", number=5) == [False, True]
    assert host.issues[5]["state"] == "closed"
    assert takes_back(host, do="reopen_issue", number=5) == [False, True]
    assert host.issues[5]["state"] == "open"


def test_a_comment_is_deleted_once(host):
    step = {"do": "delete_comment", "number": 5, "comment": 77, "on": "issue"}
    assert (takes_back(host, **step), host.comments) == ([False, True], {})
    assert takes_back(host, **step) == [True, True]


@pytest.mark.parametrize("host", ["github"], indirect=True)
def test_a_comment_on_a_line_is_not_that_of_the_same_number_on_the_pull_request(host):
    host.line_comments = {77: "text"}
    step = {"do": "delete_comment", "number": 5, "comment": 77, "on": "line"}
    assert (takes_back(host, **step), host.line_comments, host.comments) == ([False, True], {}, {77: "text"})


def test_labels_of_an_issue_are_removed_and_added_again(host):
    assert takes_back(host, do="remove_label", number=5, label="bug", on="issue") == [False, True]
    assert takes_back(host, do="add_label", number=5, label="urgent", on="issue") == [False, True]
    assert host.issues[5]["labels"] == ["urgent"]


def test_a_label_and_a_release_are_deleted(host):
    assert takes_back(host, do="delete_label", label="urgent") == [False, True]
    assert takes_back(host, do="delete_release", tag="v1") == [False, True]
    assert (host.labels, host.releases) == ({"bug": 11}, {})


def test_a_review_is_dismissed(host):
    assert takes_back(host, do="dismiss_review", number=5, review=5) == [False, True]


def test_the_reviews_since_a_moment_are_those_that_the_host_names(host):
    began = datetime(2026, 11, 30, 0, 9, tzinfo=UTC)
    found = asked(host, lambda api: api.reviews_since(5, began))
    assert found == ([] if host.kind == "gitlab" else [5])
    assert asked(host, lambda api: api.reviews_since(5, began.replace(minute=11))) == []


def test_what_is_not_there_any_more_is_refused_in_the_hosts_words(host):
    with pytest.raises(Refused, match="said 404"):
        takes_back(host, do="close_issue", number=6)
