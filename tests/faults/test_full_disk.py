"""A full disk: a clear problem for each call, nothing lost, nothing half done, and all is well once there is room."""

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from tests.support.product import Product

ROOM = "320m"  # with less than 200 MB free a Handrail does not call itself ready


@pytest.fixture
def small_disk(tmp_path, require):
    """A folder on a file system of its own that is soon full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={ROOM},mode=0700", "handrail-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        require("tmpfs", f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder) -> Path:
    """Take all the room there is."""
    ballast = folder / "ballast"
    file = os.open(ballast, os.O_WRONLY | os.O_CREAT)
    for size in (1 << 20, 1 << 12, 1):
        try:
            while True:
                os.write(file, b"\0" * size)
        except OSError:
            pass
    os.close(file)
    return ballast


def ask(product, token, tag=None):
    body = {"tool": "Bash", "arguments": {"command": f"git push origin {tag or uuid.uuid4().hex}"}}
    return product.post("/api/v1/actions", token, body)


def test_a_full_disk_is_reported_and_nothing_is_lost(small_disk):
    product = Product(small_disk / "home", HANDRAIL_RESERVE_BYTES="60000000")
    try:
        product.start()
        agent, person = product.agent_token(), product.person_token("rita", "lead")
        assert product.post("/api/v1/workspaces", agent, {"key": "w"}).status == 201
        assert product.settled("/api/v1/workspaces/w", agent)["state"] == "ready"
        kept = ask(product, agent).json
        ballast = fill(small_disk)

        answers = [ask(product, agent) for _ in range(60)]
        accepted = [answer.json["id"] for answer in answers if answer.status == 201]
        refused = [answer for answer in answers if answer.status != 201]
        assert {answer.status for answer in refused} == {507}, {answer.text for answer in refused}
        assert refused[-1].headers["Content-Type"] == "application/problem+json"
        assert "disk is full" in refused[-1].json["detail"]
        hook = {
            "session_id": "s",
            "cwd": "/repo",
            "hook_event_name": "PreToolUse",
            "tool_name": "Bash",
            "tool_input": {"command": "git push"},
            "tool_use_id": "t",
        }
        said = product.post("/hooks/claude-code", agent, hook)
        assert (said.status, said.json["hookSpecificOutput"]["permissionDecision"]) == (200, "deny")
        written = product.call("PUT", "/api/v1/workspaces/w/files/big", agent, b"x" * 1_000_000)
        assert written.status == 507, written.body
        assert product.get("/api/v1/workspaces/w/files/big", agent).status == 404
        made = product.post("/api/v1/workspaces", agent, {"key": "one-more"})
        assert (made.status, "are reserved for snapshots" in made.json["detail"]) == (507, True), made.body
        body = {"verdict": "approve", "digest": kept["digest"]}
        assert product.post(f"/api/v1/actions/{kept['id']}/decision", person, body).status == 507
        assert product.get(f"/api/v1/actions/{kept['id']}", person).json["status"] == "pending"
        assert product.get("/healthz").status == 200

        ballast.unlink()
        product.wait_for("/readyz", within=60)
        listed = product.get("/api/v1/actions?limit=200", person).json["actions"]
        assert {row["id"] for row in listed} == {kept["id"], *accepted}
        assert product.post(f"/api/v1/actions/{kept['id']}/decision", person, body).json["status"] == "approved"
        assert ask(product, agent).status == 201
        command = product.post("/api/v1/workspaces/w/commands", agent, {"command": "echo well > again"}).json
        ended = product.settled(f"/api/v1/commands/{command['id']}", agent)
        assert ended["exit_status"] == 0, f"{ended}\n{product.log[-3000:]}"
    finally:
        product.clean_up()
