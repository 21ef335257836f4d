"""The runner killed in each step of an undo outside: nothing is taken back twice, and a push of others is kept."""

import subprocess
import uuid

IDENTITY = "git -c user.name=A -c user.email=a@example.org"


def _git(folder, *args) -> str:
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def _source(desk):
    folder = desk.cartridges / f"undo-{uuid.uuid4().hex}.git"
    _git(desk.cartridges, "init", "-q", "--bare", "-b", "main", folder)
    _git(folder, "config", "core.logAllRefUpdates", "true")
    tree = _git(folder, "hash-object", "-w", "-t", "tree", "/dev/null")
    first = _git(folder, "-c", "user.name=T", "-c", "user.email=t@x", "commit-tree", "-m", "one", tree)
    _git(folder, "update-ref", "refs/heads/main", first)
    return folder, first


def _until(desk, pk: str, is_so) -> dict:
    found = {}

    def look():
        found.update(desk.insist("GET", f"/actions/{pk}", desk.person).json)
        return is_so(found) or f"{found['status']} {found['compensation']} {found['no_compensation_because']}"

    desk.tells(look, within=90)
    return found


def _approve(desk, action: dict):
    answer = {"verdict": "approve", "digest": action["digest"]}
    desk.insist("POST", f"/actions/{action['id']}/decision", desk.person, answer)


def test_an_undo_is_carried_out_once_whichever_step_its_runner_was_killed_in(desk):
    folder, first = _source(desk)
    key = f"undo-{uuid.uuid4().hex[:8]}"
    desk.insist("POST", "/workspaces", desk.agent, {"key": key, "source": {"git": str(folder)}})
    desk.tells(lambda: desk.insist("GET", f"/workspaces/{key}?wait=5", desk.agent).json["state"] == "ready", within=60)
    command = {"command": f"{IDENTITY} commit -q --allow-empty -m two"}
    asked = desk.insist("POST", f"/workspaces/{key}/commands", desk.agent, command).json["id"]
    desk.tells(lambda: desk.insist("GET", f"/commands/{asked}", desk.agent).json["exit_status"] == 0)
    for number, point in enumerate(("way_back.found", "take_back.looked", "take_back.put_back")):
        branch = f"out-{number}"
        _git(folder, "branch", branch, first)
        if point == "way_back.found":
            desk.arm(point)
        pk = desk.insist("POST", f"/workspaces/{key}/push", desk.agent, {"branch": branch}).json["action"]["id"]
        found = _until(desk, pk, lambda told: told["compensation"] is not None)
        assert found["undo"] == "outside"
        _approve(desk, found)
        _until(desk, pk, lambda told: (told["compensation"] or {}).get("state") == "ready")
        assert _git(folder, "rev-parse", branch) != first
        if point != "way_back.found":
            desk.arm(point)
        back = desk.insist("POST", f"/actions/{pk}/compensate", desk.person).json
        _approve(desk, back)
        done = _until(desk, back["id"], lambda told: told["status"] in ("succeeded", "failed", "uncertain"))
        assert (done["status"], desk.has_fired(point)) == ("succeeded", True), (point, done["result"])
        assert _git(folder, "rev-parse", branch) == first
        assert len(_git(folder, "reflog", "show", branch).splitlines()) == 3, point
