"""The runner killed in each step of a push: nothing is pushed twice or lost, and the outcome says which it was."""

import subprocess
import uuid

IDENTITY = "git -c user.name=A -c user.email=a@example.org"


def _git(folder, *args) -> str:
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def test_the_source_says_whether_a_push_arrived_when_its_runner_was_killed(desk):
    folder, key = desk.cartridges / f"up-{uuid.uuid4().hex}.git", f"push-{uuid.uuid4().hex[:8]}"
    _git(desk.cartridges, "init", "-q", "--bare", "-b", "main", folder)
    _git(folder, "config", "core.logAllRefUpdates", "true")
    tree = _git(folder, "hash-object", "-w", "-t", "tree", "/dev/null")
    first = _git(folder, "-c", "user.name=T", "-c", "user.email=t@x", "commit-tree", "-m", "one", tree)
    _git(folder, "update-ref", "refs/heads/main", first)
    desk.insist("POST", "/workspaces", desk.agent, {"key": key, "source": {"git": str(folder)}})
    desk.tells(lambda: desk.insist("GET", f"/workspaces/{key}?wait=5", desk.agent).json["state"] == "ready", within=60)
    before = first
    for point in ("push.looked", "push.begun", "push.sent"):
        command = {"command": f"{IDENTITY} commit -q --allow-empty -m {point}"}
        asked = desk.insist("POST", f"/workspaces/{key}/commands", desk.agent, command).json["id"]
        desk.tells(lambda asked=asked: desk.insist("GET", f"/commands/{asked}", desk.agent).json["exit_status"] == 0)
        told = desk.survives(
            point, lambda: desk.call("POST", f"/workspaces/{key}/push", desk.person, {"branch": "out"})
        )
        outcome = told.json["outcome"]
        now = _git(folder, "rev-parse", "-q", "--verify", "out") if point != "push.begun" else before
        assert (told.json["state"], desk.has_fired(point)) == ("settled", True), (point, outcome)
        if point == "push.begun":
            assert (outcome["ok"], outcome["reason_code"]) == (False, "runner_stopped")
            assert f"did not arrive: out is at {before[:12]}. Push again." in outcome["reason"]
            assert _git(folder, "rev-parse", "out") == before
        else:
            was = "" if point == "push.looked" else before
            assert outcome["pushed"] == {"branch": "out", "sha": now, "from": was}, point
            assert _git(folder, "log", "-1", "--format=%s", "out") == point
        before = now
    assert len(_git(folder, "reflog", "show", "out").splitlines()) == 2
    assert not list(desk.product.home.glob("workspaces/*/push-*"))
