"""The diff of a file call begins at the files as they were when it was asked, whatever changes them later."""

import uuid

import pytest

from tests.support.waiting import until

PATH = "/workspace/.envrc"  # takes effect by itself, so that writing it needs approval


@pytest.fixture(scope="module")
def key(desk):
    return desk.create(f"fixed-{uuid.uuid4().hex[:8]}")["key"]


def asked(desk, key, tool, **arguments) -> dict:
    """The pending action, once its snapshot is taken."""
    call = {"tool": tool, "arguments": {"file_path": PATH} | arguments, "cwd": "/workspace", "workspace": key}
    action = desk.post("/actions", call).json
    assert action["status"] == "pending", action

    def taken():
        found = desk.get(f"/actions/{action['id']}").json
        return found if found["files_when_asked"]["state"] == "taken" else None

    return until(taken)


def kinds(evidence) -> list[tuple]:
    return [(diff["path"], diff["additions"], diff["deletions"]) for diff in evidence["diffs"]]


def test_a_file_that_changed_since_is_compared_as_it_was_and_its_change_is_shown(desk, person, key):
    desk.run(key, "printf 'one\\n' > .envrc")
    action = asked(desk, key, "Edit", old_string="one", new_string="two")
    number = action["files_when_asked"]["snapshot"]
    [kept] = [row for row in desk.get(f"/workspaces/{key}/snapshots").json["snapshots"] if row["number"] == number]
    assert (kept["kind"], kept["label"].startswith(f"when A-{action['number']} was asked (")) == ("asked", True)
    before = person.evidence(action)
    assert (before["says"], kinds(before)) == ("Changes a file", [(".envrc", 1, 1)])

    desk.run(key, "printf 'three\\nfour\\n' > .envrc")
    since = person.evidence(action)
    assert since["says"] == (
        "Changes a file. The file has changed since the agent asked: the last difference below shows how. "
        "The text to replace isn't in it any more, or occurs more than once."
    )
    assert kinds(since) == [(".envrc", 1, 1), (".envrc", 2, 1)]
    assert f"/changes/?from={number}&amp;to=live" in person.get(f"/actions/{action['id']}/")


def test_nothing_is_added_while_the_file_is_the_same(desk, person, key):
    desk.run(key, "printf 'one\\n' > .envrc")
    first = asked(desk, key, "Write", content="two\n")
    desk.run(key, "echo elsewhere > other")
    evidence = person.evidence(first)
    assert (evidence["says"], kinds(evidence)) == ("Changes a file", [(".envrc", 1, 1)])
