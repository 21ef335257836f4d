"""Making a workspace: from nothing, from git, under a key that somebody uses already."""

import io
import os
import subprocess
import tarfile
import tempfile
import uuid
import zipfile
from pathlib import Path

import pytest

from tests.support.waiting import until
from workspaces.provisioning import devcontainer


def test_an_empty_one_is_ready_with_a_first_snapshot(desk):
    made = desk.create()
    assert (made["state"], made["isolation"], made["head_snapshot"], made["reason"]) == ("ready", "namespace", 1, "")
    listed = desk.get(f"/workspaces/{made['key']}/files/").json
    assert listed["entries"] == []


def test_a_local_repository_at_a_branch(desk, repository):
    path, _, second = repository
    made = desk.create(source={"git": str(path), "ref": "feature"})
    assert made["source"] == {"git": str(path), "ref": "feature", "sha": second, "default_branch": "main"}
    assert desk.run(made["key"], "git rev-parse HEAD; git branch --show-current").split() == [
        second.encode(),
        b"feature",
    ]
    assert desk.get(f"/workspaces/{made['key']}/files/calc.py").body == b"def add(a, b):\n    return b + a\n"


def test_a_local_repository_at_a_commit(desk, repository):
    path, first, _ = repository
    made = desk.create(source={"git": str(path), "ref": first})
    assert desk.run(made["key"], "git rev-parse HEAD").strip() == first.encode()


def test_submodules_are_there_and_those_that_are_not_are_named(desk, product):
    folder = Path(tempfile.mkdtemp(prefix="super-", dir=product.sources))
    git = "git -c user.name=T -c user.email=t@example.org -c protocol.file.allow=always"
    script = f"""git init -q -b main sub; {git} -C sub commit -q --allow-empty -m sub
        git init -q -b main super; cd super; {git} submodule --quiet add ../sub lib/sub
        {git} submodule --quiet add ../sub lib/other; git config -f .gitmodules submodule.lib/other.url ../none
        {git} commit -qam super"""
    subprocess.run(["bash", "-ec", script], cwd=folder, check=True)
    made = desk.create(source={"git": str(folder / "super")})
    reasons = {row["path"]: row["reason"] for row in made["source"]["submodules"]}
    assert reasons == {"lib/other": f"There is no folder {folder}/none.", "lib/sub": ""}
    manifest = desk.get(f"/workspaces/{made['key']}/snapshots/1/manifest").json
    assert {row["path"]: row["filled"] for row in manifest["submodules"]} == {"lib/other": False, "lib/sub": True}
    assert desk.run(made["key"], "git submodule update --init lib/sub; git -C lib/sub log --format=%s") == b"sub\n"


def test_nothing_differs_from_the_first_snapshot_before_anybody_worked(desk, repository):
    made = desk.create(source={"git": str(repository[0])})
    assert desk.get(f"/workspaces/{made['key']}/diff?from=1&to=live").json == {"changes": []}


def test_the_setup_script_runs_in_the_workspace_before_the_first_snapshot(desk):
    made = desk.create(setup="id -u > who\necho made > by-setup\n")
    assert made["state"] == "ready"
    assert desk.get(f"/workspaces/{made['key']}/files/by-setup?snapshot=1").body == b"made\n"
    assert desk.get(f"/workspaces/{made['key']}/files/who").body == b"1000\n"


def test_a_setup_script_that_fails_is_reported(desk):
    made = desk.create(setup="echo about to fail\nfalse\n")
    assert made["state"] == "failed"
    assert "exit 1" in made["reason"]
    assert "about to fail" in made["reason"]
    assert "the hosts allowed for setup" in made["reason"]


def test_pip_installs_what_a_repository_requires(desk):
    packed, tree = io.BytesIO(), io.BytesIO()
    about, name = "shop_parts-1.0.dist-info", "shop_parts-1.0-py3-none-any.whl"
    with zipfile.ZipFile(packed, "w") as wheel:
        wheel.writestr("shop_parts.py", "print('from the wheel')\n")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: shop-parts\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\nRoot-Is-Purelib: true\n")
        wheel.writestr(f"{about}/RECORD", "")
    files = {name: packed.getvalue(), "requirements.txt": f"./{name}\n".encode()}
    with tarfile.open(fileobj=tree, mode="w") as tar:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    file = '{"postCreateCommand": "pip3 install --user --no-index -r requirements.txt"}'
    setup = devcontainer.read(file).fields["setup"]
    upload = desk.post("/uploads", tree.getvalue()).json["id"]
    made = desk.create(setup=setup + "python3 -m shop_parts > said", source={"upload": upload})
    assert (made["state"], made["reason"]) == ("ready", "")
    assert desk.run(made["key"], "cat said; .venv/bin/python -m shop_parts") == b"from the wheel\n" * 2


def test_a_failed_one_can_be_tried_again(desk):
    made = desk.create(setup="test -e /workspace/never")
    assert made["state"] == "failed"
    desk.post(f"/workspaces/{made['key']}/retry", expect=202)
    assert desk.settled(made["key"])["state"] == "failed"


def test_a_repository_that_does_not_exist(desk, product):
    (product.sources / "no-repository").mkdir(exist_ok=True)
    made = desk.create(source={"git": str(product.sources / "no-repository")})
    assert made["state"] == "failed"
    assert "git said" in made["reason"]


def test_a_ref_that_does_not_exist(desk, repository):
    made = desk.create(source={"git": str(repository[0]), "ref": "nowhere"})
    assert made["state"] == "failed"
    assert "no branch, tag or commit 'nowhere'" in made["reason"]


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c touch% /tmp/pwned",
        "--upload-pack=touch /tmp/pwned",
        "/etc",
        "file:///etc",
        "../..",
        "http://127.0.0.1:1/x.git",
        "http://[::1]/x.git",
        "http://169.254.169.254/x.git",
        "http://[::ffff:127.0.0.1]/x.git",
        "https://user:secret@example.org/x.git",
        "git@localhost:x.git",
        " https://example.org/x.git",
        "fd::17",
        "",
    ],
)
def test_addresses_that_are_refused(desk, address):
    desk.post("/workspaces", {"key": "refused", "source": {"git": address}}, expect=422)
    desk.get("/workspaces/refused", expect=404)


def test_a_ref_that_is_an_option_is_refused(desk, repository):
    desk.post("/workspaces", {"key": "refused-ref", "source": {"git": str(repository[0]), "ref": "-x"}}, expect=422)
    desk.get("/workspaces/refused-ref", expect=404)


def test_the_same_key_again_is_the_same_workspace(desk):
    made = desk.create()
    desk.run(made["key"], "echo kept > file")
    desk.post(f"/workspaces/{made['key']}/pause", expect=202)
    assert desk.settled(made["key"])["state"] == "paused"
    again = desk.create(made["key"], expect=200)
    assert (again["state"], again["created_at"]) == ("ready", made["created_at"])
    assert again["proof"]["differ"] == 0
    assert desk.get(f"/workspaces/{made['key']}/files/file").body == b"kept\n"


def test_the_same_key_with_another_source_is_a_conflict_that_names_the_difference(desk, repository):
    made = desk.create()
    told = desk.post("/workspaces", {"key": made["key"], "source": {"git": str(repository[0])}}, expect=409).json
    assert list(told["differs"]) == ["source"]
    assert desk.post("/workspaces", {"key": made["key"], "driver": "docker"}, expect=409).json["differs"] == {
        "driver": {"is": "sandbox", "asked": "docker"}
    }


def test_a_deleted_key_is_in_the_trash_unless_a_fresh_one_is_asked_for(desk, lead_token):
    made = desk.create()
    desk.run(made["key"], "echo old > file")
    lead = type(desk)(desk.product, lead_token)
    lead.call("DELETE", f"/workspaces/{made['key']}", expect=202)
    until(lambda: desk.get(f"/workspaces/{made['key']}", expect=None).status == 404)
    told = desk.post("/workspaces", {"key": made["key"]}, expect=409).json
    assert told["in_trash_until"]
    lead.post(f"/workspaces/{made['key']}/untrash", expect=202)
    assert desk.get(f"/workspaces/{made['key']}").json["state"] == "stopped"
    assert desk.get(f"/workspaces/{made['key']}/files/file").body == b"old\n"
    lead.call("DELETE", f"/workspaces/{made['key']}", expect=202)
    until(lambda: desk.get(f"/workspaces/{made['key']}", expect=None).status == 404)
    fresh = desk.create(made["key"], fresh=True)
    assert fresh["head_snapshot"] == 1
    assert desk.get(f"/workspaces/{made['key']}/files/").json["entries"] == []


@pytest.mark.parametrize("key", ["", "UPPER", "-x", ".x", "a/b", "a b", "x" * 65, "é"])
def test_keys_that_are_none(desk, key):
    desk.post("/workspaces", {"key": key}, expect=422)


def test_unknown_fields_and_drivers_are_refused(desk):
    desk.post("/workspaces", {"key": "odd", "drvier": "sandbox"}, expect=422)
    desk.post("/workspaces", {"key": "odd", "driver": "cloud"}, expect=422)
    desk.post("/workspaces", {"key": "odd", "environment": "none-such"}, expect=422)
    desk.get("/workspaces/odd", expect=404)


def test_labels_filter_the_list(desk):
    made = desk.create(labels={"ticket": "T-8421"})
    found = desk.get("/workspaces?label=ticket:T-8421").json["workspaces"]
    assert [workspace["key"] for workspace in found] == [made["key"]]
    assert desk.get("/workspaces?label=ticket:other").json["workspaces"] == []


def test_another_agent_does_not_see_the_workspace(desk, product):
    made = desk.create()
    other = type(desk)(product, product.agent_token("another"))
    other.get(f"/workspaces/{made['key']}", expect=404)
    assert made["key"] not in [w["key"] for w in other.get("/workspaces").json["workspaces"]]
    other.post("/workspaces", {"key": made["key"]}, expect=409)


def test_an_agent_cannot_delete_a_workspace_alone(desk, lead_token):
    made = desk.create()
    asked = desk.call("DELETE", f"/workspaces/{made['key']}", expect=202).json["action"]
    assert (asked["status"], asked["tier"]) == ("pending", "high")
    assert desk.call("DELETE", f"/workspaces/{made['key']}", expect=202).json["action"]["id"] == asked["id"]
    assert desk.get(f"/workspaces/{made['key']}").json["state"] == "ready"
    lead = type(desk)(desk.product, lead_token)
    lead.post(f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]}, expect=200)
    for _ in range(100):
        ended = desk.get(f"/actions/{asked['id']}?wait=2").json
        if ended["status"] not in ("pending", "approved", "running"):
            break
    assert ended["status"] == "succeeded"
    desk.get(f"/workspaces/{made['key']}", expect=404)


def test_nobody_names_our_own_verbs_as_a_tool(desk):
    wish = {"tool": "Handrail.Delete", "arguments": {}, "mode": "gate"}
    desk.post("/actions", wish, expect=422)


def test_a_clone_is_stopped_and_leaves_nothing(desk, product):
    path = Path(tempfile.mkdtemp(prefix="slow-", dir=product.sources))
    for name in ("objects", "refs"):
        (path / name).mkdir()
    os.mkfifo(path / "HEAD")  # git waits for it as for a host that sends nothing
    key = f"slow-{uuid.uuid4().hex[:8]}"
    desk.post("/workspaces", {"key": key, "source": {"git": str(path)}})
    operation = desk.get(f"/workspaces/{key}/operations").json["operations"][0]
    assert (operation["kind"], operation["can_be_stopped"]) == ("create", True)
    told = desk.post(f"/workspaces/{key}/operations/{operation['id']}/stop", expect=202).json
    assert told["asked_to_stop"]
    assert desk.operation(key, operation["id"])["outcome"]["reason_code"] == "cancelled"
    workspace = desk.settled(key)
    assert (workspace["state"], workspace["reason"]) == ("failed", "Cancelled. Nothing was kept.")
    assert str(path) not in subprocess.run(["ps", "axww"], capture_output=True, text=True).stdout


def test_a_workspace_tells_what_its_start_took(desk):
    made = desk.create(setup="sleep 0.3")
    assert made["run"]["setup_seconds"] >= 0.3
    assert (made["run"]["first_useful_at"], made["run"]["useful_after_s"]) == (None, None)
    desk.run(made["key"], "false", expect_exit=1)
    assert desk.get(f"/workspaces/{made['key']}").json["run"]["first_useful_at"] is None
    desk.run(made["key"], "true")
    run = desk.get(f"/workspaces/{made['key']}").json["run"]
    assert run["first_useful_at"] > run["ready_at"] > run["started_at"]
