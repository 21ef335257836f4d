"""Open workspaces that change the same files are shown before they collide, with who rebases and a merge order."""

import json
import re

import pytest

from approvals.models import Task, TaskAttempt
from dashboard.database import clock
from dashboard.people.tokens import make_token
from workspaces.models import Operation, PullRequest, Snapshot, State
from workspaces.services import collisions

from .conftest import keep_tree, make_workspace

SOURCE = {"git": "https://git.example.org/team/shop.git", "ref": "main", "sha": "ab" * 20}
BASE = {"cart.py": "a\nb\nc\nd\ne\nf\ng\n", "till.py": "total = 0\n", "readme.md": "Shop\n"}


@pytest.fixture
def place(team, agent, settings, tmp_path):
    """`place("one", {"till.py": "total = 1\\n"})`: an open workspace of the shop that changed these files."""
    settings.HANDRAIL_HOME = tmp_path / "home"

    def make(key, changed, **source):
        made = make_workspace(team, agent, key, State.STOPPED, source=SOURCE | source)
        trees = [keep_tree(team, tmp_path / key / str(at), files) for at, files in enumerate((BASE, BASE | changed))]
        for number, tree in enumerate(trees, 1):
            Snapshot.objects.filter(workspace=made, number=number).update(tree=tree)
        made.refresh_from_db()
        return type(made).objects.select_related("team", "environment", "head", "baseline").get(pk=made.pk)

    return make


def found(workspace) -> list[tuple]:
    return [
        (each.first.key, each.then.key, each.files, each.lines)
        for each in collisions.of_workspace(workspace).collisions
    ]


def test_the_same_lines_and_the_same_file_are_told_apart(place):
    one = place("one", {"till.py": "total = 1\n", "cart.py": "A\nb\nc\nd\ne\nf\ng\n", "own.py": "x\n"})
    place("two", {"till.py": "total = 2\n", "cart.py": "a\nb\nc\nd\ne\nf\nG\n"})
    place("three", {"readme.md": "A shop\n"})
    assert found(one) == [("one", "two", ("cart.py", "till.py"), ("till.py",))]


def test_only_workspaces_that_come_from_one_snapshot_are_offered_side_by_side(place, lena, browser_of, team):
    one = place("one", {"till.py": "total = 1\n"})
    place("two", {"till.py": "total = 2\n"})
    place("three", {"till.py": "total = 3\n"}, sha="cd" * 20)
    compared = {each.other(one).key: each.comparable for each in collisions.of_workspace(one).collisions}
    assert compared == {"two": True, "three": False}
    browser = browser_of(lena)
    links = re.findall(r'href="(/w/[^"]*/beside/[^"]*)"', browser.get(f"/w/{team.slug}/one/").content.decode())
    assert links
    assert [browser.get(link).status_code for link in links] == [200] * len(links)


def test_what_both_changed_alike_does_not_collide(place):
    one = place("one", {"till.py": "total = 1\n"})
    place("two", {"till.py": "total = 1\n"})
    assert found(one) == []


def test_other_repositories_and_closed_workspaces_do_not_collide(place):
    one = place("one", {"till.py": "total = 1\n"})
    place("two", {"till.py": "total = 2\n"}, git="https://git.example.org/team/other.git")
    gone = place("three", {"till.py": "total = 3\n"})
    type(gone).objects.filter(pk=gone.pk).update(state=State.ARCHIVED)
    assert found(one) == []


def test_work_that_began_with_another_commit_shows_the_files(place):
    one = place("one", {"till.py": "total = 1\n"})
    place("two", {"till.py": "total = 2\n"}, sha="cd" * 20)
    assert found(one) == [("one", "two", ("till.py",), ())]


def test_attempts_at_one_task_never_collide(place, team):
    one, two = place("one", {"till.py": "total = 1\n"}), place("two", {"till.py": "total = 2\n"})
    now = clock.now()
    task = Task.objects.create(team=team, title="t", text="", environment="default", created_at=now, changed_at=now)
    for number, each in enumerate((one, two), 1):
        TaskAttempt.objects.create(task=task, number=number, workspace=each)
    assert found(one) == []


def test_a_pull_request_goes_first_and_the_others_by_age(place):
    one, two = place("one", {"till.py": "total = 1\n"}), place("two", {"till.py": "total = 2\n"})
    three = place("three", {"till.py": "total = 3\n"})
    about = {"number": 1, "branch": "b", "base": "main", "title": "t", "sha": "ab" * 20}
    now = clock.now()
    PullRequest.objects.create(workspace=three, url="https://x/1", opened_at=now, pushed_at=now, **about)
    assert [each.key for each in collisions.merge_order([two, one, three])] == ["three", "one", "two"]
    assert [(first, then) for first, then, *_ in found(two)] == [("three", "two"), ("one", "two")]
    assert [each.key for each in collisions.of_workspace(two).order] == ["three", "one", "two"]


def test_list_workspace_and_api_show_it(place, lena, vera, browser_of, team, read):
    one = place("one", {"till.py": "total = 1\n"})
    place("two", {"till.py": "total = 2\n"})
    for address in ("/workspaces/", f"/w/{team.slug}/one/"):
        text = read(browser_of(lena), address)
        assert "two rebases once one is merged" in text
        assert f'action="/w/{team.slug}/two/rebase/"' in text
        assert "the same lines in 1 file" in text
    assert "/two/rebase/" not in read(browser_of(vera), "/workspaces/")
    headers = {"HTTP_AUTHORIZATION": f"Bearer {make_token(team, user=lena)}"}
    told = browser_of(lena).get(f"/api/v1/workspaces/{one.key}/collisions", **headers).json()
    assert told["collisions"] == [{"workspace": "two", "first": "one", "files": ["till.py"], "lines": ["till.py"]}]
    assert told["order"] == ["one", "two"]


def test_a_rebase_is_asked_for_with_its_checks(place, lena, vera, browser_of, team, monkeypatch):
    monkeypatch.setattr("workspaces.lifecycle.check_source", lambda team, source: source)
    two = place("two", {"till.py": "total = 2\n"})
    address = f"/w/{team.slug}/two/rebase/"
    assert browser_of(vera).post(address).status_code == 403
    assert browser_of(lena).get(address).status_code == 405
    assert browser_of(lena).post(address).status_code == 302
    asked = Operation.objects.get(kind="revise", workspace=two)
    assert (asked.args["how"], asked.args["then_check"]) == ("rebase", True)
    assert asked.args["source"] == {"git": SOURCE["git"], "ref": "main"}, json.dumps(asked.args)
