"""The Export page without a runner: what it offers to whom, and the pull requests that are kept."""

import html
import re
import uuid

import pytest

from dashboard.database import clock
from dashboard.models import Actor
from workspaces import secrets
from workspaces.models import Operation, Phase, PullRequest
from workspaces.services import git_export, pull_requests, pushed

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
    filled = "name=CODE_HOST_GIT_EXAMPLE_ORG&scope=host&origin=https%3A%2F%2Fgit.example.org"
    assert f'href="/secrets/new/?{filled}"' in html.unescape(text)
    secrets.save(team, "CODE_HOST_GIT_EXAMPLE_ORG", "host", "the-token", by=_by(lena))
    assert "There is no token for git.example.org." in read(browser_of(lena), HERE)
    origin = {"origin": "https://git.example.org", "replace": True}
    secrets.save(team, "CODE_HOST_GIT_EXAMPLE_ORG", "host", "the-token", **origin, by=_by(lena))
    text = read(browser_of(lena), HERE)
    assert "Push and open it at git.example.org" in text
    assert "the-token" not in text


def test_a_token_for_the_agent_is_none_for_pull_requests(shop, team, lena):
    secrets.save(team, "CODE_HOST_GIT_EXAMPLE_ORG", "agent", "another", by=_by(lena))
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


# Pushes, by their rows ------------------------------------------------------------------------------------------------

SHA = "7c19e04b" + "a" * 32
REFUSED = {
    "ok": False, "reason": "The repository refused agent/x.", "reason_code": "refused",
    "remote": ["POLICY: needs a ticket", "ask <b>release</b>\u202e@example.org"],
}  # fmt: skip
BEHIND = {
    "ok": False, "reason": "agent/x has 1 commit that is not here.", "reason_code": "behind",
    "missing": [{"sha": "69fe3c7" + "0" * 33, "subject": "theirs <i>"}],
}  # fmt: skip
ARRIVED = {"ok": True, "reason": "Pushed 7c19e04b to agent/x.", "pushed": {"branch": "agent/x", "sha": SHA, "from": ""}}


@pytest.fixture
def push(shop):
    """`push(outcome)`: the row of a push that is over, or of one under way."""

    def make(outcome=None, *, branch="agent/x", kind="push", label="lena", **more):
        phase = Phase.STARTED if outcome is None else Phase.SETTLED
        args = {"branch": branch, "sha": SHA, "seen": "", "remote": shop.remote} | more
        times = {"due_at": clock.now(), "settled_at": clock.now() if outcome else None}
        by = {"type": "person", "id": "1", "label": label}
        return Operation.objects.create(
            workspace=shop, kind=kind, args=args, phase=phase, outcome=outcome, by=by, **times
        )

    return make


def test_while_it_pushes_the_page_says_so_and_has_no_second_button(push, lena, browser_of, read):
    push()
    text = read(browser_of(lena), HERE)
    assert "Pushing 7c19e04baa to agent/x" in text
    assert re.search(r'<button class="primary" disabled>\s*Push', text)
    assert f'hx-get="{HERE}"' in text
    assert 'action="/w/payments/shop/push/"' not in text


def test_what_arrived_is_reported_and_listed(push, shop, lena, browser_of, read):
    over = push(ARRIVED)
    push(ARRIVED | {"pushed": {"branch": "agent/y", "sha": SHA, "from": "ab" * 20}}, branch="agent/y", label="bob")
    client = browser_of(lena)
    text = read(client, f"{HERE}?operation={over.pk}")
    assert "Pushed 7c19e04b to agent/x." in text
    assert "<code>agent/x</code> is new there." in text
    assert re.search(r"agent/y</code>.*pushed by bob.*agent/x</code>.*pushed by lena", text, re.DOTALL)
    page = read(client, f"/w/payments/shop/operations/{over.pk}/")
    assert "Pushed 7c19e04b to agent/x." in page
    assert client.get(f"{HERE}?operation={uuid.uuid4()}").status_code == 404


def test_a_refusal_stands_beside_what_was_typed_with_the_hosts_words_and_another_branch(push, lena, browser_of, read):
    over = push(REFUSED)
    client = browser_of(lena)
    text = read(client, f"{HERE}?operation={over.pk}")
    assert "POLICY: needs a ticket" in text
    assert ("&lt;b&gt;release&lt;/b&gt;" in text, "\u202e" in text) == (True, False)
    assert 'href="/w/payments/shop/export/?branch=handrail%2Fshop"' in text
    assert 'name="branch" value="agent/x"' in text
    assert f'href="{HERE}?operation={over.pk}"' in read(client, f"/w/payments/shop/operations/{over.pk}/")


def test_a_push_that_may_still_arrive_is_shown_as_unknown_in_both_places(push, lena, browser_of, read):
    over = push({"ok": False, "uncertain": True, "reason": "The host hung up.", "reason_code": "source"})
    client = browser_of(lena)
    for address in (f"{HERE}?operation={over.pk}", f"/w/payments/shop/operations/{over.pk}/"):
        text = read(client, address)
        assert re.search(r"Outcome unknown\.\s+The host hung up\.", text)
        assert re.search(r'id="push-outcome"\s+role="status"\s+data-tone="amber"', text)


def test_the_commits_that_are_missing_here_are_listed(push, lena, browser_of, read):
    over = push(BEHIND, branch="handrail/shop")
    text = read(browser_of(lena), f"{HERE}?operation={over.pk}")
    assert re.search(r"<code>69fe3c7000</code>\s*theirs &lt;i&gt;", text)
    assert "Push to handrail/shop-2 instead" in text


def test_pushes_are_remembered_until_the_source_has_less_or_is_another(push, shop):
    push(ARRIVED)
    assert [(each.branch, each.sha, each.label) for each in pushed.newest_pushes(shop)] == [("agent/x", SHA, "lena")]
    push({"ok": False, "reason": "403", "pushed": ARRIVED["pushed"] | {"branch": "b"}}, kind="pull_request")
    assert [each.branch for each in pushed.newest_pushes(shop)] == ["b", "agent/x"]
    push(REFUSED)
    assert pushed.pushed_commits(shop) == {"b": SHA, "agent/x": SHA}
    shop.source = {"git": "https://git.example.org/team/other.git"}
    assert pushed.pushed_commits(shop) == {}
    shop.refresh_from_db()
    push(REFUSED | {"forgets": True})
    assert pushed.pushed_commits(shop) == {}


def test_a_push_to_the_default_branch_takes_a_second_look(shop, lena, browser_of):
    shop.source |= {"default_branch": "main"}
    shop.save()
    client, shown = browser_of(lena), {"sha": SHA, "seen": "x"}
    asked = client.post("/w/payments/shop/push/", {"branch": "Main"} | shown).content.decode()
    assert "main is the default branch of https://git.example.org/team/shop.git." in asked
    assert f'<input type="hidden" name="sha" value="{SHA}">' in asked
    assert Operation.objects.filter(workspace=shop).count() == 0
    answer = client.post("/w/payments/shop/push/", {"branch": "main", "confirmed": "yes"} | shown)
    made = Operation.objects.get(workspace=shop)
    assert (answer.url, made.args["branch"]) == (f"{HERE}?operation={made.pk}", "main")


def test_a_branch_is_proposed(shop):
    assert git_export.proposed_branch(shop, "fix/1", is_there=False) == "fix/1"
    assert git_export.proposed_branch(shop, "trunk", is_there=True) == "handrail/shop"
    shop.source |= {"default_branch": "trunk"}
    assert git_export.proposed_branch(shop, "release", is_there=True) == "release"
    for current in ("trunk", ""):
        assert git_export.proposed_branch(shop, current, is_there=False) == "handrail/shop"
    shop.key = "a..b.lock."
    assert git_export.own_branch(shop) == "handrail/a.b"
