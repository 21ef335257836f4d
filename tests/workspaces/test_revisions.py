"""The next revision of a workspace's source: merged or in place, never over what the agent changed unseen."""

import io
import os
import subprocess
import sys
import tarfile

import pytest

from tests.support import CHECKOUT
from tests.support.desk import Desk
from tests.support.waiting import until
from tests.workspaces.test_upload import tar_of
from workspaces.management.commands.push import pack


def upload(desk, *members) -> str:
    return desk.post("/uploads", tar_of(*members)).json["id"]


def made_of(desk, *members) -> str:
    return desk.create(source={"upload": upload(desk, *members)})["key"]


def read(desk, key, name) -> bytes:
    return desk.get(f"/workspaces/{key}/files/{name}").body


def names(desk, key) -> list[str]:
    return [entry["name"] for entry in desk.get(f"/workspaces/{key}/files/").json["entries"]]


TEXT = b"".join(b"line %d\n" % number for number in range(1, 13))


def settled(desk, key, operation) -> dict:
    """Return the outcome of an operation."""
    return until(lambda: desk.get(f"/workspaces/{key}/operations/{operation}").json["outcome"])


def test_a_revision_is_merged_with_what_the_agent_did(desk):
    first = [("a", b"a1\n"), ("b", b"b1\n"), ("gone", b"gone\n"), ("old", b"old name\n"), ("text", TEXT)]
    key = made_of(desk, *first)
    desk.run(key, "echo mine > mine; echo b2 > b; sed -i 's/line 2$/agent/' text; echo edited >> old")
    text = TEXT.replace(b"line 11\n", b"upstream\n")
    second = [("a", b"a2\n"), ("b", b"b1\n"), ("new", b"new\n"), ("name", b"old name\n"), ("text", text)]
    coming = upload(desk, *second)
    assert desk.post("/workspaces", {"key": key, "source": {"upload": coming}}, 409).json["differs"].keys() == {
        "source"
    }
    taken = desk.post(f"/workspaces/{key}/revisions", {"upload": coming}).json
    assert (taken["revision"], taken["state"]) == (2, "settled")
    assert names(desk, key) == ["a", "b", "mine", "name", "new", "text"]
    assert [read(desk, key, name) for name in ("a", "b", "mine", "new")] == [b"a2\n", b"b2\n", b"mine\n", b"new\n"]
    assert read(desk, key, "name") == b"old name\nedited\n"
    assert read(desk, key, "text") == text.replace(b"line 2\n", b"agent\n")
    assert desk.run(key, "stat -c %u new name text | uniq") == b"1000\n"
    saved = desk.get(f"/workspaces/{key}/files/a?snapshot={taken['safety_snapshot']}").body
    assert saved == b"a1\n"
    assert desk.post("/workspaces", {"key": key, "source": {"upload": coming}}, 200).json["key"] == key
    third = upload(desk, *second[:3], ("text", text))
    desk.post(f"/workspaces/{key}/revisions", {"upload": third, "base": taken["safety_snapshot"]}, 409)
    assert names(desk, key) == ["a", "b", "mine", "name", "new", "text"]
    desk.run(key, "printf 'old name\\n' > name")
    desk.post(f"/workspaces/{key}/revisions", {"upload": third})
    assert names(desk, key) == ["a", "b", "mine", "new", "text"]
    assert (read(desk, key, "b"), read(desk, key, "mine")) == (b"b2\n", b"mine\n")


def test_a_conflict_is_refused_with_its_lines_and_left_in_the_files_if_asked_for(desk):
    key = made_of(desk, ("a", TEXT), ("b", b"b1\n"))
    desk.run(key, "sed -i 's/line 3$/agent/' a")
    coming = upload(desk, ("a", TEXT.replace(b"line 3\n", b"upstream\n")), ("b", b"b2\n"))
    refused = desk.post(f"/workspaces/{key}/revisions", {"upload": coming}, 409).json
    assert refused["detail"] == "1 path was changed here and in the revision; nothing was taken."
    assert [(each["path"], each["lines"]) for each in refused["conflicts"]] == [("a", [[3, 7]])]
    assert read(desk, key, "b") == b"b1\n"
    for how in ("rebase", "beside"):
        desk.post(f"/workspaces/{key}/revisions", {"upload": coming, "how": how}, 422)
    asked = desk.post(f"/workspaces/{key}/revisions", {"upload": coming, "how": "merge"}, 202).json
    outcome = settled(desk, key, asked["operation"])
    assert (outcome["ok"], outcome["merged"], outcome["revision"]) == (True, False, 2)
    assert [(each["path"], each["lines"]) for each in outcome["conflicts"]] == [("a", [[3, 7]])]
    lines = read(desk, key, "a").splitlines()
    assert lines[2:7] == [b"<<<<<<< here", b"agent", b"=======", b"upstream", b">>>>>>> revision 2"]
    assert read(desk, key, "b") == b"b2\n"
    assert b"agent" in desk.get(f"/workspaces/{key}/files/a?snapshot={outcome['safety_snapshot']}").body


def test_a_revision_is_taken_again_after_going_back_to_what_was_there_before_it(desk):
    key = made_of(desk, ("a", b"a1\n"), ("b", b"b1\n"))
    desk.run(key, "echo mine > b")
    coming = upload(desk, ("a", b"a2\n"), ("b", b"b1\n"))
    first = desk.post(f"/workspaces/{key}/revisions", {"upload": coming}).json
    desk.post(f"/workspaces/{key}/snapshots/{first['safety_snapshot']}/restore", expect=None)
    desk.settled(key)
    assert read(desk, key, "a") == b"a1\n"
    again = desk.post(f"/workspaces/{key}/revisions", {"upload": coming}).json
    assert (again["changed"], again["revision"]) == (1, 2)
    assert (read(desk, key, "a"), read(desk, key, "b")) == (b"a2\n", b"mine\n")
    source = desk.get(f"/workspaces/{key}").json["source"]
    assert source == {"upload": coming, "revision": 2, "snapshot": again["snapshot"]}


def test_a_revision_is_stopped_before_a_file_is_changed(desk):
    key = made_of(desk, ("a", b"a1\n"))
    many = upload(desk, ("a", b"a2\n"), *((f"d{number % 20}/f{number}", b"%d\n" % number) for number in range(15_000)))
    asked = desk.post(f"/workspaces/{key}/revisions", {"upload": many, "how": "merge"}, 202).json["operation"]
    stopped = desk.post(f"/workspaces/{key}/operations/{asked}/stop", {}, 202).json
    assert stopped["asked_to_stop"] is True
    outcome = settled(desk, key, asked)
    assert (outcome["reason_code"], outcome["reason"]) == ("cancelled", "Cancelled. Nothing was changed.")
    assert (names(desk, key), read(desk, key, "a")) == (["a"], b"a1\n")
    assert "revision" not in desk.get(f"/workspaces/{key}").json["source"]


def test_what_setup_made_is_no_part_of_the_source(desk, product):
    environment = f"set-up-{os.getpid()}"
    manager = Desk(product, product.person_token("manager-of-revisions", "admin"))
    manager.post("/environments", {"name": environment, "driver": "sandbox", "setup": "echo built > built; rm b"})
    wish = {"environment": environment, "source": {"upload": upload(desk, ("a", b"1\n"), ("b", b"b\n"))}}
    key = desk.create(**wish)["key"]
    assert "tree" not in desk.get(f"/workspaces/{key}").json["source"]
    desk.post(f"/workspaces/{key}/revisions", {"upload": upload(desk, ("a2", b"1\n"), ("b", b"b\n"))})
    assert names(desk, key) == ["a2", "built"]


def test_a_revision_in_place_of_the_files_needs_to_know_them(desk):
    key = made_of(desk, ("a", b"a1\n"))
    desk.run(key, "echo mine > mine")
    wish = {"upload": upload(desk, ("a", b"a2\n")), "mode": "replace"}
    refused = desk.post(f"/workspaces/{key}/revisions", wish, 409).json
    assert [conflict["path"] for conflict in refused["conflicts"]] == ["mine"]
    seen = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    taken = desk.post(f"/workspaces/{key}/revisions", wish | {"base": seen}).json
    assert (names(desk, key), read(desk, key, "a")) == (["a"], b"a2\n")
    assert desk.get(f"/workspaces/{key}").json["baseline_snapshot"] == taken["snapshot"]
    assert desk.get(f"/workspaces/{key}/files/mine?snapshot={seen}").body == b"mine\n"


def test_a_revision_from_git_moves_the_branch_to_its_commit(desk, repository):
    path, _, second = repository
    key = desk.create(source={"git": str(path)})["key"]
    desk.post(f"/workspaces/{key}/revisions", {"git": str(path), "ref": "feature"})
    assert b"return b + a" in read(desk, key, "calc.py")
    assert desk.run(key, "git rev-parse HEAD main origin/feature").decode().split() == [second] * 3
    assert desk.run(key, "git status --porcelain; git config remote.origin.url").decode().split() == [str(path)]
    source = desk.get(f"/workspaces/{key}").json["source"]
    assert (source["ref"], source["sha"], source["revision"]) == ("feature", second, 2)


@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_an_agents_revision_leaves_the_files_of_the_gate(desk, mode):
    gate = ".claude/settings.json"
    key = made_of(desk, (gate, b"{}\n"), ("other", b"1\n"))
    coming = upload(desk, (gate, b'{"hooks": 1}\n'), ("other", b"2\n"))
    desk.post(f"/workspaces/{key}/revisions", {"upload": coming, "mode": mode})
    assert (read(desk, key, gate), read(desk, key, "other")) == (b"{}\n", b"2\n")


def test_an_invalid_revision_is_refused(desk):
    key = made_of(desk, ("a", b"a1\n"))
    for wish, status in (({}, 409), ({"upload": "no"}, 422), ({"git": "ext::sh -c id"}, 422), ({"mode": "x"}, 422)):
        desk.post(f"/workspaces/{key}/revisions", wish, status)
    known = upload(desk, ("a", b""))
    desk.post(f"/workspaces/{key}/revisions", {"upload": known, "base": 99}, 404)
    assert read(desk, key, "a") == b"a1\n"


def push(product, token, *args):
    environment = product.environment | {"HANDRAIL_TOKEN": token}
    command = [sys.executable, "manage.py", "push", *args]
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=120)


def test_a_name_that_is_ignored_takes_no_other_name_of_its_file_with_it(tmp_path):
    (tmp_path / "a.log").write_text("kept\n")
    (tmp_path / "b").hardlink_to(tmp_path / "a.log")
    (tmp_path / "c").hardlink_to(tmp_path / "a.log")
    archive = io.BytesIO()
    pack(tmp_path, archive, ["*.log"])
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        assert [(member.name, member.linkname) for member in tar] == [("b", ""), ("c", "b")]
        assert tar.extractfile("c").read() == b"kept\n"


def test_a_second_push_is_the_next_revision(desk, product, token, tmp_path):
    key = f"pushed-{os.getpid()}"
    (tmp_path / "a").write_text("one\n")
    assert push(product, token, str(tmp_path), key).returncode == 0
    desk.settled(key)
    (tmp_path / "a").write_text("two\n")
    again = push(product, token, str(tmp_path), key)
    assert (again.returncode, again.stderr) == (0, "")
    assert f"{key} is at revision 2" in again.stdout
    assert read(desk, key, "a") == b"two\n"
    desk.run(key, "echo mine > a")
    (tmp_path / "a").write_text("three\n")
    refused = push(product, token, str(tmp_path), key)
    assert refused.returncode == 1
    assert refused.stderr.strip().endswith("nothing was taken.\n  a")
    assert read(desk, key, "a") == b"mine\n"
