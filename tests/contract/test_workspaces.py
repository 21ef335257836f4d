"""api.md, Workspaces: each row for real, with its fields, their kinds and its status codes."""

import asyncio
import io
import json
import subprocess
import tarfile
import uuid

import aiohttp
import pytest
import zstandard

from tests.contract.conftest import as_promised, kinds

WORKSPACE = {
    "key": "str",
    "driver": "str",
    "isolation": "str",
    "state": "str",
    "reason": "str",
    "busy": "str|null",
    "labels": "dict",
    "created_at": "time",
    "last_active_at": "time|null",
    "head_snapshot": "int|null",
    "entries": "int|null",
    "bytes": "int|null",
}
SNAPSHOT = {
    "number": "int",
    "tree": "str",
    "kind": "str",
    "entries": "int",
    "bytes": "int",
    "added_bytes": "int",
    "created_at": "time",
}
COMMAND = {
    "id": "str",
    "state": "str",
    "exit_status": "int|null",
    "started_at": "time|null",
    "ended_at": "time|null",
    "output_bytes": "int",
}
CHANGE = {
    "path": "str",
    "kind": "str",
    "old_mode": "str|null",
    "new_mode": "str|null",
    "binary": "bool",
    "additions": "int|null",
    "deletions": "int|null",
}


def test_a_workspace_is_made_resumed_and_its_differences_named(agent):
    key = f"c-{uuid.uuid4().hex[:10]}"
    made = agent.post("/workspaces", {"key": key, "labels": {"for": "contract"}}, 201).json
    assert as_promised(made, WORKSPACE) == WORKSPACE
    assert agent.settled(key)["state"] == "ready"
    assert agent.post("/workspaces", {"key": key}, 200).json["created_at"] == made["created_at"]
    for wish in ({"driver": "folder"}, {"source": {"git": str(agent.product.sources)}}):
        [name] = wish
        assert list(agent.post("/workspaces", {"key": key, **wish}, 409).json["differs"]) == [name]


def test_a_deleted_key_says_until_when_it_is_in_the_trash(agent, lead):
    key = agent.workspace()
    deleted = lead.call("DELETE", f"/workspaces/{key}", None, 202).json
    assert as_promised(deleted, WORKSPACE) == WORKSPACE
    for _ in range(100):
        if agent.product.get(f"/api/v1/workspaces/{key}?wait=1", agent.token).status == 404:
            break
    refused = agent.post("/workspaces", {"key": key}, 409).json
    assert as_promised(refused, {"in_trash_until": "time"}) == {"in_trash_until": "time"}
    assert lead.post(f"/workspaces/{key}/untrash", None, 202).json["state"] == "stopped"
    lead.call("DELETE", f"/workspaces/{key}", None, 202)
    for _ in range(100):
        if agent.product.get(f"/api/v1/workspaces/{key}?wait=1", agent.token).status == 404:
            break
    assert agent.post("/workspaces", {"key": key, "fresh": True}, 201).json["head_snapshot"] is None
    agent.settled(key)


def test_the_list_is_filtered_and_paged(agent, place):
    page = agent.get("/workspaces?state=ready&label=for:contract").json
    assert kinds(page) in ({"workspaces": "list", "cursor": "null"}, {"workspaces": "list", "cursor": "str"})
    assert place in [row["key"] for row in page["workspaces"]]
    assert [as_promised(row, WORKSPACE) for row in page["workspaces"]] == [WORKSPACE] * len(page["workspaces"])
    assert agent.get("/workspaces?label=for:nobody").json["workspaces"] == []
    agent.get("/workspaces?state=sleepy", 422)
    agent.get("/workspaces?label=x", 422)
    agent.get("/workspaces?cursor=of-nobody", 422)


def test_one_workspace_waits_until_nothing_is_in_flight(agent):
    key = agent.workspace()
    agent.post(f"/workspaces/{key}/pause", None, 202)
    settled = agent.get(f"/workspaces/{key}?wait=25").json
    assert (settled["state"], settled["busy"]) == ("paused", None)
    assert as_promised(settled, WORKSPACE) == WORKSPACE


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("stop", "stopped"), ("archive", "archived")])
def test_a_workspace_goes_to_sleep_and_is_resumed(agent, verb, state):
    key = agent.workspace()
    assert as_promised(agent.post(f"/workspaces/{key}/{verb}", None, 202).json, WORKSPACE) == WORKSPACE
    assert agent.settled(key)["state"] == state
    assert as_promised(agent.post(f"/workspaces/{key}/resume", None, 202).json, WORKSPACE) == WORKSPACE
    assert agent.settled(key)["state"] == "ready"


def test_reset_and_restore_take_a_safety_snapshot_first(agent):
    key = agent.workspace()
    agent.call("PUT", f"/workspaces/{key}/files/a", b"1", 201)
    reset = agent.post(f"/workspaces/{key}/reset", None, 202).json
    assert as_promised(reset, {"safety_snapshot": "int"}) == {"safety_snapshot": "int"}
    agent.settled(key)
    agent.get(f"/workspaces/{key}/files/a", 404)
    restored = agent.post(f"/workspaces/{key}/snapshots/{reset['safety_snapshot']}/restore", None, 202).json
    assert as_promised(restored, {"safety_snapshot": "int"}) == {"safety_snapshot": "int"}
    agent.settled(key)
    assert agent.get(f"/workspaces/{key}/files/a").body == b"1"
    only = agent.post(f"/workspaces/{key}/snapshots/1/restore", {"paths": ["a"]}, 202).json
    assert only["safety_snapshot"] > restored["safety_snapshot"]
    agent.settled(key)
    agent.post(f"/workspaces/{key}/snapshots/99/restore", None, 404)


def test_a_fork_is_a_new_workspace(agent, place):
    fork = f"{place}-fork"
    made = agent.post(f"/workspaces/{place}/fork", {"key": fork, "snapshot": 1}, 201).json
    assert as_promised(made, WORKSPACE) == WORKSPACE
    assert agent.settled(fork)["state"] == "ready"
    agent.post(f"/workspaces/{place}/fork", {"key": fork}, 409)


def test_files_are_raw_bytes_and_folders_are_entries(agent, place):
    at = f"/workspaces/{place}/files/raw/bytes"
    assert agent.call("PUT", at, b"\0\xff\n", 201).json == {"path": "raw/bytes", "bytes": 3, "created": True}
    agent.call("PUT", at, b"\0\xfe\n", 200)
    assert agent.get(at).body == b"\0\xfe\n"
    folder = agent.get(f"/workspaces/{place}/files/raw").json
    assert (folder["path"], [entry["name"] for entry in folder["entries"]]) == ("raw", ["bytes"])
    number = agent.post(f"/workspaces/{place}/snapshots", {"label": "with raw"}, 201).json["number"]
    agent.call("DELETE", at, None, 200)
    agent.get(at, 404)
    assert agent.get(f"{at}?snapshot={number}").body == b"\0\xfe\n"
    agent.call("DELETE", at, None, 404)


def test_a_command_runs_once_and_its_output_is_bytes(agent, place):
    wish = {"command": "printf 'a\\377b'; exit 7", "timeout_s": 30}
    made = agent.post(f"/workspaces/{place}/commands", wish, 201, key=f"k-{place}").json
    assert as_promised(made, COMMAND) == COMMAND
    assert agent.post(f"/workspaces/{place}/commands", wish, 201, key=f"k-{place}").json["id"] == made["id"]
    agent.post(f"/workspaces/{place}/commands", wish | {"timeout_s": 31}, 422, key=f"k-{place}")
    done = agent.finished(made["id"])
    assert as_promised(done, COMMAND) == COMMAND
    assert (done["exit_status"], done["output_bytes"]) == (7, 3)
    assert (kinds(done)["started_at"], kinds(done)["ended_at"]) == ("time", "time")
    output = f"/commands/{made['id']}/output"
    assert agent.get(output).body == b"a\xffb"
    assert agent.get(f"{output}?offset=1&follow=1").body == b"\xffb"
    listed = agent.get(f"/workspaces/{place}/commands").json
    assert made["id"] in [command["id"] for command in listed["commands"]]


def test_a_command_is_an_argv_and_is_cancelled(agent, place):
    wish = {"argv": ["sleep", "60"], "cwd": "/workspace", "env": {"A": "b"}}
    made = agent.post(f"/workspaces/{place}/commands", wish, 201).json
    assert as_promised(agent.post(f"/commands/{made['id']}/cancel", None, 202).json, COMMAND) == COMMAND
    assert agent.finished(made["id"])["exit_status"] is None
    agent.post(f"/commands/{uuid.uuid4()}/cancel", None, 404)
    agent.get("/commands/none", 404)


MANIFEST = {
    "repository": "str|null",
    "git": "dict|null",
    "upstream": "dict|null",
    "dirty": "dict|null",
    "lock_files": "list",
    "checks": "dict",
    "ports": "list",
    "services": "list",
    "secrets": "list",
    "cause": "dict",
    "tree": "str",
    "parent_tree": "str|null",
    "sha256": "str",
    "signature": "dict",
}


def test_snapshots_have_a_manifest_and_an_archive(agent, place):
    taken = agent.post(f"/workspaces/{place}/snapshots", {"label": "by contract"}, 201).json
    assert as_promised(taken, SNAPSHOT) == SNAPSHOT
    listed = agent.get(f"/workspaces/{place}/snapshots").json
    assert as_promised(listed, {"snapshots": "list", "cursor": "str|null"}) == {
        "snapshots": "list",
        "cursor": "str|null",
    }
    assert listed["snapshots"][0]["number"] == taken["number"]
    manifest = agent.get(f"/workspaces/{place}/snapshots/{taken['number']}/manifest").json
    assert manifest["tree"] == taken["tree"]
    assert as_promised(manifest, MANIFEST) == MANIFEST
    assert manifest["cause"]["actor"]["label"] == "agent"
    compared = agent.get(f"/workspaces/{place}/snapshots/1/manifest/compare?other={place}/{taken['number']}").json
    assert (compared["a"], compared["b"]) == (f"{place}/1", f"{place}/{taken['number']}")
    packed = agent.get(f"/workspaces/{place}/snapshots/{taken['number']}/archive").body
    plain = io.BytesIO(zstandard.ZstdDecompressor().stream_reader(packed).read())
    with tarfile.open(fileobj=plain) as tar:
        assert tar.extractfile("hello.txt").read() == b"hello\n"
    assert agent.post(f"/workspaces/{place}/snapshots/{taken['number']}/pin", None, 202).json["pinned"] is True
    agent.get(f"/workspaces/{place}/snapshots/99/manifest", 404)


def test_a_difference_is_json_or_a_patch_that_git_takes(agent, place, tmp_path):
    agent.call("PUT", f"/workspaces/{place}/files/new.txt", b"new\n", 201)
    changes = agent.get(f"/workspaces/{place}/diff?from=1&to=live").json["changes"]
    assert [as_promised(change, CHANGE) for change in changes] == [CHANGE] * len(changes)
    assert {change["path"]: change["kind"] for change in changes}["new.txt"] == "added"
    unified = agent.get(f"/workspaces/{place}/diff?from=1&to=live", headers={"Accept": "text/x-diff"})
    assert unified.headers["Content-Type"].startswith("text/x-diff")
    patch = agent.get(f"/workspaces/{place}/patch?from=1&to=live").body
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, check=True)
    assert (tmp_path / "new.txt").read_text() == "new\n"
    agent.get(f"/workspaces/{place}/diff?from=1&to=99", 404)
    agent.get(f"/workspaces/{place}/diff?from=yesterday", 422)


def test_a_terminal_is_bytes_both_ways(agent, place):
    wish = {"argv": ["sh", "-c", "stty size; read line; echo got $line; exit 3"], "cols": 90, "rows": 30}
    made = agent.post(f"/workspaces/{place}/terminals", wish, 201).json
    promised = {"id": "str", "state": "str", "offset": "int"}
    assert as_promised(made, promised) == promised
    listed = agent.get(f"/workspaces/{place}/terminals").json["terminals"]
    assert made["id"] in [terminal["id"] for terminal in listed]
    said, texts = asyncio.run(asyncio.wait_for(_talk(agent, made["id"]), 30))
    assert b"30 90" in said
    assert b"got hello" in said
    assert (texts[0]["type"], texts[0]["offset"]) == ("ready", 0)
    assert (texts[-1]["type"], texts[-1]["status"]) == ("exit", 3)


async def _talk(agent, terminal_id) -> tuple[bytes, list[dict]]:
    said, texts = b"", []
    headers = {"Authorization": f"Bearer {agent.token}"}
    async with (
        aiohttp.ClientSession(headers=headers) as client,
        client.ws_connect(f"{agent.product.url}/ws/terminals/{terminal_id}?offset=0") as socket,
    ):
        async for message in socket:
            if message.type == aiohttp.WSMsgType.BINARY:
                said += message.data
                await socket.send_json({"type": "ack", "offset": len(said)})
                if b"30 90" in said and b"hello" not in said:
                    await socket.send_bytes(b"hello\n")
            elif message.type == aiohttp.WSMsgType.TEXT:
                texts.append(json.loads(message.data))
                if texts[-1]["type"] == "exit":
                    break
    return said, texts


def test_an_upload_becomes_a_workspace(agent):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        found = tarfile.TarInfo("src/main.py")
        found.size = 9
        tar.addfile(found, io.BytesIO(b"print(1)\n"))
    uploaded = agent.call("POST", "/uploads", packed.getvalue(), 201).json
    assert as_promised(uploaded, {"id": "str"}) == {"id": "str"}
    key = agent.workspace(source={"upload": uploaded["id"]})
    assert agent.get(f"/workspaces/{key}/files/src/main.py").body == b"print(1)\n"
    no_tar = agent.call("POST", "/uploads", b"this is no tar", 201).json["id"]
    agent.post("/workspaces", {"key": f"{key}-no-tar", "source": {"upload": no_tar}}, 201)
    failed = agent.settled(f"{key}-no-tar")
    assert (failed["state"], bool(failed["reason"])) == ("failed", True)
    agent.post("/workspaces", {"key": f"{key}-none", "source": {"upload": uuid.uuid4().hex}}, 422)
    agent.get(f"/workspaces/{key}-none", 404)


def test_a_bundle_is_the_repository(agent, place, tmp_path):
    bundle = tmp_path / "b.bundle"
    bundle.write_bytes(agent.get(f"/workspaces/{place}/bundle").body)
    subprocess.run(["git", "clone", "-q", str(bundle), str(tmp_path / "c")], check=True, capture_output=True)
    log = subprocess.run(["git", "log", "--format=%s"], cwd=tmp_path / "c", capture_output=True, text=True, check=True)
    assert log.stdout == "first\n"
    agent.get(f"/workspaces/{agent.workspace()}/bundle", 409)


def test_what_there_is_to_choose_from(agent):
    me = agent.get("/me").json
    assert me == {"type": "agent", "name": "agent", "teams": {"contract": "agent"}}
    assert "environments" in agent.get("/environments").json
    drivers = {driver["name"]: driver for driver in agent.get("/drivers").json["drivers"]}
    assert drivers["sandbox"]["available"] is True
