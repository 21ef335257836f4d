"""Commands: output as it comes, exit status, time-out, cancel, repeats, and what they leave behind."""

import socket
import time

import pytest


@pytest.fixture(scope="module")
def key(desk):
    return desk.create()["key"]


def test_output_and_exit_status(desk, key):
    asked = desk.post(f"/workspaces/{key}/commands", {"command": "echo out; echo err >&2; exit 3"}).json
    done = desk.finished(asked["id"])
    assert (done["state"], done["exit_status"], done["output_bytes"]) == ("settled", 3, 8)
    assert desk.get(f"/commands/{done['id']}/output").body == b"out\nerr\n"
    assert desk.get(f"/commands/{done['id']}/output?offset=4").body == b"err\n"


def test_argv_cwd_and_env(desk, key):
    desk.run(key, "mkdir -p sub")
    wish = {"argv": ["sh", "-c", 'pwd; echo "$NAME"'], "cwd": "/workspace/sub", "env": {"NAME": "a b"}}
    done = desk.finished(desk.post(f"/workspaces/{key}/commands", wish).json["id"])
    assert desk.get(f"/commands/{done['id']}/output").body == b"/workspace/sub\na b\n"


def test_the_workload_is_not_root_and_has_no_network_and_no_host(desk, key):
    assert desk.run(key, "id -u").strip() == b"1000"
    assert desk.run(key, "ls -A /home/agent; ls /root /work 2>/dev/null | wc -l").strip() == b"0"
    assert desk.run(key, "cat /proc/net/dev | grep -vc -e lo: -e Inter -e face", expect_exit=1).strip() == b"0"
    environment = desk.run(key, "env -0 | tr '\\0' '\\n' | cut -d= -f1 | sort").split()
    assert not [name for name in environment if name.startswith((b"HANDRAIL_HOME", b"DJANGO", b"SSH", b"AWS"))]


def test_output_follows_while_it_runs(desk, key):
    started = desk.post(f"/workspaces/{key}/commands", {"command": "echo first; sleep 1; echo second"}).json
    assert desk.get(f"/commands/{started['id']}/output?follow=1").body == b"first\nsecond\n"


def test_a_reader_who_goes_away_is_no_error(desk, key):
    before = len(desk.product.log)
    asked = desk.post(f"/workspaces/{key}/commands", {"command": "yes | head -c 60000000; sleep 300"}).json
    host = f"127.0.0.1:{desk.product.port}"
    wish = f"GET /api/v1/commands/{asked['id']}/output?follow=1 HTTP/1.1\r\nHost: {host}\r\n"
    wish += f"Authorization: Bearer {desk.token}\r\n\r\n"
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", desk.product.port)) as reader:
            reader.sendall(wish.encode())
            assert reader.recv(100).startswith(b"HTTP/1.1 200")
            time.sleep(0.5)  # so that much waits to be sent
    desk.post(f"/commands/{asked['id']}/cancel", expect=202)
    desk.finished(asked["id"])
    assert "Traceback" not in desk.product.log[before:]


def test_a_time_out_ends_it_with_everything_it_started(desk, key):
    started = time.monotonic()
    wish = {"command": "(sleep 300 &) ; sleep 300", "timeout_s": 1}
    done = desk.finished(desk.post(f"/workspaces/{key}/commands", wish).json["id"])
    assert "longer than it may" in done["reason"]
    assert done["exit_status"] is None
    assert time.monotonic() - started < 20
    assert desk.run(key, "pgrep -c sleep", expect_exit=1).strip() == b"0"


def test_cancel_ends_it(desk, key):
    asked = desk.post(f"/workspaces/{key}/commands", {"command": "echo begun; sleep 300"}).json
    while desk.get(f"/commands/{asked['id']}/output").body != b"begun\n":
        time.sleep(0.1)
    desk.post(f"/commands/{asked['id']}/cancel", expect=202)
    done = desk.finished(asked["id"])
    assert "cancelled" in done["reason"]
    desk.post(f"/commands/{asked['id']}/cancel", expect=202)
    assert desk.finished(asked["id"])["reason"] == done["reason"]


def test_the_same_idempotency_key_runs_once(desk, key):
    headers = {"Idempotency-Key": "once", "Content-Type": "application/json"}
    wish = {"command": "echo x >> counted"}
    first = desk.post(f"/workspaces/{key}/commands", wish, headers=headers).json
    again = desk.post(f"/workspaces/{key}/commands", wish, headers=headers).json
    assert first["id"] == again["id"]
    desk.finished(first["id"])
    assert desk.get(f"/workspaces/{key}/files/counted").body == b"x\n"
    desk.post(f"/workspaces/{key}/commands", {"command": "echo y"}, expect=422, headers=headers)


def test_hundreds_of_megabytes_of_output_are_counted_and_capped(desk, key):
    asked = desk.post(
        f"/workspaces/{key}/commands", {"command": "head -c 300000000 /dev/zero | tr '\\0' x; echo end"}
    ).json
    done = desk.finished(asked["id"])
    assert (done["output_bytes"], done["truncated"], done["exit_status"]) == (300_000_004, True, 0)
    kept = desk.get(f"/commands/{done['id']}/output").body
    assert kept.startswith(b"xxxx")
    assert kept.endswith(b"end\n")
    assert b"bytes were not kept" in kept
    assert len(kept) < 80_000_000


def test_a_program_that_leaves_children_behind_ends_all_the_same(desk, key):
    done = desk.run(key, "nohup sleep 60 >/dev/null 2>&1 & echo left")
    assert done == b"left\n"
    assert desk.run(key, "pgrep -c sleep").strip() == b"1"
    desk.run(key, "pkill sleep")


def test_a_sleeping_workspace_wakes_for_a_command(desk):
    key = desk.create()["key"]
    desk.post(f"/workspaces/{key}/pause", expect=202)
    assert desk.settled(key)["state"] == "paused"
    assert desk.run(key, "echo awake") == b"awake\n"
    assert desk.settled(key)["state"] == "ready"


def test_a_stopped_workspace_does_not(desk):
    key = desk.create()["key"]
    desk.post(f"/workspaces/{key}/stop", expect=202)
    assert desk.settled(key)["state"] == "stopped"
    assert desk.post(f"/workspaces/{key}/commands", {"command": "true"}, expect=409).json["state"] == "stopped"


@pytest.mark.parametrize(
    "wish",
    [
        {},
        {"command": ""},
        {"command": "   "},
        {"argv": []},
        {"command": "true", "argv": ["true"]},
        {"command": "a\0b"},
        {"command": "true", "timeout_s": 0},
        {"command": "x" * 200_000},
        {"check": "none-such"},
        {"command": 7},
    ],
)
def test_invalid_command_requests(desk, key, wish):
    before = desk.get(f"/workspaces/{key}/commands").json
    desk.post(f"/workspaces/{key}/commands", wish, expect=422)
    assert desk.get(f"/workspaces/{key}/commands").json == before


def test_a_command_that_is_not_utf8_is_refused_and_nothing_runs(desk, key):
    answer = desk.product.call(
        "POST", f"/api/v1/workspaces/{key}/commands", desk.token, b'{"command": "echo \xff > nonutf8"}'
    )
    assert answer.status == 400
    desk.get(f"/workspaces/{key}/files/nonutf8", expect=404)


def test_a_working_folder_that_is_not_there_is_the_reason(desk, key):
    asked = desk.post(f"/workspaces/{key}/commands", {"command": "true", "cwd": "/workspace/none"}).json
    done = desk.finished(asked["id"])
    assert (done["state"], done["exit_status"]) == ("settled", None)
    assert done["reason"]
