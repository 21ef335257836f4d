"""Backup and restore of a Handrail that runs: everything comes back, and nothing runs again."""

import json
import sqlite3
from contextlib import closing

import pytest

from tests.support.product import Product

KEY = "/api/v1/workspaces/saved"


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory):
    """A backup made while everything ran, with what was true then: {folder, digest, …}."""
    product = Product(tmp_path_factory.mktemp("origin"))
    product.start()
    agent, lead = product.agent_token(), product.person_token("lena", "lead")
    made = product.post("/api/v1/workspaces", agent, {"key": "saved", "driver": "sandbox", "source": {}})
    assert made.status == 201, made.text
    assert product.settled(KEY, agent)["state"] == "ready"
    assert product.call("PUT", f"{KEY}/files/notes.txt", agent, b"first\n").status in (200, 201, 204)
    assert product.post(f"{KEY}/snapshots", agent, {"label": "kept"}).status == 201
    assert product.call("PUT", f"{KEY}/files/notes.txt", agent, b"second\n").status in (200, 201, 204)
    wish = {"tool": "Bash", "arguments": {"command": "git push origin main"}, "mode": "gate"}
    action = product.post("/api/v1/actions", agent, wish).json
    decided = {"verdict": "approve", "digest": action["digest"]}
    approved = product.post(f"/api/v1/actions/{action['id']}/decision", lead, decided)
    assert (approved.status, approved.json["status"]) == (200, "approved")
    url = product.sign_in_url("lena", "lead")
    folder = product.home.parent / "backup"
    done = product.manage("backup", str(folder))
    assert done.returncode == 0, done.stderr
    assert "Backed up to" in done.stdout
    yield {"product": product, "folder": folder, "agent": agent, "action": action, "url": url}
    product.clean_up()


@pytest.fixture(scope="module")
def elsewhere(backed_up, tmp_path_factory):
    """Another Handrail on the same machine, started on the backup."""
    product = Product(tmp_path_factory.mktemp("elsewhere"))
    done = product.manage("restore", str(backed_up["folder"]))
    assert done.returncode == 0, done.stderr
    product.start()
    yield product
    product.clean_up()


def in_database(product, statement: str):
    with closing(sqlite3.connect(product.home / "handrail.sqlite3")) as opened:
        return opened.execute(statement).fetchall()


def test_everything_comes_back(elsewhere, backed_up):
    agent = backed_up["agent"]
    numbers = [row["number"] for row in elsewhere.get(f"{KEY}/snapshots", agent).json["snapshots"]]
    assert elsewhere.get(f"{KEY}/files/notes.txt?snapshot={numbers[0]}", agent).body in (b"first\n", b"second\n")
    kept = next(row for row in elsewhere.get(f"{KEY}/snapshots", agent).json["snapshots"] if row["label"] == "kept")
    assert elsewhere.get(f"{KEY}/files/notes.txt?snapshot={kept['number']}", agent).body == b"first\n"
    elsewhere.post(f"{KEY}/resume", agent)
    assert elsewhere.settled(KEY, agent)["state"] == "ready"
    assert elsewhere.get(f"{KEY}/files/notes.txt", agent).body == b"second\n"


@pytest.mark.usefixtures("elsewhere")
def test_a_restored_copy_takes_nothing_from_the_running_installation(backed_up):
    origin, agent = backed_up["product"], backed_up["agent"]
    assert origin.get(KEY, agent).json["state"] in ("ready", "paused")
    ran = origin.post(f"{KEY}/commands", agent, {"command": "echo alive"}).json
    assert origin.settled(f"/api/v1/commands/{ran['id']}", agent)["exit_status"] == 0


def test_an_approval_that_was_not_collected_does_not_count_a_second_time(elsewhere, backed_up):
    action = backed_up["action"]
    address, digest = f"/api/v1/actions/{action['id']}", {"digest": action["digest"]}
    assert elsewhere.get(address, backed_up["agent"]).json["status"] == "cancelled"
    assert elsewhere.post(f"{address}/consume", backed_up["agent"], digest).status == 409
    assert backed_up["product"].post(f"{address}/consume", backed_up["agent"], digest).status == 200


def test_nobody_is_signed_in_and_old_links_are_void(elsewhere, backed_up):
    assert in_database(elsewhere, "SELECT count(*) FROM django_session") == [(0,)]
    path = backed_up["url"].removeprefix(backed_up["product"].url)
    assert elsewhere.get(path).status == 410


def test_the_log_says_that_it_was_put_back(elsewhere):
    [(data,)] = in_database(elsewhere, "SELECT data FROM dashboard_event WHERE verb = 'system.restored'")
    assert json.loads(data)["withdrawn"] == 1


def test_what_was_due_is_unclear_and_does_not_run(new_product, backed_up, tmp_path):
    waiting = new_product()
    assert waiting.manage("restore", str(backed_up["folder"])).returncode == 0
    # A command that the runner never got to see: it was due when the next backup was made.
    ask = (
        "from dashboard.models import Actor; from workspaces.models import Workspace;"
        "from workspaces.services import commands;"
        "workspace = Workspace.objects.get(key='saved');"
        "commands.run_command(workspace, {'command': 'echo ran > ran.txt'}, by=Actor.system('test'))"
    )
    asked = waiting.manage("shell", "-c", ask)
    assert asked.returncode == 0, asked.stderr
    assert waiting.manage("backup", str(tmp_path / "second")).returncode == 0
    again = new_product()
    assert again.manage("restore", str(tmp_path / "second")).returncode == 0
    again.start()
    agent = backed_up["agent"]
    again.post(f"{KEY}/resume", agent)
    assert again.settled(KEY, agent)["state"] == "ready"
    assert again.get(f"{KEY}/files/ran.txt", agent).status == 404
    phases = in_database(
        again,
        "SELECT phase FROM workspaces_operation JOIN workspaces_command ON operation_id = workspaces_operation.id",
    )
    assert phases == [("uncertain",)]


def test_a_backup_is_private_and_complete(backed_up):
    folder = backed_up["folder"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["database.sqlite3", "home.tar.zst", "manifest.json"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert sorted(manifest["files"]) == ["database.sqlite3", "home.tar.zst"]


def test_a_backup_never_writes_over_anything(backed_up, tmp_path):
    (tmp_path / "mine").write_text("precious")
    done = backed_up["product"].manage("backup", str(tmp_path))
    assert done.returncode == 1
    assert "is not an empty folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name == "mine"] == ["mine"]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("database.sqlite3", "flip"),
        ("home.tar.zst", "flip"),
        ("home.tar.zst", "cut"),
        ("home.tar.zst", "remove"),
        ("manifest.json", "cut"),
        ("manifest.json", "remove"),
    ],
)
def test_a_damaged_backup_is_refused_before_anything_is_written(backed_up, new_product, tmp_path, name, damage):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in backed_up["folder"].iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    content = bytearray((copy / name).read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 0x55
        (copy / name).write_bytes(content)
    elif damage == "cut":
        (copy / name).write_bytes(content[: len(content) // 2])
    else:
        (copy / name).unlink()
    product = new_product()
    done = product.manage("restore", str(copy))
    assert done.returncode == 1
    assert "damaged" in done.stderr or "cannot be read" in done.stderr or "not a complete backup" in done.stderr
    assert sorted(path.name for path in product.home.iterdir()) == ["keys"]


def test_a_home_that_holds_something_is_refused(elsewhere, backed_up):
    before = in_database(elsewhere, "SELECT count(*) FROM workspaces_snapshot")
    done = elsewhere.manage("restore", str(backed_up["folder"]))
    assert done.returncode == 1
    assert "into an empty HANDRAIL_HOME" in done.stderr
    assert in_database(elsewhere, "SELECT count(*) FROM workspaces_snapshot") == before
    assert elsewhere.get("/readyz").status == 200


def test_up_refuses_beside_a_restore_that_was_cut_short(new_product):
    product = new_product()
    (product.home / ".restoring").mkdir(parents=True)
    done = product.manage("up")
    assert done.returncode == 1
    assert "was interrupted" in done.stderr
