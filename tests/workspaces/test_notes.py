"""Notes and lessons through the runner: kept at the end of a run, given at the start of the next."""

import hashlib

import pytest

from tests.support.desk import Desk

NOTES = ".handrail/notes.md"


@pytest.fixture(scope="module")
def lead(product, lead_token):
    return Desk(product, lead_token)


def asleep(desk, key):
    desk.post(f"/workspaces/{key}/pause", expect=202)
    return desk.settled(key)


def awake(desk, key):
    desk.post(f"/workspaces/{key}/resume", expect=202)
    return desk.settled(key)


def manifest_of_run(desk, key) -> dict:
    run = desk.get(f"/workspaces/{key}/runs").json["runs"][0]["id"]
    return desk.get(f"/workspaces/{key}/runs/{run}/manifest").json


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_notes_are_kept_at_the_end_of_a_run_and_an_edit_is_given_at_the_next(desk, lead):
    key = desk.create()["key"]
    at = f"/workspaces/{key}/notes"
    desk.run(key, f"mkdir -p .handrail; printf 'one\\n' > {NOTES}")
    asleep(desk, key)
    first = desk.get(at).json
    assert (first["text"], first["current"]["version"], first["current"]["by"]["type"]) == ("one\n", 1, "agent")
    wish = {"text": "two\n", "seen": first["sha256"], "days": 9}
    assert lead.call("PUT", at, wish).json["waits"] is True
    came_back = awake(desk, key)
    assert (came_back["state"], came_back["proof"]["differ"]) == ("ready", 0)
    assert desk.run(key, f"cat {NOTES}") == b"two\n"
    noted = manifest_of_run(desk, key)["notes"]
    assert (noted["version"], noted["sha256"]) == (2, sha256("two\n"))
    assert noted["by"]["label"] == "lead-of-workspaces"
    # It is a file like any other: the snapshots before and after differ in it.
    asleep(desk, key)
    assert desk.get(at).json["current"]["version"] == 2
    paths = [change["path"] for change in desk.get(f"/workspaces/{key}/diff?from=1&to=live").json["changes"]]
    assert NOTES in paths


def test_an_edit_of_a_workspace_that_is_up_is_in_the_file_and_what_was_there_is_a_version(desk, lead):
    key = desk.create()["key"]
    at = f"/workspaces/{key}/notes"
    desk.run(key, f"mkdir -p .handrail; printf 'mine\\n' > {NOTES}")
    lead.call("PUT", at, {"text": "x", "seen": ""}, expect=409)
    lead.call("PUT", at, {"text": "ours\n", "seen": sha256("mine\n")})
    assert desk.run(key, f"cat {NOTES}") == b"ours\n"
    assert desk.call("PUT", at, {"text": "the agent's\n"}).json["by"]["type"] == "agent"
    assert desk.run(key, f"cat {NOTES}") == b"the agent's\n"
    listed = desk.get(f"{at}/versions").json["versions"]
    assert [(each["version"], each["by"]["type"]) for each in listed] == [(3, "agent"), (2, "person"), (1, "agent")]


def test_notes_with_a_secret_keep_the_snapshot_away_and_are_kept_redacted(desk):
    key = desk.create()["key"]
    desk.run(key, f'mkdir -p .handrail; echo "key $HANDRAIL_TOKEN" > {NOTES}')
    desk.post(f"/workspaces/{key}/snapshots", {}, expect=None)
    desk.settled(key)
    found = desk.get(f"/workspaces/{key}/notes").json
    assert (found["text"], found["current"]["redacted"]) == ("key [secret HANDRAIL_TOKEN]\n", ["HANDRAIL_TOKEN"])


def test_accepted_lessons_are_in_the_next_workspace_of_the_repository_as_quoted_data(desk, lead, repository):
    source = {"git": str(repository[0]), "ref": "main"}
    first = desk.create(source=source)["key"]
    made = desk.post(f"/workspaces/{first}/lessons", {"text": "Run make fix first."}).json
    second = desk.create(source=source)["key"]
    desk.run(second, "test ! -e .handrail/lessons.md")
    seen = lead.get(f"/lessons/{made['id']}").json["seen"]
    lead.post(f"/lessons/{made['id']}/accept", {"seen": seen}, expect=200)
    third = desk.create(source=source)["key"]
    text = desk.run(third, "cat .handrail/lessons.md").decode()
    assert text == desk.get(f"/workspaces/{third}/lessons").json["text"]
    assert text.splitlines()[-1] == "> Run make fix first."
    assert f"in {first}" in text
    # One that exists is given them at its next start, and loses them once they are removed.
    asleep(desk, second)
    awake(desk, second)
    assert desk.run(second, "cat .handrail/lessons.md").decode() == text
    assert manifest_of_run(desk, second)["notes"] == {"lessons_sha256": sha256(text)}
    lead.call("DELETE", f"/lessons/{made['id']}")
    asleep(desk, second)
    assert awake(desk, second)["proof"]["differ"] == 0
    desk.run(second, "test ! -e .handrail/lessons.md")
