"""Snapshots, differences, and the way back and forth."""

import hashlib
import json
import os
import re
import subprocess
import time

import pytest
import zstandard

from handrail_verify.signed import verify
from tests.support.visitor import Visitor
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, why_not
from tests.workspaces.test_stopping import until_shown


@pytest.fixture
def key(desk):
    key = desk.create()["key"]
    desk.run(key, "mkdir d; echo one > a; echo two > d/b; ln -s a link; chmod 600 a")
    return key


@pytest.fixture(scope="module")
def person(product):
    return Visitor.named(product, "sofia", "lead")


def _files(desk, key):
    return desk.run(key, r"find . -printf '%P %y %m %l ' -type f -exec md5sum {} \; -o -printf '\n' | sort")


def _read(path):
    return path.read_bytes() if path.is_file() else None


def test_by_hand_with_a_label(desk, key):
    taken = desk.post(f"/workspaces/{key}/snapshots", {"label": "before lunch"}).json
    assert (taken["number"], taken["kind"], taken["label"], taken["entries"]) == (2, "manual", "before lunch", 4)
    assert len(taken["tree"]) == 64
    listed = desk.get(f"/workspaces/{key}/snapshots").json["snapshots"]
    assert [snapshot["number"] for snapshot in listed] == [2, 1]
    assert desk.get(f"/workspaces/{key}/files/d/b?snapshot=2").body == b"two\n"


def test_the_manifest_names_what_it_was_made_from(desk, repository):
    path, first, _ = repository
    key = desk.create(source={"git": str(path)}, setup="true")["key"]
    manifest = desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    assert manifest["repository"] == str(path)
    assert (manifest["source_sha"], manifest["git"]) == (first, {"branch": "main", "sha": first})
    assert len(manifest["setup_sha256"]) == 64
    assert manifest["tree"] == desk.get(f"/workspaces/{key}/snapshots/1").json["tree"]


def test_the_manifest_names_what_is_not_committed_and_what_caused_it(desk, repository):
    path, *_ = repository
    key = desk.create(source={"git": str(path)})["key"]
    first = desk.get(f"/workspaces/{key}/snapshots/1/manifest").json
    assert (first["dirty"], first["upstream"]["name"]) == ({"count": 0, "files": [], "cut_off": ""}, "origin/main")
    desk.run(key, "echo changed >> calc.py; echo new > new; echo locked > uv.lock")
    number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    told = desk.get(f"/workspaces/{key}/snapshots/{number}/manifest").json
    states = {file["path"]: file["state"] for file in told["dirty"]["files"]}
    assert states == {"calc.py": "modified", "new": "untracked", "uv.lock": "untracked"}
    digest = hashlib.sha256(b"locked\n").hexdigest()
    assert told["lock_files"] == [{"path": "uv.lock", "sha256": digest}]
    assert (told["cause"]["actor"]["type"], told["cause"]["operation"]["kind"]) == ("agent", "snapshot")
    assert (told["parent"], told["parent_tree"]) == (1, first["tree"])
    verify(json.dumps(told).encode(), desk.get("/manifests/key").json["key"])


def test_a_resume_has_a_signed_manifest_of_its_own(desk, repository):
    path, first, _ = repository
    key = desk.create(source={"git": str(path)})["key"]
    for verb in ("pause", "resume"):
        desk.post(f"/workspaces/{key}/{verb}", expect=202)
        head = desk.settled(key)["head_snapshot"]
    run = desk.get(f"/workspaces/{key}/runs").json["runs"][0]["id"]
    told = desk.get(f"/workspaces/{key}/runs/{run}/manifest").json
    assert (told["kind"], told["run"], told["snapshot"]) == ("resume", run, head)
    assert (told["git"]["sha"], told["dirty"]["count"], told["cause"]["operation"]["kind"]) == (first, 0, "resume")
    verify(json.dumps(told).encode(), desk.get("/manifests/key").json["key"])


def test_an_agent_can_commit_at_once_and_under_a_name_that_is_set(desk, repository):
    path, *_ = repository
    key = desk.create(source={"git": str(path)})["key"]
    show = "git log -1 --format='%an <%ae>|%cn'"
    said = desk.run(key, f"git commit -q --allow-empty -m work && {show}")
    name = b"workspace-tests (Handrail)"
    assert said == name + b" <workspace-tests@handrail.invalid>|" + name + b"\n"
    desk.run(key, "git config user.name Ours && git config user.email ours@example.org")
    said = desk.run(key, f"git commit -q --allow-empty -m more && {show}")
    assert said == b"Ours <ours@example.org>|Ours\n"


def test_nothing_changed_stores_nothing(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    again = desk.post(f"/workspaces/{key}/snapshots").json
    assert again["added_bytes"] == 0


def test_the_difference_of_two_points(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    desk.run(key, "echo more >> a; rm d/b; echo new > c; chmod 755 a; mv link renamed")
    changes = {c["path"]: c for c in desk.get(f"/workspaces/{key}/diff?from=2&to=live").json["changes"]}
    assert changes["a"]["kind"] == "modified"
    assert (changes["a"]["additions"], changes["a"]["deletions"], changes["a"]["new_mode"]) == (1, 0, "100755")
    assert changes["d/b"]["kind"] == "removed"
    assert (changes["c"]["kind"], changes["c"]["additions"], changes["c"]["old_mode"]) == ("added", 1, None)
    assert desk.get(f"/workspaces/{key}/diff?from=2&to=2").json == {"changes": []}


def test_the_patch_applies(desk, repository, tmp_path):
    path, *_ = repository
    key = desk.create(source={"git": str(path)})["key"]
    desk.run(
        key,
        "printf 'def sub(a, b):\\n    return a - b\\n' >> calc.py; mkdir new; echo n > new/file; printf '\\0\\1' > bin",
    )
    patch = desk.get(f"/workspaces/{key}/patch?from=1&to=live").body
    as_diff = desk.get(f"/workspaces/{key}/diff?from=1&to=live", headers={"Accept": "text/x-diff"}).body
    assert patch == as_diff
    subprocess.run(["git", "clone", "-q", str(path), str(tmp_path / "c")], check=True)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path / "c", check=True)
    assert (tmp_path / "c/new/file").read_text() == "n\n"
    assert (tmp_path / "c/bin").read_bytes() == b"\0\1"
    assert "def sub" in (tmp_path / "c/calc.py").read_text()


def test_restore_brings_everything_back_and_can_be_undone(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    before = _files(desk, key)
    desk.run(key, "rm -rf d a; echo other > a; mkdir x; echo y > x/y; chmod 777 a")
    changed = _files(desk, key)
    told = desk.post(f"/workspaces/{key}/snapshots/2/restore", expect=202).json
    assert told["safety_snapshot"] == 3
    assert desk.settled(key)["proof"]["differ"] == 0
    assert _files(desk, key) == before
    desk.post(f"/workspaces/{key}/snapshots/3/restore", expect=202)
    desk.settled(key)
    assert _files(desk, key) == changed


def test_restore_of_one_path_leaves_the_rest(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    desk.run(key, "echo 1 > a; echo 2 > d/b")
    desk.post(f"/workspaces/{key}/snapshots/2/restore", {"paths": ["d/b"]}, expect=202)
    desk.settled(key)
    assert desk.get(f"/workspaces/{key}/files/a").body == b"1\n"
    assert desk.get(f"/workspaces/{key}/files/d/b").body == b"two\n"


def test_small_restores_one_after_another_add_one_snapshot_each(desk, key):
    desk.run(key, "for n in 1 2 3 4 5; do echo $n > f$n; done")
    point = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    desk.run(key, "for n in 1 2 3 4 5; do echo other > f$n; done")
    safe = []
    for number in range(1, 6):
        if number == 5:
            desk.run(key, "echo between > late")
        wish = {"paths": [f"f{number}"]}
        safe.append(desk.post(f"/workspaces/{key}/snapshots/{point}/restore", wish, expect=202).json["safety_snapshot"])
        desk.settled(key)
    assert [each - point for each in safe] == [1, 2, 3, 4, 6]  # what came between is in a snapshot of its own
    assert desk.run(key, "cat f1 f2 f3 f4 f5 late") == b"1\n2\n3\n4\n5\nbetween\n"
    desk.post(f"/workspaces/{key}/snapshots/{safe[2]}/restore", expect=202)
    desk.settled(key)
    assert desk.run(key, "cat f1 f2 f3 f4 f5") == b"1\n2\nother\nother\nother\n"


def test_a_path_that_is_not_utf8_is_restored_by_the_name_that_diffs_give(desk, key):
    desk.run(key, "echo one > $'caf\\xe9'; echo one > tea; echo one > rest")
    point = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    desk.run(key, "for name in $'caf\\xe9' tea rest; do echo two > $name; done")
    changes = desk.get(f"/workspaces/{key}/diff?from={point}&to=live").json["changes"]
    [named] = [change["path_b64"] for change in changes if "path_b64" in change]
    body = {"paths": ["tea"], "paths_b64": [named]}
    desk.post(f"/workspaces/{key}/snapshots/{point}/restore", body, expect=202)
    desk.settled(key)
    assert desk.run(key, "cat $'caf\\xe9' tea rest") == b"one\none\ntwo\n"


@pytest.mark.parametrize("named", [[], [""], ["!!!!"], ["YQ"], [7]])
def test_invalid_base64_is_refused_and_nothing_restored(desk, key, named):
    desk.run(key, "echo other > a")
    desk.post(f"/workspaces/{key}/snapshots/1/restore", {"paths_b64": named}, expect=422)
    assert desk.get(f"/workspaces/{key}").json["busy"] is None
    assert desk.run(key, "cat a") == b"other\n"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("../x", 422),
        ("a/../../x", 422),
        ("/etc/passwd", 422),
        ("", 422),
        ("/workspace", 422),
        ("nonexistent-x", 404),
        ("a/below-a-file", 404),
        ("none/at/all", 404),
    ],
)
def test_a_path_that_cannot_be_restored_is_refused_before_anything_is_written(desk, key, path, status):
    before = desk.get(f"/workspaces/{key}/snapshots").json
    desk.call("POST", f"/workspaces/{key}/snapshots/1/restore", {"paths": ["a", path]}, status)
    assert desk.get(f"/workspaces/{key}/snapshots").json == before
    assert desk.get(f"/workspaces/{key}").json["busy"] is None


def test_a_path_that_is_new_since_the_snapshot_is_deleted_by_its_restore(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    desk.run(key, "mkdir made; echo > made/late")
    desk.post(f"/workspaces/{key}/snapshots/2/restore", {"paths": ["made/late", "./made/"]}, expect=202)
    desk.settled(key)
    assert b"made" not in _files(desk, key)


def test_a_program_that_writes_meanwhile_is_frozen(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    wish = {"command": "while true; do date +%N > ticking; done"}
    writer = desk.post(f"/workspaces/{key}/commands", wish).json["id"]
    while desk.call("GET", f"/workspaces/{key}/files/ticking", expect=None).status != 200:
        time.sleep(0.1)
    told = desk.post(f"/workspaces/{key}/snapshots/2/restore", expect=202).json
    workspace = desk.settled(key)
    assert workspace["proof"]["differ"] == 0
    desk.get(f"/workspaces/{key}/files/ticking?snapshot={told['safety_snapshot']}", expect=200)
    desk.post(f"/commands/{writer}/cancel", expect=202)
    desk.finished(writer)


@pytest.mark.parametrize("driver", ["sandbox", "docker"])
def test_an_open_file_stays_the_old_one_and_who_holds_it_is_named(desk, person, require, driver):
    if driver == "docker" and (why := why_not("docker", with_image=True)):
        require("docker", why)
    key = desk.create(driver=driver, **({"image": IMAGES["docker"]} if driver == "docker" else {}))["key"]
    desk.run(key, "echo one > note; echo same > same")
    number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    script = "echo two > note; exec 3<note 4<same; echo open; while [ ! -e go ]; do sleep 0.1; done; cat <&3; cat note"
    holder = desk.post(f"/workspaces/{key}/commands", {"command": script}).json["id"]
    until_shown(lambda: desk.get(f"/commands/{holder}/output").text, "open\n")
    person.get(f"/w/main/{key}/snapshots/{number}/restore/")
    person.post(f"/w/main/{key}/snapshots/{number}/restore/", {"confirmed": "yes"})
    page = person.path
    until_shown(lambda: person.get(page), "Programs with old files open")
    assert re.search(r"process \d+: /workspace/note\s*<", person.text)
    desk.call("PUT", f"/workspaces/{key}/files/go", b"", 201)
    desk.finished(holder)
    assert desk.get(f"/commands/{holder}/output").body == b"open\ntwo\none\n"


def test_reset_returns_to_the_snapshot_after_setup(desk):
    key = desk.create(setup="echo fresh > file")["key"]
    desk.run(key, "echo stale > file; touch extra")
    told = desk.post(f"/workspaces/{key}/reset", expect=202).json
    assert told["snapshot"] == 1
    desk.settled(key)
    assert desk.get(f"/workspaces/{key}/files/file").body == b"fresh\n"
    desk.get(f"/workspaces/{key}/files/extra", expect=404)


def test_a_fork_has_the_files_and_a_life_of_its_own(desk, key):
    desk.post(f"/workspaces/{key}/snapshots")
    fork = f"{key}-fork"
    desk.post(f"/workspaces/{key}/fork", {"key": fork}, expect=201)
    assert desk.settled(fork)["state"] == "ready"
    assert desk.get(f"/workspaces/{fork}/files/d/b").body == b"two\n"
    desk.run(fork, "rm a; ls -ln d/b | cut -d' ' -f3")
    assert desk.get(f"/workspaces/{key}/files/a").body == b"one\n"
    desk.post(f"/workspaces/{key}/fork", {"key": fork}, expect=409)


def test_a_forks_files_belong_to_it_and_its_proof_holds(desk, key, product):
    desk.run(key, "chmod 640 a; ln a hard; ln -s nowhere dangling")
    desk.post(f"/workspaces/{key}/snapshots")
    fork = f"{key}-owned"
    desk.post(f"/workspaces/{key}/fork", {"key": fork}, expect=201)
    assert desk.settled(fork)["state"] == "ready"
    said = desk.run(fork, f"find . ! -uid $(id -u); stat -c '%a %h' a; echo {fork} >> hard; cat a").decode()
    assert said == f"640 2\none\n{fork}\n"
    if os.geteuid() == 0:  # else all of them are the user's who runs Handrail
        source, copy = (
            next(tree for tree in (product.home / "workspaces").glob("*/tree") if _read(tree / "a") == text)
            for text in (b"one\n", f"one\n{fork}\n".encode())
        )
        assert source.stat().st_uid != copy.stat().st_uid
        assert {path.lstat().st_uid for path in copy.rglob("*")} == {copy.stat().st_uid}
    desk.post(f"/workspaces/{fork}/stop", expect=202)
    desk.settled(fork)
    desk.post(f"/workspaces/{fork}/prove", expect=202)
    proof = desk.settled(fork)["proof"]
    assert (proof["differ"], proof["how"]) == (0, "every byte"), proof


def test_an_archive_holds_the_files(desk, key, tmp_path):
    desk.post(f"/workspaces/{key}/snapshots")
    archive = tmp_path / "a.tar.zst"
    archive.write_bytes(desk.get(f"/workspaces/{key}/snapshots/2/archive").body)
    with archive.open("rb") as packed:
        tar = zstandard.ZstdDecompressor().stream_reader(packed).read()
    listed = subprocess.run(["tar", "-t"], input=tar, capture_output=True, check=True).stdout.decode().split()
    assert {name.removeprefix("./").rstrip("/") for name in listed} >= {"a", "d", "d/b", "link"}


def test_an_archive_is_made_ready_with_progress_and_then_sent_as_it_is_until_retention_deletes_it(desk, key, product):
    at = f"/workspaces/{key}/snapshots/1/archive"
    asked = desk.post(at, expect=202).json
    assert (asked["kind"], asked["asked_to_stop"]) == ("archive", False)
    made = desk.operation(key, asked["id"])
    assert made["outcome"]["ok"], made
    whole = desk.get(at).body
    assert len(whole) == made["outcome"]["bytes"]
    pk = product.shell(f"from workspaces.models import Workspace; print(Workspace.objects.get(key={key!r}).pk)")
    [ready] = product.home.glob(f"archives/{pk}/*.tar.zst")
    ready.write_bytes(b"what is ready")
    assert desk.get(at).body == b"what is ready"
    os.utime(ready, (time.time() - 3700,) * 2)
    until(lambda: not ready.exists())
    assert desk.get(at).body == whole
    assert made["id"] in [one["id"] for one in desk.get(f"/workspaces/{key}/operations").json["operations"]]
    desk.post(f"/workspaces/{key}/operations/{made['id']}/stop", expect=409)  # it is over
    desk.post(f"/workspaces/{key}/snapshots/99/archive", expect=404)
    desk.get(f"/workspaces/{key}/operations/none", expect=404)


def test_a_stopped_one_is_browsed_and_compared_all_the_same(desk, key):
    desk.post(f"/workspaces/{key}/stop", expect=202)
    assert desk.settled(key)["state"] == "stopped"
    assert desk.get(f"/workspaces/{key}/files/d/b?snapshot=2").body == b"two\n"
    assert desk.get(f"/workspaces/{key}/files/d/b").body == b"two\n"
    assert desk.get(f"/workspaces/{key}/diff?from=2&to=live").json == {"changes": []}


def test_numbers_that_are_none(desk, key):
    for number in ("99", "0", "x", "-1", "1e3", "99999999999999999999"):
        desk.get(f"/workspaces/{key}/snapshots/{number}", expect=404)
        desk.post(f"/workspaces/{key}/snapshots/{number}/restore", expect=404)
    desk.get(f"/workspaces/{key}/diff?from=99&to=live", expect=404)
    desk.get(f"/workspaces/{key}/diff?from=abc&to=live", expect=422)


def test_a_pin_is_kept_and_taken_off(desk, key):
    assert desk.post(f"/workspaces/{key}/snapshots/1/pin", expect=202).json["pinned"] is True
    assert desk.call("DELETE", f"/workspaces/{key}/snapshots/1/pin", expect=202).json["pinned"] is False
