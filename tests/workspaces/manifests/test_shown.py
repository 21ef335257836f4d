"""Programs of a workspace read the signed manifest at .handrail/manifest.json, which is not one of its files."""

import json

import pytest

from handrail_verify.signed import verify

PATH = ".handrail/manifest.json"
# Each must fail, and leave what is shown as it is.
TAKING_IT_AWAY = (
    "echo x > manifest.json",
    "echo x >> manifest.json",
    "chmod 666 manifest.json",
    "rm -f manifest.json",
    "mv manifest.json other",
    "echo x > other && mv -f other manifest.json",
    "umount manifest.json",
)


@pytest.fixture
def key(desk, repository):
    path, *_ = repository
    return desk.create(source={"git": str(path)})["key"]


def shown(desk, key) -> dict:
    """What a program reads there, verified."""
    text = desk.run(key, f"cat {PATH}")
    verify(text, desk.get("/manifests/key").json["key"])
    return json.loads(text)


def changed(desk, key) -> list[str]:
    return [change["path"] for change in desk.get(f"/workspaces/{key}/diff?from=1&to=live").json["changes"]]


def slept(desk, key) -> dict:
    for verb in ("stop", "resume"):
        desk.post(f"/workspaces/{key}/{verb}", expect=202)
        workspace = desk.settled(key)
    return workspace


def test_an_agent_reads_what_it_returns_to_and_cannot_change_it(desk, key):
    assert shown(desk, key) == desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    for attempt in TAKING_IT_AWAY:
        desk.run(key, f"cd .handrail; ! ({attempt}) 2> /dev/null; rm -f other")
    workspace = slept(desk, key)
    run = desk.get(f"/workspaces/{key}/runs").json["runs"][0]["id"]
    assert shown(desk, key) == desk.get(f"/workspaces/{key}/runs/{run}/manifest").json
    assert (workspace["state"], workspace["proof"]["differ"]) == ("ready", 0)


def test_the_shown_manifest_is_not_one_of_the_files(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    newest = slept(desk, key)["head_snapshot"]
    assert (
        desk.get(f"/workspaces/{key}/snapshots/{newest}").json["tree"]
        == desk.get(f"/workspaces/{key}/snapshots/1").json["tree"]
    )
    assert changed(desk, key) == []
    assert desk.run(key, "git status --porcelain; git ls-files --others --exclude-standard") == b""
    names = [entry["name"] for entry in desk.get(f"/workspaces/{key}/files/").json["entries"]]
    assert sorted(names) == [".git", "calc.py"]
    assert desk.get(f"/workspaces/{key}/snapshots/{newest}/manifest").json["dirty"]["count"] == 0


def test_what_is_beside_it_is_a_file_and_goes_back_with_the_others(desk, key):
    desk.run(key, "echo mine > .handrail/notes.md")
    noted = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    assert changed(desk, key) == [".handrail", ".handrail/notes.md"]
    for number, left in ((1, b"manifest.json\n"), (noted, b"manifest.json\nnotes.md\n")):
        desk.post(f"/workspaces/{key}/snapshots/{number}/restore", expect=202)
        assert desk.settled(key)["proof"]["differ"] == 0
        assert desk.run(key, "ls -A .handrail") == left
        assert shown(desk, key)["snapshot"] == 1


def test_an_agents_own_file_of_that_name_is_seen(desk, key):
    desk.run(key, f"mv .handrail aside && mkdir .handrail && echo '{{\"mine\": true}}' > {PATH}")
    assert {".handrail", PATH, "aside/manifest.json"} <= set(changed(desk, key))
    assert slept(desk, key)["proof"]["differ"] == 0
    assert desk.run(key, f"cat {PATH}") == b'{"mine": true}\n'  # its own, and no manifest is mounted over it
