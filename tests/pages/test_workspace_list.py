"""The list of workspaces: filters and orders as links, on the page and in the API; saved views; forks."""

from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Agent
from workspaces import lifecycle
from workspaces.models import Environment, SavedView, State, Workspace

from .conftest import make_workspace


@pytest.fixture
def places(team, agent, lena, bob):
    """Four of them: old and large, changed and labelled, of another agent and environment, and just made."""
    helper = Agent.objects.create(team=team, name="helper")
    now = clock.now()
    found = {key: make_workspace(team, agent, key) for key in ("alpha", "beta", "gamma", "delta")}
    for days, (key, workspace) in zip((40, 10, 3, 0), found.items(), strict=True):
        size = {"alpha": 9000, "beta": 500, "gamma": 500, "delta": 10}[key]
        type(workspace.head).objects.filter(pk=workspace.head.pk).update(bytes=size)
        moment = now - timedelta(days=days, minutes=1)
        Workspace.objects.filter(pk=workspace.pk).update(last_active_at=moment, created_at=moment, owner=lena)
    for workspace in found.values():
        if workspace.key != "beta":
            workspace.head.tree = workspace.baseline.tree
            workspace.head.save(update_fields=["tree"])
    Workspace.objects.filter(key="beta").update(labels={"area": "pay", "risk": "high"})
    found["beta"].label_rows.create(name="area", value="pay")
    found["beta"].label_rows.create(name="risk", value="high")
    box = Environment.objects.create(team=team, name="box", driver="docker")
    Workspace.objects.filter(key="gamma").update(created_by_agent=helper, environment=box, owner=bob)
    found["delta"].bound_agents.add(helper)
    Workspace.objects.filter(key="delta").update(owner=None, state=State.PAUSED, forked_from=found["alpha"])
    return found


@pytest.fixture
def listed(lena, browser_of, read):
    """`listed("sort=name")`: the keys on the page, in its order."""

    def keys(query: str) -> list[str]:
        rows = read(browser_of(lena), f"/workspaces/?{query}").split('<li class="row"')[1:]
        return [row.split('class="row-title" href="/w/payments/', 1)[1].split("/", 1)[0] for row in rows]

    return keys


FILTERED = [
    ("", "", {"alpha", "beta", "gamma", "delta"}),
    ("state=asleep", "state=paused", {"delta"}),
    ("label=area:pay", "label=area:pay", {"beta"}),
    ("label=area", None, {"beta"}),
    ("label=area:dev", "label=area:dev", set()),
    ("owner=lena", "owner=lena", {"alpha", "beta"}),
    ("owner=none", "owner=none", {"delta"}),
    ("agent=helper", "agent=helper", {"gamma", "delta"}),
    ("environment=box", "environment=box", {"gamma"}),
    ("driver=docker", "driver=docker", {"gamma"}),
    ("quiet=10", "quiet_days=10", {"alpha", "beta"}),
    ("changed=yes", "changed=true", {"beta"}),
    ("fork_of=alpha", "fork_of=alpha", {"delta"}),
    ("name=AL", None, {"alpha"}),
    ("owner=lena&quiet=30", "owner=lena&quiet_days=30", {"alpha"}),
]


@pytest.mark.parametrize(("query", "_", "keys"), FILTERED)
def test_the_page_filters(places, listed, query, _, keys):
    assert set(listed(query)) == keys


@pytest.mark.parametrize(("_", "query", "keys"), [row for row in FILTERED if row[1] is not None])
def test_the_api_filters_alike(places, lena, token_of, api, _, query, keys):
    answer = api(token_of(lena)).get(f"/api/v1/workspaces?{query}").json()
    assert {row["key"] for row in answer["workspaces"]} == keys


ORDERED = [
    ("activity", ["delta", "gamma", "beta", "alpha"]),
    ("quiet", ["alpha", "beta", "gamma", "delta"]),
    ("name", ["alpha", "beta", "delta", "gamma"]),
]


@pytest.mark.parametrize(("sort", "keys"), ORDERED)
def test_orders(places, listed, lena, token_of, api, sort, keys):
    assert listed(f"sort={sort}") == keys
    answer = api(token_of(lena)).get(f"/api/v1/workspaces?sort={sort}").json()
    assert [row["key"] for row in answer["workspaces"]] == keys


def test_the_largest_first(places, listed):
    found = listed("sort=size")
    assert (found[0], set(found[1:3]), found[3]) == ("alpha", {"beta", "gamma"}, "delta")


@pytest.mark.parametrize("sort", ["", "activity", "quiet", "size", "name"])
def test_pages_hold_each_workspace_once_in_each_order(team, agent, lena, browser_of, read, sort):
    for number in range(53):
        make_workspace(team, agent, f"w{number:02}")
    same = clock.now()
    Workspace.objects.update(last_active_at=same)
    client, query, found = browser_of(lena), f"?sort={sort}", []
    while query:
        text = read(client, f"/workspaces/{query}")
        found += [part.split("/", 1)[0] for part in text.split('class="row-title" href="/w/payments/')[1:]]
        query = ""
        if 'rel="next"' in text:
            query = text.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert sorted(found) == [f"w{number:02}" for number in range(53)]


def test_nonsense_in_an_address_is_told_or_ignored(places, listed, lena, browser_of, read):
    assert "Give the days as a whole number" in read(browser_of(lena), "/workspaces/?quiet=soon")
    assert set(listed("sort=colour")) == set(places)
    for before in ("x~y", "9" * 30 + "~" + str(places["beta"].pk), "%00~" + str(places["beta"].pk)):
        for sort in ("size", "name", "activity"):
            assert len(listed(f"sort={sort}&before={before}")) <= 4
    assert listed("owner=%00") == []


def test_active_filters_are_chips_that_lead_to_the_list_without_them(places, lena, browser_of, read):
    text = read(browser_of(lena), "/workspaces/?owner=lena&quiet=10&sort=name")
    assert 'href="?quiet=10&amp;sort=name"' in text
    assert 'href="?owner=lena&amp;sort=name"' in text
    assert "2 workspaces" in text


def test_a_view_is_saved_opened_and_removed_by_its_person(places, lena, bob, browser_of, read):
    client = browser_of(lena)
    answer = client.post("/workspaces/views/save/", {"name": "Old ones", "query": "quiet=30&x=1&sort=size"})
    assert answer.headers["Location"] == "/workspaces/?quiet=30&sort=size"
    assert '<a href="?quiet=30&amp;sort=size">Old ones</a>' in read(client, "/workspaces/")
    assert '<a href="?quiet=30&amp;sort=size" aria-current="true">' in read(client, "/workspaces/?quiet=30&sort=size")
    assert "Old ones" not in read(browser_of(bob), "/workspaces/?quiet=30&sort=size")
    view = SavedView.objects.get()
    assert browser_of(bob).post(f"/workspaces/views/{view.pk}/remove/").status_code == 404
    client.post("/workspaces/views/save/", {"name": "Old ones", "query": "quiet=60"})
    assert SavedView.objects.get().query == "quiet=60"
    client.post(f"/workspaces/views/{view.pk}/remove/")
    assert not SavedView.objects.exists()


@pytest.mark.parametrize("fields", [{"name": "", "query": "quiet=3"}, {"name": "x", "query": ""}, {"name": "x" * 61}])
def test_a_view_without_a_name_or_filter_is_refused(lena, browser_of, fields):
    browser_of(lena).post("/workspaces/views/save/", {"query": "quiet=3"} | fields)
    assert not SavedView.objects.exists()


def test_forks_and_their_parent_link_to_each_other(workspace, lena, browser_of, read):
    from dashboard.people.access import caller_of

    lifecycle.fork(workspace, "try-2", caller=caller_of(lena))
    made = Workspace.objects.get(key="try-2")
    assert (made.forked_from, made.owner) == (workspace, lena)
    client = browser_of(lena)
    listed = read(client, "/workspaces/")
    assert 'fork of <a href="/w/payments/repo-task-1/">repo-task-1</a>' in listed
    assert 'href="/workspaces/?fork_of=repo-task-1"' in listed
    assert 'snapshot 2 of <a href="/w/payments/repo-task-1/">repo-task-1</a>' in read(client, "/w/payments/try-2/")
    assert '<a href="/w/payments/try-2/">try-2</a>' in read(client, "/w/payments/repo-task-1/")


@pytest.mark.parametrize(
    "query", ["owner=%00", "quiet_days=0", "quiet_days=x", "state=tired", "sort=colour", "label=x"]
)
def test_the_api_refuses_filters_that_make_no_sense(lena, token_of, api, query):
    assert api(token_of(lena)).get(f"/api/v1/workspaces?{query}").status_code == 422
