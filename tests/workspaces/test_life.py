"""A workspace's life loses nothing: what ends it, what proves it, what holds it, and what nobody knew of."""

import json
import os
import shutil
import signal
import threading
import uuid
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, why_not
from workspaces.drivers import cgroups
from workspaces.drivers.base import RunRecord
from workspaces.drivers.init_client import InitClient

MB = 1024**2
EAT = "exec python3 -c 'x = bytearray(400 << 20)'"


@pytest.fixture(scope="module")
def life(product):
    """A desk of a team of its own, with the environments that these tests need."""
    desk = Desk(product, product.agent_token("life", team="life"))
    environments = {
        "small": {"limits": {"disk_bytes": 16 * MB}},
        "served": {
            "services": {
                "web": "exec python3 -m http.server 8099 --bind 127.0.0.1",
                "flaky": "echo again >> /workspace/tries; exit 3",
                "once": "echo once >> /workspace/once",
            }
        },
        "made": {"setup": "echo one > tool"},
        "tight": {"limits": {"memory_bytes": 96 * MB}},
    }
    in_docker = {"driver": "docker", "image": IMAGES["docker"], "minimum_isolation": "container"}
    environments |= {f"{name} in docker": fields | in_docker for name, fields in environments.items()}
    script = (
        "import json; from dashboard.models import Team; from workspaces.models import Environment;"
        "team = Team.objects.get(slug='life');"
        f"made = json.loads({json.dumps(environments)!r});"
        "[Environment.objects.create(team=team, name=name, **fields) for name, fields in made.items()]"
    )
    product.shell(script)
    return desk


@pytest.fixture(params=["sandbox", "docker"])
def kind(request, require):
    """`kind("made")`: what to ask for in this kind of workspace, `kind()` without an environment of its own."""
    name = request.param
    if name == "docker" and (why := why_not("docker", with_image=True)):
        require("docker", why)

    def wish(environment: str = "") -> dict:
        if environment:
            return {"environment": environment if name == "sandbox" else f"{environment} in docker"}
        return {} if name == "sandbox" else {"driver": "docker", "image": IMAGES["docker"]}

    return wish


def tree_of(product, marker: str):
    """The folder of the workspace that has this file."""
    [found] = product.home.glob(f"workspaces/*/tree/{marker}")
    return found.parent


def owner_of(product, tree) -> RunRecord:
    """The record of the Run that is up on a tree."""
    records = [RunRecord.from_json(path.read_text()) for path in product.home.glob("runs/*/record.json")]
    [owner] = [owner for owner in records if owner.tree == str(tree)]
    return owner


def marked(life, **wish) -> tuple:
    """A new workspace with a file that no other has: (key, tree)."""
    key, marker = life.create(**wish)["key"], f"mark-{uuid.uuid4().hex}"
    life.call("PUT", f"/workspaces/{key}/files/{marker}", b"", 201)
    return key, tree_of(life.product, marker)


def asleep(life, key) -> dict:
    life.post(f"/workspaces/{key}/pause", expect=202)
    return life.settled(key)


def awake(life, key) -> dict:
    life.post(f"/workspaces/{key}/resume", expect=202)
    return life.settled(key)


# Proof ---------------------------------------------------------------------------------------------------------------


def test_what_was_changed_behind_its_back_is_an_alarm_that_can_be_answered(life, kind):
    key, tree = marked(life, **kind())
    life.run(key, "mkdir d; echo same > d/same; echo away > away; echo stays > stays")
    assert asleep(life, key)["state"] == "paused"
    was = os.stat(tree / "d/same")
    (tree / "d/same").write_text("SAME\n")  # as large as before, and with its time put back
    os.utime(tree / "d/same", ns=(was.st_atime_ns, was.st_mtime_ns))
    (tree / "away").unlink()
    (tree / "new").write_text("new\n")

    woken = awake(life, key)
    assert woken["state"] == "ready"
    alarm = woken["alarm"]
    assert {"d/same", "away", "new"} <= set(alarm["names"])
    assert alarm["differ"] == len(alarm["names"]) == woken["proof"]["differ"]
    assert life.get(f"/workspaces/{key}/files/d/same").body == b"SAME\n"  # nothing was replaced
    before, found = alarm["snapshot"], alarm["found"]
    changes = life.get(f"/workspaces/{key}/diff?from={before}&to={found}").json["changes"]
    assert {change["path"] for change in changes} == {"d/same", "away", "new"}
    run = life.get(f"/workspaces/{key}/runs").json["runs"][0]
    assert run["manifest"]["proof"]["differ"] == run["proof_differ"] == alarm["differ"]

    # It stays until somebody answers, whatever holds later.
    asleep(life, key)
    assert (again := awake(life, key))["proof"]["differ"] == 0
    assert again["alarm"] == alarm
    life.post(f"/workspaces/{key}/snapshots/{before}/restore", expect=202)
    assert life.settled(key)["alarm"] == {}
    assert life.get(f"/workspaces/{key}/files/d/same").body == b"same\n"


def test_what_was_found_is_kept_and_every_byte_is_compared_on_request(life):
    key, tree = marked(life)
    asleep(life, key)
    life.post(f"/workspaces/{key}/prove", expect=202)
    assert (proof := life.settled(key)["proof"])["differ"] == 0
    assert proof["how"] == "every byte"
    life.post(f"/workspaces/{key}/keep", expect=409)  # there is nothing to answer
    (tree / "new").write_text("new\n")
    awake(life, key)
    life.post(f"/workspaces/{key}/keep", expect=202)
    assert life.settled(key)["alarm"] == {}
    assert life.get(f"/workspaces/{key}/files/new").body == b"new\n"
    life.post(f"/workspaces/{key}/prove", expect=409)  # programs may write meanwhile


# Ends ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def killed(request, kind) -> str:
    """What is said of a workspace of this kind whose first process was killed; only an engine knows by what."""
    in_docker = request.node.callspec.params["kind"] == "docker"
    return "The workspace's container was killed." if in_docker else "its first process was killed or crashed"


def test_a_crash_leaves_a_snapshot_and_says_so(life, kind, killed):
    key, tree = marked(life, **kind())
    life.run(key, "echo last > words")
    os.kill(owner_of(life.product, tree).pid, signal.SIGKILL)
    ended = until(lambda: (w := life.get(f"/workspaces/{key}").json)["state"] == "stopped" and w)
    assert ended["reason"] in (killed, f"It ended by itself: {killed}.")
    newest = life.get(f"/workspaces/{key}/snapshots").json["snapshots"][0]
    assert newest["kind"] == "end"
    assert life.get(f"/workspaces/{key}/files/words?snapshot={newest['number']}").body == b"last\n"
    assert awake(life, key)["proof"]["differ"] == 0


def test_what_is_asked_for_before_anybody_saw_a_crash_runs_after_a_resume(life, kind, killed):
    key, tree = marked(life, **kind())
    runner = life.product.part_pid("runner")
    os.kill(runner, signal.SIGSTOP)
    try:
        os.kill(owner_of(life.product, tree).pid, signal.SIGKILL)
        command = life.post(f"/workspaces/{key}/commands", {"command": "echo on >> words; cat words"}).json["id"]
        call = {"tool": "Bash", "arguments": {"command": "ls"}, "workspace": key, "mode": "broker"}
        action = life.post("/actions", call).json["id"]
    finally:
        os.kill(runner, signal.SIGCONT)
    done = life.finished(command)
    assert (done["exit_status"], done["output_bytes"]) == (0, 3), done["reason"]
    until(lambda: life.get(f"/actions/{action}").json["status"] == "succeeded")
    assert life.settled(key)["state"] == "ready"
    ended = [run["end_reason"] for run in life.get(f"/workspaces/{key}/runs").json["runs"]]
    assert ended == ["", killed]


def test_an_end_that_fails_is_reported_and_tried_again_until_it_holds(life, kind, killed):
    key, tree = marked(life, **kind())
    life.run(key, "echo last > words")
    owner = owner_of(life.product, tree)
    in_the_way = Path(owner.address.socket)  # nobody can clear away a folder in the place of a socket
    in_the_way.unlink()
    (in_the_way / "full").mkdir(parents=True)
    os.kill(owner.pid, signal.SIGKILL)
    failing = until(lambda: (w := life.get(f"/workspaces/{key}").json)["reason"] and w)
    assert (failing["state"], failing["reason"][:24]) == ("ready", "It exited. Cleanup faile")
    assert "will be retried" in failing["reason"]
    shutil.rmtree(in_the_way)
    ended = until(lambda: (w := life.get(f"/workspaces/{key}").json)["state"] == "stopped" and w)
    assert ended["reason"] in (killed, f"It ended by itself: {killed}.")
    assert life.get(f"/workspaces/{key}/files/words?snapshot={ended['head_snapshot']}").body == b"last\n"
    assert awake(life, key)["proof"]["differ"] == 0


def test_a_command_killed_by_a_stop_has_ended_although_nobody_saw_its_exit_status(life):
    """An init too slow to say how its programs ended: on a busy machine it is killed at the end of its grace."""
    key, tree = marked(life)
    command = life.post(f"/workspaces/{key}/commands", {"command": "echo on; exec sleep 600"}).json["id"]
    until(lambda: life.get(f"/commands/{command}/output").body == b"on\n")
    os.kill(owner_of(life.product, tree).pid, signal.SIGSTOP)
    life.post(f"/workspaces/{key}/stop", expect=202)
    assert life.settled(key)["state"] == "stopped"
    done = life.finished(command)
    assert (done["state"], done["exit_status"]) == ("settled", None)
    assert done["reason"] == "It was killed when its workspace ended; its exit status is unknown."


def test_memory_that_ran_out_is_a_reason_and_leaves_a_snapshot(life, kind, limits_memory):
    key, tree = marked(life, **kind("tight"))
    done = life.finished(life.post(f"/workspaces/{key}/commands", {"command": EAT}).json["id"])
    assert (done["exit_status"], done["signal"]) == (None, 9)
    assert done["reason"].startswith("killed by SIGKILL: out of memory. The limit is ")
    # The program goes, the workspace stays: what it has is there, and goes on.
    assert life.run(key, "echo last > words; cat words") == b"last\n"
    # When it takes the first process with it, that is the reason of the end.
    os.kill(owner_of(life.product, tree).pid, signal.SIGKILL)
    ended = until(lambda: (w := life.get(f"/workspaces/{key}").json)["state"] == "stopped" and w)
    assert (ended["reason"], ended["missing_snapshot"]) == ("It ran out of memory; its programs were stopped.", "")
    newest = life.get(f"/workspaces/{key}/snapshots").json["snapshots"][0]
    assert newest["kind"] == "end"
    assert life.get(f"/workspaces/{key}/files/words?snapshot={newest['number']}").body == b"last\n"


@pytest.fixture
def limits_memory(require):
    if not any("memory" in one.limits for one in cgroups.hierarchies()):
        require("cgroups", "no control group of this host can be written")


def test_a_wish_that_comes_before_the_crash_was_seen_is_no_alarm(life):
    key, tree = marked(life)
    life.run(key, "echo later > than-the-last-snapshot")
    os.kill(owner_of(life.product, tree).pid, signal.SIGKILL)
    woken = awake(life, key)
    woken = woken if woken["state"] == "ready" else awake(life, key)
    assert (woken["state"], woken["alarm"]) == ("ready", {})
    assert life.get(f"/workspaces/{key}/files/than-the-last-snapshot").body == b"later\n"


def test_a_restart_of_the_machine_is_known_by_its_boot(life):
    key, tree = marked(life)
    owner = owner_of(life.product, tree)
    record = life.product.home / "runs" / owner.run_id / "record.json"
    fresh = record.with_name("owner.other")
    fresh.write_text(record.read_text().replace(owner.boot_id, str(uuid.uuid4())))
    fresh.rename(record)
    os.kill(owner.pid, signal.SIGKILL)
    ended = until(lambda: (w := life.get(f"/workspaces/{key}").json)["state"] == "stopped" and w)
    assert ended["reason"] == "The machine was restarted, which ended its programs."


def test_a_snapshot_that_cannot_be_taken_is_owed_and_taken_before_anything_starts(life):
    product = life.product
    owing = Desk(product, product.agent_token("owing", team="owing"))
    key, _ = marked(owing)
    team_store = max(product.home.glob("stores/*"), key=lambda path: path.stat().st_mtime_ns)
    aside = team_store.with_name("aside")
    team_store.rename(aside)
    team_store.write_text("no store\n")
    try:
        owing.run(key, "echo kept > kept")
        slept = asleep(owing, key)
        assert slept["state"] == "paused"
        assert slept["missing_snapshot"] == slept["reason"] != ""
        refused = awake(owing, key)
        assert (refused["state"], "must be taken before" in refused["reason"]) == ("paused", True)
        owing.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork"}, 409)
    finally:
        team_store.unlink()
        aside.rename(team_store)
    woken = awake(owing, key)
    assert (woken["state"], woken["missing_snapshot"], woken["proof"]["differ"]) == ("ready", "", 0)
    kinds = [row["kind"] for row in owing.get(f"/workspaces/{key}/snapshots").json["snapshots"]]
    assert kinds[0] == "end"
    assert owing.get(f"/workspaces/{key}/files/kept?snapshot={woken['head_snapshot']}").body == b"kept\n"


# Wakes ---------------------------------------------------------------------------------------------------------------


def test_wakes_at_the_same_time_are_one(life):
    key, _ = marked(life)
    asleep(life, key)
    done = []
    ask = threading.Thread(target=lambda: done.append(life.run(key, "echo up")))
    others = [threading.Thread(target=lambda: done.append(life.run(key, "echo up"))) for _ in range(4)]
    write = threading.Thread(target=lambda: life.call("PUT", f"/workspaces/{key}/files/woken", b"1", 201))
    for thread in (ask, *others, write):
        thread.start()
    for thread in (ask, *others, write):
        thread.join()
    assert done == [b"up\n"] * 5
    assert len(life.get(f"/workspaces/{key}/runs").json["runs"]) == 2  # the first, and the one that all woke
    assert life.get(f"/workspaces/{key}/files/woken").body == b"1"


# Orphans -------------------------------------------------------------------------------------------------------------


def test_a_run_without_a_row_is_stopped_and_reported_within_a_minute(life, kind):
    key, tree = marked(life, **kind())
    owner = owner_of(life.product, tree)
    script = (
        "from dashboard.database import clock; from workspaces.models import Run, Workspace;"
        f"Workspace.objects.filter(key='{key}').update(state='stopped');"
        f"Run.objects.filter(pk='{owner.run_id}').update(ended_at=clock.now())"
    )
    life.product.shell(script)
    until(lambda: not (life.product.home / "runs" / owner.run_id).exists())
    assert not os.path.exists(f"/proc/{owner.pid}")
    lead = life.product.person_token("lia", "lead", team="life")
    found = life.product.get(f"/api/v1/events?workspace={key}", lead).json["events"]
    told = [event for event in found if event["verb"] == "workspace.orphan_stopped"]
    assert owner.run_id in [event["data"]["run"] for event in told]
    assert awake(life, key)["state"] == "ready"


# Limits and services -------------------------------------------------------------------------------------------------


def test_a_workspace_above_its_disk_limit_is_frozen_until_it_is_smaller(life):
    key, _ = marked(life, environment="small")
    life.run(key, "head -c 20000000 /dev/urandom > big")
    frozen = until(lambda: (w := life.get(f"/workspaces/{key}").json)["vitals"].get("frozen") and w)
    assert "so its programs are frozen" in frozen["vitals"]["frozen"]
    words = frozen["vitals"]["frozen"].partition(" of ")[2]  # its size may be measured again in between
    refused = life.finished(life.post(f"/workspaces/{key}/commands", {"command": "echo"}).json["id"])
    assert (refused["exit_status"], refused["reason"].partition(" of ")[2]) == (None, words)
    assert life.call("PUT", f"/workspaces/{key}/files/more", b"1", 507).json["detail"].endswith(words)
    size = life.get(f"/workspaces/{key}/size").json
    assert (size["largest"][0]["path"], size["limit"]) == ("big", 16 * MB)
    life.call("DELETE", f"/workspaces/{key}/files/big")
    until(lambda: "frozen" not in life.get(f"/workspaces/{key}").json["vitals"])
    assert life.run(key, "echo on") == b"on\n"


def test_a_freeze_that_no_row_knows_of_ends(life, kind):
    """As after a crash between the freeze and its note, or when the full disk refused the note."""
    key, tree = marked(life, **kind())
    with InitClient(owner_of(life.product, tree).address.socket) as client:
        client.request("freeze")
    assert "frozen" not in life.get(f"/workspaces/{key}").json["vitals"]
    until(
        lambda: (
            life.finished(life.post(f"/workspaces/{key}/commands", {"command": "echo on"}).json["id"])["exit_status"]
            == 0
        )
    )


def test_services_come_back_and_their_ports_are_listed(life):
    key, _ = marked(life, environment="served")

    def listens():
        ports = life.get(f"/workspaces/{key}").json["vitals"].get("ports") or []
        return {"address": "127.0.0.1", "port": 8099} in ports

    until(listens)
    # One that fails is started again; one that has done its work is not.
    until(lambda: len(life.get(f"/workspaces/{key}/files/tries").body.split()) > 1)
    assert life.get(f"/workspaces/{key}/files/once").body == b"once\n"
    slept = asleep(life, key)
    manifest = life.get(f"/workspaces/{key}/snapshots/{slept['head_snapshot']}/manifest").json
    assert manifest["ports"] == [{"address": "127.0.0.1", "port": 8099}]
    assert "web" in manifest["services"]
    assert slept["vitals"].get("ports") is None
    awake(life, key)
    until(listens)
    assert life.get(f"/workspaces/{key}/files/once").body == b"once\nonce\n"


# Drift ---------------------------------------------------------------------------------------------------------------


def test_a_new_set_up_runs_on_the_files_that_are_there_and_can_be_undone(life):
    key, tree = marked(life, environment="made")
    life.run(key, "echo mine > mine; echo two > tool.before")
    save = "e.pk = None; e.version += 1; e.setup = {!r}; e.save(force_insert=True)"
    find = "from workspaces.models import Environment; e = Environment.objects.filter(name='made').latest('version')"
    life.product.shell(f"{find}; {save.format('echo two > tool')}")
    asleep(life, key)
    awake(life, key)
    drift = life.get(f"/workspaces/{key}/runs").json["runs"][0]["manifest"]["drift"]
    assert drift == {
        "made_with_version": 1,
        "newest_version": 2,
        "words": ["The setup script has changed since it was created."],
        "lock_files": [],
    }
    lead = Desk(life.product, life.product.person_token("lia", "lead", team="life"))
    lead.post(f"/workspaces/{key}/renew", expect=202)
    renewed = life.settled(key)
    assert (renewed["state"], renewed["environment_version"]) == ("ready", 2)
    assert (tree / "tool").read_text() == "two\n"
    assert (tree / "mine").read_text() == "mine\n"
    asleep(life, key)
    awake(life, key)
    assert life.get(f"/workspaces/{key}/runs").json["runs"][0]["manifest"]["drift"] is None

    lead.post(f"/workspaces/{key}/renew/undo", expect=202)
    back = life.settled(key)
    assert (back["environment_version"], (tree / "tool").read_text()) == (1, "one\n")

    # One that fails leaves the files as they were, and says why.
    life.product.shell(f"{find}; {save.format('rm mine; echo no; exit 7')}")
    lead.post(f"/workspaces/{key}/renew", expect=202)
    failed = life.settled(key)
    assert (failed["state"], failed["environment_version"]) == ("stopped", 1)
    assert failed["reason"].startswith("The setup script failed (exit 7).")
    assert (tree / "mine").read_text() == "mine\n"
    assert awake(life, key)["alarm"] == {}


def test_what_a_snapshot_could_not_keep_is_named(life):
    key, _ = marked(life)
    life.run(key, "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'")
    taken = life.post(f"/workspaces/{key}/snapshots", {}, 201).json
    assert taken["skipped"] == 1
    assert taken["not_kept"] == [{"path": "sock", "reason": "a socket has no content to keep"}]
    manifest = life.get(f"/workspaces/{key}/snapshots/{taken['number']}/manifest").json
    assert manifest.get("body", manifest)["not_kept"] == taken["not_kept"]
