"""E2B's own SDKs (Python 2.63, JavaScript 2.51), unmodified, in workspaces of a running desk."""

import pytest

from tests.support.desk import Desk


@pytest.fixture(scope="module")
def token(product) -> str:
    return product.agent_token("e2b-agent")


@pytest.fixture(scope="module")
def desk(product, token) -> Desk:
    return Desk(product, token)


def test_a_sandbox_is_made_paused_resumed_and_killed(sdk, product, token, desk):
    seen = sdk(product, token, "life")
    assert seen["listed"]
    assert seen["metadata"] == {"job": "one"}
    assert 1200 <= seen["seconds"] < 3600
    assert seen["paused"] == [True, False, "paused"]
    assert seen["kept"] == "kept"
    assert seen["running"] == [True, False]
    assert seen["killed"] == [True, False]
    workspace = desk.get(f"/workspaces/{seen['id']}").json
    assert (workspace["state"], workspace["labels"]) == ("stopped", {"job": "one"})


def test_commands_run_as_those_of_the_api(sdk, product, token, desk):
    seen = sdk(product, token, "run")
    assert seen["stdout"] == seen["heard"] == "one\ntwo\n"
    assert seen["folder"] == ["/workspace/below"] * 2
    assert seen["failed"] == [3, "oh\n"]
    assert seen["listed"]
    assert seen["killed"] == [True, -1]
    assert seen["unknown"] is False
    assert "Timeout" in seen["late"]
    rows = desk.get(f"/workspaces/{seen['id']}/commands").json["commands"]
    assert "echo oh; exit 3" in [row["command"] for row in rows]


def test_a_terminal_takes_input_and_a_size(sdk, product, token):
    seen = sdk(product, token, "pty")
    assert "40 120" in seen["seen"]
    assert "\r\n/tmp\r\n" in seen["seen"]
    assert "hello-me" in seen["seen"]
    assert seen["exit"] == 5
    assert seen["killed"] is True


def test_files_are_written_read_moved_and_watched(sdk, product, token, desk):
    seen = sdk(product, token, "files")
    assert seen["text"] == "eins ümore\n"
    assert seen["bytes"] is True
    assert (seen["packed"], seen["streamed"]) == (100_000, 100_000)
    assert seen["listed"] == [["/workspace/a/one.txt", "file", 7], ["/workspace/a/two.bin", "file", 256]]
    assert {"/workspace/a", "/workspace/a/one.txt", "/workspace/b/three.txt"} <= set(seen["deep"])
    assert seen["made"] == [True, False]
    assert seen["moved"] == "/workspace/c/d/uno.txt"
    assert ["create", "new.txt"] in seen["events"]
    assert ["write", "d/uno.txt"] in seen["events"]
    assert seen["permissions"].startswith("-rw")
    assert seen["exists"] == [True, False]
    assert seen["missing"] in ("FileNotFoundException", "FileNotFoundError")
    assert desk.get(f"/workspaces/{seen['id']}/files/c/new.txt").body == b"new"
