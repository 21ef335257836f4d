"""The history of a file names each point at which its path became another file, got other attributes, or went."""

import os

import pytest

from tests.pages.changed_trees import EMPTY_FOLDER, SCRIPT, WITH_KEEP, build
from tests.pages.conftest import make_workspace
from tests.pages.test_changes import keep
from workspaces.host import paths
from workspaces.store import Store

HERE = "/w/payments/reviewed/files/history/"
TEXT = ("file", b"a\nb\n", 0o644, None)


@pytest.fixture
def history_of(team, agent, alice, token_of, api, tmp_path):
    """`history_of(old, new, path)`: the API's answer about the file at the second of two snapshots."""
    workspace = make_workspace(team, agent, "reviewed")
    Store.create(paths.store_of(team.pk))

    def ask(old: dict, new: dict, path: str = "gate"):
        for number, (name, tree) in enumerate({"first": old, "second": new}.items(), 1):
            build(os.fsencode(tmp_path / name), tree)
            keep(workspace, number, tmp_path / name)
        return api(token_of(alice)).get(f"/api/v1/workspaces/reviewed/file-history/{path}?at=2")

    return ask


def told(answer) -> list[tuple]:
    assert answer.status_code == 200, answer.content
    return [(v["snapshot"], v["kind"], v["additions"], v["deletions"]) for v in answer.json()["versions"]]


@pytest.mark.parametrize(
    ("old", "new", "versions"),
    [
        (SCRIPT, WITH_KEEP, [(2, "removed", 0, 2), (1, "added", 2, 0)]),
        (SCRIPT, EMPTY_FOLDER, [(2, "removed", 0, 2), (1, "added", 2, 0)]),
        (WITH_KEEP, SCRIPT, [(2, "added", 2, 0)]),
        (("link", b"prod"), WITH_KEEP, [(2, "removed", 0, 1), (1, "added", 1, 0)]),
        (("fifo",), TEXT, [(2, "modified", 2, 0), (1, "added", 0, 0)]),
        (TEXT, ("file", b"a\nb\n", 0o644, b"1"), [(2, "mode", 0, 0), (1, "added", 2, 0)]),
        (("file", b"a\nb\n", 0o644, b"1"), ("file", b"a\nb\n", 0o644, b"2"), [(2, "mode", 0, 0), (1, "added", 2, 0)]),
        (TEXT, ("file", b"a\nb\n", 0o755, None), [(2, "mode", 0, 0), (1, "added", 2, 0)]),
        (TEXT, ("file", b"a\nb", 0o644, None), [(2, "modified", 1, 1), (1, "added", 2, 0)]),
    ],
)
def test_a_folder_is_no_version_of_a_file_and_attributes_make_one(history_of, old, new, versions):
    assert told(history_of({b"gate": old}, {b"gate": new})) == versions


def test_the_page_says_what_became_of_a_file(history_of, browser_of, alice, read):
    history_of({b"gate": SCRIPT, b"same": TEXT}, {b"gate": WITH_KEEP, b"same": (*TEXT[:3], b"1")})
    page = read(browser_of(alice), f"{HERE}?at=2&path=gate")
    assert "· deleted" in page
    assert "folder; only a file" not in page
    assert "· permissions or attributes changed" in read(browser_of(alice), f"{HERE}?at=2&path=same")


def test_what_was_always_a_folder_has_no_versions(history_of):
    answer = history_of({b"d": WITH_KEEP}, {b"d": EMPTY_FOLDER}, "d")
    assert (answer.status_code, "only a file has versions" in answer.json()["detail"]) == (409, True)


def test_a_file_inside_of_what_was_a_file_has_a_history(history_of):
    assert told(history_of({b"gate": SCRIPT}, {b"gate": WITH_KEEP}, "gate/.keep")) == [(2, "added", 0, 0)]
