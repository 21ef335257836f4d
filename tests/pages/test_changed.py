"""What changed in a span over all workspaces: the page, and the same over the API."""

from datetime import timedelta

import pytest
from django.utils import timezone

from approvals.models import Action
from dashboard.database import clock
from workspaces.models import Snapshot, State

from .conftest import keep_tree, make_command, make_workspace

SHOP = "https://git.example.org/acme/shop.git"


@pytest.fixture
def changed(team, agent, tmp_path):
    """`changed("shop-1", SHOP)`: a workspace that had a file two days ago, and has two more lines since an hour."""

    def make(key, repository="", **fields):
        workspace = make_workspace(team, agent, key, state=State.STOPPED, source={"git": repository}, **fields)
        before = keep_tree(team, tmp_path / key, {"a.py": "one\n"})
        after = keep_tree(team, tmp_path / key, {"a.py": "one\ntwo\nthree\n"})
        now = clock.now()
        workspace.snapshots.filter(number=1).update(tree=before, created_at=now - timedelta(days=2))
        workspace.snapshots.filter(number=2).update(tree=after, created_at=now - timedelta(hours=1))
        return workspace

    return make


def ran(action, workspace, tier=None):
    fields = {"tier": tier} if tier else {}
    Action.objects.filter(pk=action.pk).update(consumed_at=clock.now(), workspace=workspace, **fields)


def since(days):
    return f"{(timezone.localtime() - timedelta(days=days)).date()}"


def test_a_row_has_lines_files_and_leads_to_the_difference(changed, alice, browser_of, read):
    changed("shop-1", SHOP)
    text = read(browser_of(alice), f"/changed/?since={since(1)}")
    assert 'href="/w/payments/shop-1/changes/?from=1&amp;to=2"' in text
    assert '<span class="plus" title="lines added">+2</span>' in text
    assert "in 1 file" in text
    assert "<h2> git.example.org/acme/shop </h2>" in text
    assert "1 workspace changed." in text


def test_what_changed_before_the_span_is_not_listed(changed, alice, browser_of, read):
    changed("shop-1", SHOP)
    Snapshot.objects.filter(number=2).update(created_at=clock.now() - timedelta(days=3))
    client = browser_of(alice)
    assert "No snapshot was taken in this time." in read(client, f"/changed/?since={since(1)}")
    assert "shop-1" in read(client, f"/changed/?since={since(5)}&until={since(1)}")


def test_changes_are_grouped_by_repository_agent_or_risk(changed, ask, alice, browser_of, read, agent):
    first, second = changed("shop-1", SHOP), changed("infra-1", "https://git.example.org/acme/infra.git")
    ran(ask({"command": "ls"}), first, "medium")
    ran(ask({"command": "pwd"}), second, "high")
    client = browser_of(alice)

    def heads(by):
        sections = read(client, f"/changed/?since={since(1)}&by={by}").split('<section class="section">')[1:]
        return [(part.split("<h2>")[1].split("</h2>")[0].strip(), "shop-1" in part) for part in sections]

    assert heads("repository") == [("git.example.org/acme/infra", False), ("git.example.org/acme/shop", True)]
    assert heads("risk") == [("High", False), ("Medium", True)]
    assert heads("agent") == [(f'<a href="/agents/{agent.pk}/">claude</a>', True)]


def test_a_workspace_made_in_the_span_begins_at_its_first_snapshot(changed, alice, browser_of, read):
    workspace = changed("shop-1")
    text = read(browser_of(alice), f"/changed/?since={since(5)}")
    assert "?from=1&amp;to=2" in text
    assert "new ·" in text
    workspace.snapshots.filter(number=2).delete()
    text = read(browser_of(alice), f"/changed/?since={since(5)}")
    assert "its first snapshot" in text
    assert 'href="/w/payments/shop-1/snapshots/1/"' in text


def test_checks_and_ready_made_spans_are_shown(changed, alice, browser_of, read):
    workspace = changed("shop-1")
    type(workspace.environment).objects.update(checks={"tests": "make test"})
    make_command(workspace, "make test", check_name="tests", exit_status=1)
    client = browser_of(alice)
    text = read(client, "/changed/?since=yesterday")
    assert "tests failed" in text
    for words in ("Today", "Since yesterday", "Last 7 days"):
        assert words in text
    assert "Since my last visit" not in text


def test_the_desk_leads_to_it_with_the_last_visit(changed, bob, browser_of, read):
    changed("shop-1", SHOP)
    bob.memberships.update(desk_seen_at=clock.now() - timedelta(hours=3))
    client = browser_of(bob)
    desk = read(client, "/")
    assert 'href="/changed/?since=visit"' in desk
    assert "1 workspace changed" in desk
    assert "?from=1&amp;to=2" in desk
    text = read(client, "/changed/?since=visit")
    assert "Since my last visit" in text
    assert "shop-1" in text


def test_another_team_sees_no_change(changed, mallory, browser_of, read):
    changed("shop-1", SHOP)
    assert "shop-1" not in read(browser_of(mallory), f"/changed/?since={since(5)}")


def test_the_api_says_the_same(changed, ask, agent, alice, token_of, client):
    workspace = changed("shop-1", SHOP)
    ran(ask({"command": "ls"}), workspace, "low")
    headers = {"Authorization": f"Bearer {token_of(alice)}"}
    answer = client.get(f"/api/v1/changes?since={since(1)}T00:00:00Z", headers=headers).json()
    [row] = answer["changes"]
    assert (answer["total"], row["workspace"], row["from"], row["to"]) == (1, "shop-1", 1, 2)
    assert (row["additions"], row["deletions"], row["files"]) == (2, 0, 1)
    assert (row["agents"], row["actions"], row["tier"]) == (["claude"], {"low": 1}, "low")
    assert client.get("/api/v1/changes?since=2026-01-01T00:00:00", headers=headers).status_code == 422
    backwards = client.get("/api/v1/changes?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", headers=headers)
    assert backwards.status_code == 422


def test_more_workspaces_cost_no_more_queries(changed, alice, browser_of, django_assert_max_num_queries):
    changed("shop-1", SHOP)
    client = browser_of(alice)
    with django_assert_max_num_queries(30) as few:
        client.get(f"/changed/?since={since(1)}")
    for number in range(2, 7):
        changed(f"shop-{number}", SHOP)
    with django_assert_max_num_queries(len(few)):
        client.get(f"/changed/?since={since(1)}")
