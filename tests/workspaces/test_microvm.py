"""Workspaces in microVMs, through the whole product: its API, its runner, real guests."""

import asyncio
import contextlib
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
from pathlib import Path

import aiohttp
import pytest

from tests.support.desk import Desk
from tests.support.waiting import until
from tests.workspaces.manifests.test_shown import TAKING_IT_AWAY, changed, shown
from tests.workspaces.secrets.conftest import Person
from tests.workspaces.terminals.viewers import Viewer
from tests.workspaces.test_previews import APP, PORT, Host
from workspaces.drivers.base import RunRecord

pytestmark = pytest.mark.usefixtures("guests_end")


@pytest.fixture(scope="module")
def desk(product, token):
    patient = Desk(product, token)
    patient.looks = 120  # an emulated guest without a template boots slowly on a busy machine
    return patient


@pytest.fixture(scope="module")
def microvm(desk, require):
    """`microvm(**wish)`: make a workspace in a guest; `microvm.isolation` is what this host offers."""
    [found] = [driver for driver in desk.get("/drivers").json["drivers"] if driver["name"] == "microvm"]
    if not found["available"]:
        require("microvm", f"{found['reason']} {found['what_to_do']}")

    def make(**wish):
        made = desk.create(driver="microvm", **wish)
        assert made["state"] == "ready", made["reason"]
        return made

    make.isolation = found["isolation"]
    return make


def move(desk, key, what):
    desk.post(f"/workspaces/{key}/{what}", expect=202)
    return desk.settled(key)


def owner_of(product, key) -> RunRecord:
    """The driver's record of the Run that is up."""
    records = [RunRecord.from_json(path.read_text()) for path in product.home.glob("runs/*/record.json")]
    [found] = [record for record in records if record.address.env.get("HANDRAIL_WORKSPACE") == key]
    return found


def test_a_guest_from_its_making_to_its_fork(desk, microvm, repository):
    path, _, _ = repository
    made = microvm(source={"git": str(path), "ref": "main"})
    key = made["key"]
    assert (made["isolation"], made["driver"]) == (microvm.isolation, "microvm")
    body = desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    version, _, digest = body.get("body", body)["machine_image"].partition("@sha256:")
    assert (bool(version), len(digest)) == (True, 64)
    # One path for all: command, file browser, terminal and snapshot.
    files = f"/workspaces/{key}/files"
    assert desk.run(key, "pwd; head -1 calc.py; echo one > note") == b"/workspace\ndef add(a, b):\n"
    assert desk.get(f"{files}/note").body == b"one\n"
    names = {entry["name"]: entry["type"] for entry in desk.get(f"{files}/").json["entries"]}
    assert names == {".git": "folder", "calc.py": "file", "note": "file"}
    large = os.urandom(3 << 20)
    assert desk.call("PUT", f"{files}/deep/er/large", large, expect=201).json["created"]
    assert desk.get(f"{files}/deep/er/large").body == large
    assert desk.run(key, "stat -c %U deep/er/large; rm -r deep") == b"agent\n"
    desk.post(f"/workspaces/{key}/terminals", {"argv": ["bash", "-c", "tty > from-terminal"]})
    path = f"/api/v1{files}/from-terminal"
    until(lambda: desk.product.get(path, desk.token).body == b"/dev/pts/0\n")
    desk.get(f"{files}/nowhere", 404)
    point = desk.post(f"/workspaces/{key}/snapshots", {"label": "one"}).json["number"]
    desk.call("DELETE", f"{files}/from-terminal")
    desk.call("PUT", f"{files}/note", b"two\n")
    changes = desk.get(f"/workspaces/{key}/diff?from={point}&to=live").json["changes"]
    assert [(change["path"], change["kind"]) for change in changes] == [
        ("from-terminal", "removed"),
        ("note", "modified"),
    ]
    desk.post(f"/workspaces/{key}/snapshots/{point}/restore", expect=202)
    assert desk.settled(key)["proof"]["differ"] == 0
    tell = "cat note; stat -c %y note calc.py; cat /etc/machine-id"
    before = desk.run(key, tell).split()
    desk.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork"})
    assert desk.settled(f"{key}-fork")["state"] == "ready"
    after = desk.run(f"{key}-fork", tell).split()
    assert (before[:-1], before[-1] != after[-1]) == (after[:-1], True)
    desk.call("DELETE", f"/workspaces/{key}-fork", expect=202)


def test_programs_read_what_they_return_to_and_cannot_change_it(desk, microvm, repository):
    path, *_ = repository
    key = microvm(source={"git": str(path)})["key"]
    assert shown(desk, key) == desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    desk.run(key, "cd .handrail; " + "; ".join(f"! ({attempt}) 2> /dev/null || exit 1" for attempt in TAKING_IT_AWAY))
    desk.run(
        key, f"rm .handrail/other; git --no-optional-locks status --porcelain > ~/status; test ! -s ~/status; {BEATS}"
    )
    names = [entry["name"] for entry in desk.get(f"/workspaces/{key}/files/").json["entries"]]
    assert (changed(desk, key), sorted(names)) == ([], [".git", "calc.py"])
    desk.run(key, "echo mine > note")
    desk.post(f"/workspaces/{key}/snapshots", {"label": "noted"})
    assert changed(desk, key) == ["note"]
    move(desk, key, "pause")
    workspace = move(desk, key, "resume")
    assert (workspace["state"], workspace["proof"]["differ"]) == ("ready", 0)
    run = desk.get(f"/workspaces/{key}/runs").json["runs"][0]["id"]
    told = shown(desk, key)
    assert told == desk.get(f"/workspaces/{key}/runs/{run}/manifest").json
    assert told["memory"] == "its programs went on"
    desk.post(f"/workspaces/{key}/snapshots/1/restore", expect=202)
    assert desk.settled(key)["proof"]["differ"] == 0
    assert shown(desk, key) == told
    desk.call("DELETE", f"/workspaces/{key}", expect=202)


async def echoed(host: Host, text: str) -> str:
    """What the program of a preview says to a text over its WebSocket."""
    sent = {"Host": host.host, "Cookie": host.cookie, "Origin": f"http://{host.host}"}
    address = f"ws://127.0.0.1:{host.product.port}/socket"
    async with aiohttp.ClientSession() as session, session.ws_connect(address, headers=sent, protocols=["echo"]) as ws:
        await ws.send_str(text)
        return await ws.receive_str(timeout=60)


def test_a_port_of_a_guest_is_previewed_and_again_after_a_pause(desk, microvm, product):
    key = microvm()["key"]
    desk.call("PUT", f"/workspaces/{key}/files/app.py", APP, 201)
    desk.post(f"/workspaces/{key}/commands", {"command": f"exec python3 app.py {PORT}", "timeout_s": 3600})
    until(lambda: desk.run(key, f"(: < /dev/tcp/127.0.0.1/{PORT}) 2> /dev/null && echo up || true"))
    reviewer = Desk(product, product.person_token("reviewer-of-guests", "reviewer"))
    host = Host(product, reviewer.post(f"/workspaces/{key}/previews", {"port": PORT}).json["url"])
    assert host.enter().status == 303
    assert json.loads(host.ask("/form", "POST", b"x" * 300_000).text)["body"] == 300_000
    assert "hello" in asyncio.run(echoed(host, "hello"))
    nothing = Host(product, reviewer.post(f"/workspaces/{key}/previews", {"port": 3999}).json["url"])
    nothing.enter()
    assert (nothing.ask("/").status, "Nothing listens on port 3999." in nothing.ask("/").text) == (502, True)
    move(desk, key, "pause")
    until(lambda: host.ask("/").status == 503)
    assert move(desk, key, "resume")["state"] == "ready"
    until(lambda: host.ask("/").status == 200)  # the same program, which went on
    desk.call("DELETE", f"/workspaces/{key}", expect=202)


COUNTS = "n=0; while [ ! -e enough ]; do echo $n; n=$((n+1)); sleep 0.1; done; exit 7"


def test_a_pause_keeps_what_runs_and_rest_shows_the_newest_snapshot(desk, microvm, product, lead_token):
    key = microvm()["key"]
    boot = desk.run(key, "echo kept > note; cat /proc/sys/kernel/random/boot_id")
    counts = desk.post(f"/workspaces/{key}/commands", {"command": COUNTS}).json["id"]
    shell = Desk(product, lead_token).post(f"/workspaces/{key}/terminals", {"argv": ["bash", "--norc"]}).json["id"]

    def typed(line: bytes, until: bytes):
        async def main():
            async with Viewer(product, lead_token, shell, name="lena") as viewer:
                await viewer.until(lambda seen: seen.frames)
                await viewer.type(line)
                await viewer.until(lambda seen: until in seen.data and awake(seen.frames), 120)
                return [frame["asleep"] for frame in viewer.frames if frame["type"] == "sleep"]

        return asyncio.run(main())

    def awake(frames) -> bool:
        return not next((frame["asleep"] for frame in reversed(frames) if frame["type"] == "sleep"), False)

    assert typed(b"x=41; echo $x.\r", b"41.\r\n") == []
    paused = move(desk, key, "pause")
    assert (paused["state"], paused["missing_snapshot"]) == ("paused", "")
    assert desk.get(f"/workspaces/{key}/files/note").body == b"kept\n"
    assert desk.get(f"/workspaces/{key}/diff?from={paused['head_snapshot']}&to=live").json["changes"] == []
    assert desk.get(f"/commands/{counts}").json["state"] == "started"
    # To type is use: it wakes the workspace, and the same shell answers in the same boot of the same kernel.
    told = typed(b"echo $((x+1)).; cat /proc/sys/kernel/random/boot_id\r", b"42.\r\n" + boot.strip())
    assert told == [True, False]
    again = desk.settled(key)
    assert (again["state"], again["proof"]["differ"], again["alarm"]) == ("ready", 0, {})
    desk.run(key, "touch enough")
    assert desk.finished(counts)["exit_status"] == 7
    numbers = desk.get(f"/commands/{counts}/output").body.split()
    assert numbers == [b"%d" % n for n in range(len(numbers))]
    # Without its memory a pause ends what runs, and any use boots the guest.
    ended = desk.post(f"/workspaces/{key}/commands", {"command": "echo begun; sleep 9000"}).json["id"]
    until(lambda: desk.get(f"/commands/{ended}/output").body == b"begun\n")
    assert move(desk, key, "pause?memory=false")["state"] == "paused"
    assert desk.finished(ended)["exit_status"] is None
    assert desk.run(key, "cat note; cat /proc/sys/kernel/random/boot_id") != b"kept\n" + boot
    # A restore at rest is done by a guest in which nothing runs, and makes the kept memory worthless.
    waits = desk.post(f"/workspaces/{key}/commands", {"command": "echo begun; sleep 9000"}).json["id"]
    until(lambda: desk.get(f"/commands/{waits}/output").body == b"begun\n")
    move(desk, key, "pause")
    desk.post(f"/workspaces/{key}/snapshots/1/restore", expect=202)
    assert desk.settled(key)["proof"]["differ"] == 0
    ended = desk.finished(waits)
    assert (ended["state"], ended["exit_status"]) == ("settled", None)
    assert ended["reason"].startswith("it ended while its workspace was paused: its memory is gone.")
    assert move(desk, key, "resume")["state"] == "ready"
    assert desk.run(key, "ls; cat /proc/sys/kernel/random/boot_id") != boot


def test_a_guest_that_dies_leaves_a_snapshot_and_comes_back(desk, microvm):
    key = microvm()["key"]
    desk.run(key, "echo kept > note; sync")
    os.kill(owner_of(desk.product, key).pid, signal.SIGKILL)
    ended = until(lambda: (w := desk.get(f"/workspaces/{key}").json)["state"] == "stopped" and w)
    assert "It ended by itself" in ended["reason"]
    assert (ended["missing_snapshot"], ended["head_snapshot"]) == ("", 2)
    assert desk.get(f"/workspaces/{key}/files/note").body == b"kept\n"
    assert move(desk, key, "resume")["state"] == "ready"
    assert desk.run(key, "cat note") == b"kept\n"
    stopped = move(desk, key, "stop")
    assert (stopped["state"], stopped["missing_snapshot"]) == ("stopped", "")


SETUP = """
exec 3<>/dev/tcp/127.0.0.1/3128
printf 'GET http://nowhere.test/ HTTP/1.1\\r\\nHost: nowhere.test\\r\\n\\r\\n' >&3; read -r answer <&3
printf '#!/bin/sh\\necho "%s %s"\\n' "$(id -u)" "${answer% *}" > /usr/local/bin/tool; chmod 755 /usr/local/bin/tool
test -n "$NAME"; id -u >> by; date +%s%N > /opt/once
"""


def test_what_a_set_up_installs_is_there_in_the_next_one_and_in_a_fork(desk, microvm, product):
    name, value = f"SETUP_{secrets.token_hex(4).upper()}", secrets.token_urlsafe(30)
    person = Person.named(product, "sam-of-setups", "lead")
    person.set_secret(name, "setup", value)
    script = SETUP.replace("NAME", name)
    person.environment(name.lower(), driver="microvm", setup=script, setup_secrets=name)
    keys = [desk.create(environment=name.lower())["key"] for _ in range(2)]
    desk.post(f"/workspaces/{keys[0]}/fork", {"key": f"{keys[0]}-fork"})
    keys.append(desk.settled(f"{keys[0]}-fork")["key"])
    tell = f'tool; cat /opt/once by; stat -c %U by; echo "<${name}>"; cat /etc/machine-id'
    told = [desk.run(key, f"{tell}; od -An -N16 -tx1 /dev/urandom").splitlines() for key in keys]
    # Installed once, by root, through the proxy; in the next one it runs for /workspace alone. Nobody shares what makes
    # a machine its own.
    assert told[0][:5] == told[1][:5] == told[2][:5]
    assert (told[0][0], told[0][2:5]) == (b"0 HTTP/1.1 403", [b"0", b"agent", b"<>"])
    assert [len(set(lines)) for lines in list(zip(*told, strict=True))[5:]] == [3, 3]
    for key in keys:
        body = desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
        body = body.get("body", body)
        assert body["machine_image"].endswith(f"@{body['image_digest']} with layer {body['setup_layer']}")
    # Somebody cleans up: the layer is made again, and the files and what is the workspace's own stay as they are.
    desk.run(keys[1], "echo changed > note")
    move(desk, keys[1], "stop")
    [layer] = (product.home / "images" / "layers").iterdir()
    shutil.rmtree(layer)
    assert move(desk, keys[1], "resume")["state"] == "ready"
    again = desk.run(keys[1], f"{tell}; cat note").splitlines()
    assert (again[0], again[2:]) == (told[1][0], [*told[1][2:6], b"changed"])
    for key in keys:
        desk.call("DELETE", f"/workspaces/{key}", expect=202)


FILL = "for n in 1 2 3 4 5 6 7 8 9; do fallocate -l 1G big$n || break; done 2> /dev/null; "
HOLD = "(sleep 9000; : $NAME) > /dev/null 2>&1 & sleep 0.5"  # a program that has it in its environment


def test_secrets_services_a_full_disk_idleness_and_the_end_of_a_guest(desk, microvm, product, lead_token):
    name, value = f"GUEST_{secrets.token_hex(4).upper()}", secrets.token_urlsafe(30)
    person = Person.named(product, "gina-of-guests", "lead")
    person.set_secret(name, "agent", value)
    beat = "beat = echo $$ >> ~/begun; while :; do sleep 0.2; date > ~/beat; done"
    person.environment(name, driver="microvm", services=beat, agent_secrets=name)
    key = desk.create(environment=name)["key"]
    told = desk.run(key, f'printf %s "${name}" | sha256sum; {HOLD.replace("NAME", name)}')
    assert told.split()[0].decode() == hashlib.sha256(value.encode()).hexdigest()
    until(lambda: desk.run(key, "cat ~/beat 2> /dev/null || true"))

    # A full disk is said in words, and nothing that is there is lost.
    desk.run(key, "echo kept > note")
    said = desk.run(key, f"{FILL} (yes | head -c 200M > more) 2>&1 || true")
    assert b"No space left on device" in said
    refused = desk.call("PUT", f"/workspaces/{key}/files/large", os.urandom(3 << 20), expect=507)
    assert refused.json["detail"] == "The disk is full; nothing was changed."
    assert desk.run(key, "rm big* more; cat note") == b"kept\n"

    folder = Path(owner_of(product, key).tree).parent

    # With nothing to do it sleeps; neither its disks nor its memory show what a program of it still has.
    rows = f"from workspaces.models import Environment; Environment.objects.filter(name={name!r})"
    assert product.manage("shell", "-c", f"{rows}.update(idle_seconds=5)").returncode == 0
    until(lambda: desk.get(f"/workspaces/{key}").json["state"] == "paused", 180)
    assert product.manage("shell", "-c", f"{rows}.update(idle_seconds=3000)").returncode == 0
    files = [path for path in folder.glob("*/.handrail-microvm/*") if path.is_file()]
    assert sorted(path.name for path in files) == ["disk", "disk", "disk.json", "disk.json", "memory"]
    assert [path for path in files if value.encode() in b"".join(data_of(path))] == []

    # Use wakes it. What ran goes on, and the service begins anew, once.
    assert desk.run(key, "rm ~/beat; ps -eo args | grep -cx 'sleep [9]000'").strip() == b"1"
    until(lambda: desk.run(key, "cat ~/beat 2> /dev/null || true"))
    alive = "set -- $(cat ~/begun); echo $#; ! kill -0 $1 && kill -0 $2"
    assert desk.run(key, f"({alive}) 2> /dev/null") == b"2\n"

    Desk(product, lead_token).call("DELETE", f"/workspaces/{key}", expect=202)
    until(lambda: not is_up(product, folder))


def is_up(product, folder) -> bool:
    """Has a driver a record of a Run of the workspace in this folder?"""
    for path in product.home.glob("runs/*/record.json"):
        with contextlib.suppress(FileNotFoundError):
            if str(folder) in path.read_text():
                return True
    return False


def data_of(path):
    """The bytes that take room in a sparse file."""
    with open(path, "rb") as file:
        size, at = os.fstat(file.fileno()).st_size, 0
        while at < size:
            try:
                at = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError:
                return  # nothing but a hole follows
            end = os.lseek(file.fileno(), at, os.SEEK_HOLE)
            yield os.pread(file.fileno(), end - at, at)
            at = end


def test_an_environment_can_refuse_an_emulated_machine(desk, microvm, lead_token):
    if microvm.isolation == "microvm":
        return  # there is nothing to refuse here
    wish = {"name": "real-machines", "driver": "microvm", "minimum_isolation": "microvm"}
    Desk(desk.product, lead_token).post("/environments", wish)
    refused = desk.create(environment="real-machines")
    assert (refused["state"], "requires at least isolation microvm" in refused["reason"]) == ("failed", True)


def test_an_archived_guest_leaves_no_disk_and_comes_back_as_it_was(desk, microvm, product):
    others = set(product.home.glob("workspaces/*"))
    key = microvm()["key"]
    [folder] = set(product.home.glob("workspaces/*")) - others
    # The manifest in .handrail is another one in each run.
    listing = "find . -name .handrail -prune -o -printf '%p %m %U %G %s %T@ %l\\n' | sort; cat a/numbers | sha256sum"
    before = desk.run(key, f"mkdir a; seq 5000 > a/numbers; ln -s numbers a/link; chmod 640 a/numbers; {listing}")
    move(desk, key, "pause")  # with its memory, which is given up
    put_away = move(desk, key, "archive")
    assert (put_away["state"], put_away["reason"]) == ("archived", "")
    assert [entry.name for entry in folder.iterdir()] == ["programs"]
    assert desk.get(f"/workspaces/{key}/files/a/link", expect=None).status in (200, 409)
    back = move(desk, key, "resume")
    assert (back["state"], back["proof"]["differ"], back["alarm"]) == ("ready", 0, {})
    assert desk.run(key, listing) == before


BEATS = "(while :; do date > /tmp/beat; sleep 0.2; done) > /dev/null 2>&1 & sleep 0.5"


def test_a_checkpoint_is_continued_in_its_workspace_and_in_a_fork(desk, microvm, product, lead_token):
    key = microvm()["key"]
    desk.run(key, f"echo first > note; echo home > ~/mine; date +%s%N > /tmp/begun; {BEATS}")
    tell = "cat note ~/mine /tmp/begun /proc/sys/kernel/random/boot_id"
    then = desk.run(key, tell)
    move(desk, key, "pause")
    kept = desk.post(f"/workspaces/{key}/checkpoints", {"name": "first"}).json
    assert (kept["is_ready"], kept["bytes"] > 0, kept["name"]) == (True, True, "first")
    desk.run(key, "echo second > note; rm ~/mine")

    restored = desk.post(f"/checkpoints/{kept['id']}/restore", expect=202).json
    here = desk.settled(key)
    assert (here["state"], here["reason"], here["proof"]["differ"], here["alarm"]) == ("ready", "", 0, {})
    outcome = desk.get(f"/workspaces/{key}/operations/{restored['id']}").json["outcome"]
    assert outcome["memory"] == "its programs went on"
    saved = outcome["safety_snapshot"]
    changes = desk.get(f"/workspaces/{key}/diff?from={saved}&to=live").json["changes"]
    assert [(change["path"], change["kind"]) for change in changes] == [("note", "modified")]
    assert desk.run(key, tell) == then

    fork = desk.post(f"/checkpoints/{kept['id']}/fork", {"key": f"{key}-on"}).json["key"]
    made = desk.settled(fork)
    assert (made["state"], made["reason"]) == ("ready", "")
    assert desk.run(fork, tell) == then
    beat = desk.run(fork, "cat /tmp/beat")
    until(lambda: desk.run(fork, "cat /tmp/beat") != beat)  # what ran goes on
    desk.run(fork, "echo third > note")
    assert desk.run(key, "cat note") == b"first\n"

    Desk(product, lead_token).call("DELETE", f"/checkpoints/{kept['id']}", expect=204)
    until(lambda: list(product.home.glob("checkpoints/*/*")) == [])
    for name in (key, fork):
        desk.call("DELETE", f"/workspaces/{name}", expect=202)


def test_no_git_of_the_workspace_makes_its_bundle(desk, microvm, repository, tmp_path):
    path, first, _ = repository
    key = microvm(source={"git": str(path), "ref": "main"})["key"]
    evil = "mkdir -p ~/.local/bin; printf '#!/bin/sh\nexit 9\n' > ~/.local/bin/git; chmod +x ~/.local/bin/git"
    desk.run(key, evil + "; cp ~/.local/bin/git ~/.local/bin/dirname; printf '[alias]\nbundle=!false\n' > ~/.gitconfig")
    (tmp_path / "bundle").write_bytes(desk.get(f"/workspaces/{key}/bundle").body)
    told = subprocess.run(["git", "bundle", "list-heads", "bundle"], cwd=tmp_path, capture_output=True, text=True)
    assert f"{first} HEAD" in told.stdout


def test_git_merges_a_revision_into_a_guest(desk, microvm, repository):
    """It works in a copy on this host, from where the outcome, a conflict or a merge, is put into the guest."""
    path, _, second = repository
    key = microvm(source={"git": str(path), "ref": "main"})["key"]
    desk.run(key, "echo mine > mine; chmod 755 mine; echo 'mine = 1' > calc.py; git commit -qam agent")
    wish = {"git": str(path), "ref": "feature"}
    before = desk.run(key, "git rev-parse HEAD; git status --porcelain")
    refused = desk.post(f"/workspaces/{key}/revisions", wish, 409).json
    assert [row["path"] for row in refused.get("conflicts", ())] == ["calc.py"], refused
    assert desk.run(key, "git rev-parse HEAD; git status --porcelain") == before
    desk.post(f"/workspaces/{key}/revisions", wish | {"how": "merge"}, None)
    desk.settled(key)
    told = desk.run(key, "git rev-parse MERGE_HEAD; git status --porcelain; stat -c %U . calc.py .git/index; cat mine")
    assert told.decode().split("\n") == [second, "UU calc.py", "?? mine", *["agent"] * 3, "mine", ""]
    assert desk.run(key, "head -c 8 calc.py; git merge --abort; git rev-parse HEAD") == b"<<<<<<< " + before[:41]
    desk.call("DELETE", f"/workspaces/{key}", expect=202)
