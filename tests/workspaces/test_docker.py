"""Workspaces in containers, through the whole product on a real engine."""

import hashlib
import json
import subprocess
import uuid

import pytest

from tests.support.desk import Desk
from tests.support.engine import Client, make_busybox
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, Blocking
from workspaces.drivers.base import DriverError, get_driver

IMAGE = IMAGES["docker"]


@pytest.fixture(scope="module")
def docker(desk, require, tmp_path_factory):
    """`docker(**wish)`: make a workspace in a container."""
    folder = tmp_path_factory.mktemp("probe")
    driver = Blocking(get_driver("docker", folder, folder, OPTIONS["docker"]))
    try:
        driver.find_image(IMAGE)
    except DriverError as error:
        require("docker", str(error))
    return lambda **wish: desk.create(driver="docker", **({"image": IMAGE} | wish))


@pytest.fixture
def engine():
    with Client(OPTIONS["docker"]["address"]) as client:
        yield client


def test_the_capabilities_of_this_host_are_reported(desk, docker):
    [docker] = [driver for driver in desk.get("/drivers").json["drivers"] if driver["name"] == "docker"]
    assert (docker["available"], docker["isolation"], docker["limits"]) == (
        True,
        "container",
        ["cpus", "memory", "pids"],
    )


def test_a_container_from_its_making_to_its_fork(desk, docker):
    made = docker()
    key = made["key"]
    assert (made["state"], made["isolation"], made["driver"]) == ("ready", "container", "docker"), made
    manifest = desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    body = manifest.get("body", manifest)
    assert (body["image"], body["image_digest"][:7]) == (IMAGE, "sha256:")
    # One path for all: command, terminal, file browser and snapshot.
    assert desk.run(key, "pwd; echo one > note; cat /workspace/note") == b"/workspace\none\n"
    argv = ["bash", "-c", "pwd > from-terminal; tty >> from-terminal"]
    desk.post(f"/workspaces/{key}/terminals", {"argv": argv})
    wanted = b"/workspace\n/dev/pts/0\n"
    path = f"/workspaces/{key}/files/from-terminal"
    until(lambda: (a := desk.product.get(f"/api/v1{path}", desk.token)).status == 200 and a.body == wanted)
    point = desk.post(f"/workspaces/{key}/snapshots", {"label": "one"}).json["number"]
    desk.call("PUT", f"/workspaces/{key}/files/note", b"two\n", expect=200)
    assert desk.run(key, "cat note") == b"two\n"
    desk.post(f"/workspaces/{key}/snapshots/{point}/restore", expect=202)
    desk.settled(key)
    assert desk.run(key, "cat /workspace/note") == b"one\n"
    # Asleep nothing runs; use wakes it, and its home is still there.
    desk.run(key, "echo kept > ~/kept; echo gone > /tmp/gone")
    desk.post(f"/workspaces/{key}/pause", expect=202)
    assert desk.settled(key)["state"] == "paused"
    assert desk.run(key, "cat ~/kept; ls /tmp; id -un") == b"kept\nagent\n"
    desk.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork"})
    assert desk.settled(f"{key}-fork")["state"] == "ready"
    assert desk.run(f"{key}-fork", "cat /workspace/note; ls ~") == b"one\n"


def test_what_a_set_up_installs_is_there_in_the_next_one_without_running_again(desk, docker, engine):
    setup = f"id -u > by\ndate +%s%N > /opt/once-{uuid.uuid4().hex[:8]}\necho made > /usr/local/bin/tool\n"
    first, second = docker(setup=setup), docker(setup=setup)
    assert (first["state"], second["state"]) == ("ready", "ready"), (first, second)
    once = [desk.run(made["key"], "cat /opt/once-* /usr/local/bin/tool") for made in (first, second)]
    assert once[0] == once[1] != b""
    for made in (first, second):
        assert desk.run(made["key"], "cat by; stat -c %U by; id -u") == desk.run(made["key"], "echo 0; id -un; id -u")
    # Somebody cleans up the engine: the layer is made again, and the files stay as they are.
    desk.run(first["key"], "echo changed > by")
    for made in (first, second):
        desk.post(f"/workspaces/{made['key']}/stop", expect=202)
        desk.settled(made["key"])
    body = desk.get(f"/workspaces/{first['key']}/snapshots/1/manifest").json
    engine.remove_image(body.get("body", body)["setup_layer"], force=True)
    desk.post(f"/workspaces/{first['key']}/resume", expect=202)
    again = desk.settled(first["key"])
    assert again["state"] == "ready", again
    assert desk.run(first["key"], "cat by /usr/local/bin/tool") == b"changed\nmade\n"


def layer_of(desk, key):
    body = desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    return body.get("body", body)["setup_layer"]


def test_a_layer_that_was_removed_is_made_again_on_the_files_that_setup_first_had(desk, docker, engine):
    """A setup that succeeds only once on the same files, as one with `git commit` does."""
    setup = f'mkdir made\ntouch of-setup\nyes | head -1\ntest -z "$UNSET"\necho {uuid.uuid4().hex} > /opt/tool\n'
    made = docker(setup=setup)
    assert made["state"] == "ready", made
    key = made["key"]
    desk.run(key, "echo mine > of-setup")
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    engine.remove_image(layer_of(desk, key), force=True)
    desk.post(f"/workspaces/{key}/resume", expect=202)
    again = desk.settled(key)
    assert again["state"] == "ready", again
    find = (
        "from dashboard.models import Event; rows = Event.objects.filter(verb='workspace.root_changed').order_by('seq')"
    )
    told = desk.product.shell(f"{find}; print(rows.last().data['words'])")
    assert "setup ran again on an empty folder, as at first" in told
    assert desk.run(key, "cat of-setup; test -s /opt/tool && echo tool") == b"mine\ntool\n"


def test_a_set_up_that_fails_when_it_is_made_again_says_what_happened_and_the_ways_out(desk, docker, engine):
    """It fails the second time, as if a package had left its registry."""
    key = docker(setup=f"echo {uuid.uuid4().hex} > /opt/tool")["key"]
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    engine.remove_image(layer_of(desk, key), force=True)
    change = "from workspaces.models import *; Environment.objects.filter(workspaces__key='%s').update(setup='%s')"
    desk.product.shell(change % (key, "echo no; exit 141"))
    desk.post(f"/workspaces/{key}/resume", expect=202)
    failed = desk.settled(key)
    assert failed["state"] == "stopped", failed
    for words in (
        "were missing, so setup ran again on an empty folder",
        "No file of the workspace was changed.",
        "a program in it was ended by SIGPIPE",
        "no",
    ):
        assert words in failed["reason"], failed["reason"]


def test_a_set_up_that_leaves_the_workspace_alone_runs_once(desk, docker):
    setup = f"echo {uuid.uuid4().hex} > /opt/tool"
    docker(setup=setup)
    made = docker(setup=setup)
    assert desk.run(made["key"], "test -s /opt/tool; echo $?") == b"0\n"
    # No program of a set-up ran in the second one.
    found = list((desk.product.home / "workspaces").glob("*/programs/*/spec.json"))
    assert sum(setup in json.loads(path.read_text())["argv"] for path in found) == 1


def test_an_image_that_is_not_there_is_the_reason(desk, docker):
    made = docker(image="handrail/nowhere:1")
    assert made["state"] == "failed"
    assert "There is no image 'handrail/nowhere:1' on this Docker engine" in made["reason"]


def test_an_image_whose_name_stands_for_another_one_now_is_reported_at_the_next_start(desk, docker, engine):
    name = f"drift-{uuid.uuid4().hex[:8]}"
    engine.tag(IMAGE, "handrail/test", name)
    key = docker(image=f"handrail/test:{name}")["key"]
    was = desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    engine.tag(make_busybox(OPTIONS["docker"]["address"]), "handrail/test", name)
    try:
        for move in ("pause", "resume"):
            desk.post(f"/workspaces/{key}/{move}", expect=202)
            desk.settled(key)
        manifest = desk.get(f"/workspaces/{key}/runs").json["runs"][0]["manifest"]
    finally:
        engine.remove_image(f"handrail/test:{name}", force=True)
    assert manifest["drift"]["words"] == [f"The image handrail/test:{name} is not the one it was created with."]
    assert manifest["image_digest"] == was.get("body", was)["image_digest"]  # it keeps its own


def test_an_image_from_a_folder(desk, docker, product):
    folder = product.sources / "context"
    folder.mkdir()
    (folder / "Dockerfile").write_text(f"FROM {IMAGE}\nCOPY tool /opt/tool\n")
    (folder / "tool").write_text("built\n")
    made = docker(image=str(folder))
    assert desk.run(made["key"], "cat /opt/tool") == b"built\n"
    refused = desk.post("/workspaces", {"key": "elsewhere", "driver": "docker", "image": "/etc"}, expect=422).json
    assert "HANDRAIL_LOCAL_SOURCES" in refused["detail"]


def test_a_container_removed_behind_our_back_ends_with_a_reason_and_comes_back(desk, docker, engine):
    key = docker()["key"]
    desk.run(key, "echo kept > note")
    [container] = engine.containers(filters={"label": "handrail.run"}, limit=1)
    engine.remove_container(container["Id"], force=True)
    ended = until(lambda: (w := desk.get(f"/workspaces/{key}").json)["state"] == "stopped" and w)
    assert "its container was removed by somebody else" in ended["reason"]
    desk.post(f"/workspaces/{key}/resume", expect=202)
    desk.settled(key)
    assert desk.run(key, "cat note") == b"kept\n"


def test_no_git_of_the_workspace_makes_its_bundle(desk, docker, repository, tmp_path):
    path, first, _ = repository
    key = docker(source={"git": str(path), "ref": "main"})["key"]
    evil = "mkdir -p ~/.local/bin; printf '#!/bin/sh\nexit 9\n' > ~/.local/bin/git; chmod +x ~/.local/bin/git"
    desk.run(key, evil + "; cp ~/.local/bin/git ~/.local/bin/dirname; printf '[alias]\nbundle=!false\n' > ~/.gitconfig")
    (tmp_path / "bundle").write_bytes(desk.get(f"/workspaces/{key}/bundle").body)
    told = subprocess.run(["git", "bundle", "list-heads", "bundle"], cwd=tmp_path, capture_output=True, text=True)
    assert f"{first} HEAD" in told.stdout


def test_the_image_of_a_private_registry_is_refused(desk, docker, product, lead_token):
    lead, name = type(desk)(product, lead_token), f"tagged-{uuid.uuid4().hex[:8]}"
    lead.post("/environments", {"name": name, "driver": "docker", "image": "127.0.0.1:1/team/app:3.12"})
    told = lead.post(f"/environments/{name}/image/pull", expect=409).json
    assert told["detail"].startswith("127.0.0.1 is at a private address")
    listed = {each["name"]: each for each in lead.get("/environments").json["environments"]}
    assert (listed[name]["version"], listed[name]["image"]) == (1, "127.0.0.1:1/team/app:3.12")


def test_git_merges_a_revision_into_a_container(desk, docker, repository):
    """Whether or not the image has a git: it is this host's that merges, as the user of the container."""
    path, first, second = repository
    key = docker(source={"git": str(path), "ref": "main"})["key"]
    desk.run(key, "echo mine > mine")
    desk.post(f"/workspaces/{key}/revisions", {"git": str(path), "ref": "feature"})
    assert desk.get(f"/workspaces/{key}/files/.git/refs/heads/main").body.decode() == f"{second}\n"
    assert b"return b + a" in desk.get(f"/workspaces/{key}/files/calc.py").body
    assert desk.get(f"/workspaces/{key}/files/mine").body == b"mine\n"
    owners = desk.run(key, "stat -c %u . calc.py .git/index .git/refs/heads/main mine").split()
    assert owners == owners[:1] * 5
    assert desk.get(f"/workspaces/{key}").json["source"]["sha"] == second != first


AS_GIT_DOES = r"""
setting() { sed -n "s/.*$1 = \"\(.*\)\"/\1/p" /etc/handrail/gitconfig; }
by="$(setting name) <$(setting email)> 2 +0000"
printf 'tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor %s\ncommitter %s\n\nhello\n' "$by" "$by" > /tmp/commit
/etc/handrail/sign -Y sign -n git -f key /tmp/commit
head -1 /tmp/commit.sig
head -c 3000 /dev/zero | $(setting clean) --only-look
"""


def test_a_commit_is_signed_and_a_file_of_git_lfs_becomes_a_pointer(desk, docker, product, tmp_path):
    """The image has no git: our programs are started as git would start them, by the bundled Python."""
    lead = Desk(product, product.person_token("lead-of-docker", "admin"))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    lead.call("PUT", "/secrets/SIGNING_KEY", {"scope": "signing", "value": (tmp_path / "key").read_text()})
    lead.post("/environments", {"name": "docker-lfs", "driver": "docker", "image": IMAGE, "lfs": "pulled"})
    key = desk.create(environment="docker-lfs")["key"]
    said = desk.run(key, AS_GIT_DOES).decode().splitlines()
    lead.call("DELETE", "/secrets/SIGNING_KEY", expect=204)
    assert said == [
        "-----BEGIN SSH SIGNATURE-----",
        "version https://git-lfs.github.com/spec/v1",
        f"oid sha256:{hashlib.sha256(bytes(3000)).hexdigest()}",
        "size 3000",
    ]
