"""The demonstration is real: it goes through against a running product, and what it leaves can be looked at."""

import os
import signal
import subprocess
import sys
import time

from tests.support import CHECKOUT


def test_the_demonstration_goes_through_unattended(product):
    done = product.manage("demo", "--unattended", timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    verdicts = [line.split(":")[0].strip() for line in done.stdout.splitlines() if "allowed" in line.split(":")[0]]
    assert verdicts == ["allowed"] * 6 + ["not allowed"] * 2
    assert (
        done.stdout.splitlines()[-1]
        == f"Now your own folder: {sys.executable} {CHECKOUT}/manage.py connect claude-code PATH"
    )
    token = product.person_token("demo-looker", "viewer")
    key = demo_key(product, token)
    changes = product.get(f"/api/v1/workspaces/{key}/diff?from=1&to=live", token).json["changes"]
    assert "demo_test.py" in [change["path"] for change in changes if change["kind"] == "added"]
    assert any(change["path"].startswith("templates") and change["kind"] == "removed" for change in changes)
    actions = product.get(f"/api/v1/actions?workspace={key}&limit=50", token).json["actions"]
    assert {action["status"] for action in actions} <= {"succeeded", "denied"}
    assert left_by_it(product, key) == "0 live tokens, 0 open terminals, committed: True"


def demo_key(product, token) -> str:
    """The newest demonstration's workspace."""
    listed = product.get("/api/v1/workspaces", token).json["workspaces"]
    return max((w for w in listed if w["key"].startswith("handrail-demo-")), key=lambda w: w["created_at"])["key"]


def left_by_it(product, key) -> str:
    return product.shell(
        "from dashboard.models import Token; from workspaces.models import Workspace\n"
        "tokens = Token.objects.live()\n"
        "live = sum(str(token.agent or token.user) in ('demo agent', 'demo-reviewer') for token in tokens)\n"
        f"w = Workspace.objects.get(key={key!r})\n"
        "shas = [snapshot.manifest.body['git']['sha'] for snapshot in (w.baseline, w.head)]\n"
        "terminals = w.terminals.filter(ended_at=None).count()\n"
        "print(f'{live} live tokens, {terminals} open terminals, committed: {shas[0] != shas[1]}')"
    )


def test_a_person_may_take_long_and_can_stop_it(product):
    """A minute and more at a card used to end it with a traceback: its terminal was not read meanwhile."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", "demo"],
        cwd=CHECKOUT,
        env=product.environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test run in the background ignores it
    )
    said = ""
    for line in process.stdout:
        said += line
        if "Waiting for your answer at" in line:
            break
    address = said.split("Waiting for your answer at ")[1].strip()
    assert address.startswith(f"{product.url}/actions/")
    time.sleep(65)
    token = product.person_token("demo-answers", "reviewer")
    action = product.get(f"/api/v1/actions/{address.rstrip('/').rpartition('/')[2]}", token).json
    body = {"verdict": "deny", "digest": action["digest"]}
    assert product.post(f"/api/v1/actions/{action['id']}/decision", token, body).status == 200
    for line in process.stdout:
        said += line
        if line.count("Waiting for your answer at"):
            break
    assert "not allowed: demo-answers denied this." in said
    os.killpg(process.pid, signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    assert process.returncode == 1, rest
    assert "Traceback" not in said + rest
    key = demo_key(product, token)
    waiting = product.get(f"/api/v1/actions?status=pending&workspace={key}", token).json["actions"]
    assert waiting == []
    assert left_by_it(product, key).startswith("0 live tokens, 0 open terminals")
