"""Rolling one action back, from outside: its files go back, and nothing else does."""

import re

import pytest

from tests.approvals.evidence.conftest import Person, text_of

from ..broker.test_broker import Brokered

COMMIT = "git -c user.name=T -c user.email=t@example.org commit"


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


@pytest.fixture(scope="module")
def lead(product):
    """One who may restore, with a browser."""
    return Person(product, "rolling-lead", "lead")


def read(person, path: str) -> str:
    return " ".join(text_of(person.get(path)).split())


def press(person, path: str, *, seen=None) -> str:
    shown = re.search(r'name="seen" value="([^"]*)"', person.get(path))
    fields = {"seen": seen or shown[1]} if shown else {}
    return " ".join(text_of(person.post(path, fields)).split())


def test_an_action_is_rolled_back_without_what_came_after_it(desk, lead):
    def run(command):
        asked = desk.ask("Bash", {"command": command})
        return desk.over(desk.decide(asked) if asked["status"] == "pending" else asked)

    run(f"git init -q -b main; echo 0 > kept; git add .; {COMMIT} -qm zero")
    first = run(f"echo 1 > one; echo 1 > kept; git add .; {COMMIT} -qm first")
    desk.over(desk.ask("Write", {"file_path": "two", "content": "2"}))
    desk.over(desk.ask("Write", {"file_path": "one", "content": "later"}))
    path = f"/actions/{first['id']}/rollback/"
    page = read(lead, path)
    assert "Restores 2 files that this action changed." in page
    assert "1 of them is deleted: it was not there before." in page
    assert ("one deleted changed again since" in page, "kept changed again since" in page) == (True, False)
    assert re.search(r"would remove them: [0-9a-f]{10} first", page)
    whole = re.search(r'href="([^"]*/restore/)"', lead.get(path)).group(1)
    assert re.search(r"Removes the commits made since then: [0-9a-f]{10} first Layer: the files", read(lead, whole))
    stale = press(lead, path, seen="0" * 64)
    assert stale.startswith("Roll back A-")  # and not on to the restore
    assert desk.file("one") == b"later"
    press(lead, path)
    desk.settles("ready")
    assert (desk.file("one"), desk.file("kept"), desk.file("two")) == (None, b"0\n", b"2")
    assert run("git log --format=%s")["result"]["tail"].split() == ["first", "zero"]


def test_an_action_that_changed_nothing_has_nothing_to_roll_back(desk, lead):
    done = desk.over(desk.ask("Bash", {"command": "touch nothing; rm nothing"}))
    page = read(lead, f"/actions/{done['id']}/rollback/")
    assert ("This action changed no files." in page, "Restore the whole workspace" in page) == (True, True)


def over(desk, command: str) -> dict:
    asked = desk.ask("Bash", {"command": command})
    return desk.over(desk.decide(asked) if asked["status"] == "pending" else asked)


def test_an_action_that_emptied_git_says_so_and_brings_it_back(desk, lead):
    over(desk, f"git init -q -b main; echo 0 > kept; git add .; {COMMIT} -qm zero")
    done = over(desk, "rm -rf .git")
    assert desk.file(".git/HEAD") is None
    path = f"/actions/{done['id']}/rollback/"
    page = read(lead, path)
    assert "This action changed no files" not in page
    assert "This action changed only git's own files, those in .git." in page
    assert ".git/HEAD" in page
    seen = re.search(r'name="seen" value="([^"]*)"', lead.get(path))[1]
    refused = " ".join(text_of(lead.post(path, {"seen": seen})).split())
    assert "Choose to bring those back too" in refused
    lead.post(path, {"seen": seen, "with_git": "1"})
    desk.settles("ready")
    assert desk.file(".git/HEAD") == b"ref: refs/heads/main\n"
    assert over(desk, "git log --format=%s")["result"]["tail"].split()[0] == "zero"


def test_a_file_that_became_a_folder_is_rolled_back(desk, lead):
    over(desk, "echo deny > gate")
    done = over(desk, "rm gate; mkdir gate; touch gate/.keep")
    desk.over(desk.ask("Write", {"file_path": "gate/later", "content": "later"}))
    page = read(lead, f"/actions/{done['id']}/rollback/")
    assert "Restores 3 files that this action changed." in page
    assert "gate/later deleted changed again since" in page
    press(lead, f"/actions/{done['id']}/rollback/")
    desk.settles("ready")
    assert desk.file("gate") == b"deny\n"


def test_a_folder_whose_mode_changed_keeps_what_came_into_it(desk, lead):
    over(desk, "mkdir shared; echo 1 > shared/one")
    done = over(desk, "chmod 700 shared")
    desk.over(desk.ask("Write", {"file_path": "shared/two", "content": "2"}))
    page = read(lead, f"/actions/{done['id']}/rollback/")
    assert ("This action changed no files" in page, "These stay as they are" in page) == (False, True)
    press(lead, f"/actions/{done['id']}/rollback/")
    assert desk.file("shared/two") == b"2"
