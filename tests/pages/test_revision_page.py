"""The page that takes a revision, and what its operation's page says of conflicts; without a runner."""

import re

import pytest

from dashboard.database import clock
from workspaces.models import Environment, Operation, Phase, Snapshot
from workspaces.pages.revisions import conflicts_of, task_of

from .conftest import keep_tree, make_workspace

HERE = "/w/payments/shop/revision/"
GIT = "https://93.184.216.34/team/shop.git"
MARKED = "one\n<<<<<<< here\nmine <b>\n=======\ntheirs\n>>>>>>> revision 2\nlast\n"


@pytest.fixture
def shop(team, agent):
    return make_workspace(team, agent, "shop", source={"git": GIT, "ref": "main", "sha": "a" * 40})


@pytest.fixture
def revised(shop, team, tmp_path):
    """A revision that was taken, as its operation, with the outcome given."""

    def make(**outcome) -> Operation:
        (tmp_path / "tree").mkdir()
        tree = keep_tree(team, tmp_path / "tree", {"a.txt": MARKED})
        Snapshot.objects.filter(workspace=shop, number=shop.head.number).update(tree=tree)
        outcome = {
            "ok": True,
            "revision": 2,
            "snapshot": shop.head.number,
            "safety_snapshot": shop.head.number,
        } | outcome
        counts = {"changed": 1, "created": 2, "removed": 0}
        return Operation.objects.create(
            workspace=shop, kind="revise", phase=Phase.SETTLED, outcome=counts | outcome, due_at=clock.now(),
            settled_at=clock.now(), args={"how": "merge"},
        )  # fmt: skip

    return make


def page_of(operation) -> str:
    return f"/w/payments/shop/operations/{operation.pk}/"


def test_a_lead_takes_the_next_revision(shop, lena, browser_of, read):
    client = browser_of(lena)
    text = read(client, HERE)
    assert GIT in text
    assert re.findall(r'name="how" value="(\w+)"', text) == ["merge", "rebase", "beside"]
    assert re.search(r'name="ref" value="main"', text)
    answer = client.post(HERE, {"ref": "main", "how": "rebase"})
    operation = Operation.objects.get(workspace=shop, kind="revise")
    assert answer.headers["Location"] == page_of(operation)
    assert (operation.args["how"], operation.args["source"]) == ("rebase", {"git": GIT, "ref": "main"})
    assert ">Stop<" in re.sub(r"\s", "", read(client, page_of(operation)))


def test_a_way_that_there_is_not_takes_nothing(shop, lena, vera, browser_of):
    assert browser_of(lena).post(HERE, {"ref": "", "how": "squash"}).status_code == 200
    assert browser_of(vera).post(HERE, {"how": "merge"}).status_code == 403
    assert not Operation.objects.filter(kind="revise").exists()


def test_without_a_repository_there_is_no_form(workspace, lena, browser_of, read):
    text = read(browser_of(lena), "/w/payments/repo-task-1/revision/")
    assert "It was not created from a git address." in text
    assert 'name="how"' not in text


def test_a_revision_without_conflicts_says_what_it_did_and_leads_back(shop, revised, lena, browser_of, read):
    text = read(browser_of(lena), page_of(revised(merged=True, conflicts=[])))
    assert "Revision 2 is in the files, without conflicts. 1 changed, 2 added, 0 deleted." in re.sub(r"\s+", " ", text)
    assert f"/snapshots/{shop.head.number}/restore/" in text
    assert "What to do" not in text


def test_conflicts_are_named_with_their_lines_and_a_task_for_an_agent(shop, revised, lena, browser_of, read):
    Environment.objects.filter(pk=shop.environment_id).update(agent_programs=["codex@0.169.0"])
    conflicts = [{"path": "a.txt", "lines": [[2, 6]]}, {"path": "logo.png", "why": "whole", "lines": []}]
    text = re.sub(r"\s+", " ", read(browser_of(lena), page_of(revised(merged=False, conflicts=conflicts))))
    assert "with 2 conflicts to resolve" in text
    assert "Lines 2 to 6." in text
    assert "mine &lt;b&gt;" in text
    assert "it has no lines to merge" in text
    assert "- a.txt: 2-6" in text
    assert re.search(r'href="/agent-runs/new/\?workspace=payments/shop&amp;task=The%20next%20revision', text)


def test_a_refused_revision_names_its_conflicts_and_the_way_on(revised, lena, browser_of, read):
    conflicts = [{"path": "a.txt", "lines": [[2, 6]]}]
    reason = "1 path was changed here and in the revision; nothing was taken."
    operation = revised(ok=False, reason=reason, reason_code="conflicts", conflicts=conflicts, snapshot=None)
    text = read(browser_of(lena), page_of(operation))
    assert reason in text
    assert f'href="{HERE}"' in text
    assert "Lines 2 to 6." in re.sub(r"\s+", " ", text)


def test_many_conflicts_make_a_task_of_the_first(shop):
    found = conflicts_of(shop, {"conflicts": [{"path": f"f{number}", "lines": [[1, 5]]} for number in range(30)]})
    assert len(found) == 30
    assert task_of(found).count("\n- f") == 20
