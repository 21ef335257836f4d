"""Nothing is kept in a snapshot that holds a value this workspace's programs were given."""

import base64
import os
import random
from urllib.parse import quote

import pytest

from dashboard.keys import keyring
from dashboard.models import Actor, Event
from workspaces import secrets
from workspaces.host import paths
from workspaces.models import Environment, SecretFinding, State, Workspace
from workspaces.runner import secret_scan, snapshots
from workspaces.store import StoreError
from workspaces.store.file_reader import cut

BY = Actor.system("test")
VALUE = 's3cr3t: ü "x"/+~'


@pytest.fixture
def workspace(transactional_db, team):
    """With files, a first snapshot, and a secret handed to its programs."""
    secrets.save(team, "DEPLOY_KEY", "agent", VALUE, by=BY)
    environment = Environment.objects.create(team=team, name="default", secrets={"agent": ["DEPLOY_KEY"]})
    made = Workspace.objects.create(team=team, key="scanned", environment=environment, state=State.STOPPED)
    paths.make_folders(made)
    (paths.tree_of(made) / "README").write_text("nothing in here")
    assert secrets.for_phase(made, "agent") == {"DEPLOY_KEY": VALUE}
    return made


def take(workspace):
    return snapshots.take(workspace, snapshots.host_tree(workspace), kind="manual", by=BY)


def put(workspace, path: str, data: bytes):
    path = paths.tree_of(workspace) / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


FORMS = {
    "as given": VALUE.encode(),
    "base64": base64.b64encode(VALUE.encode()),
    "base64, one byte on": base64.b64encode(b"x" + VALUE.encode()),
    "base64, two bytes on": base64.b64encode(b"xy" + VALUE.encode()),
    "URL-encoded": quote(VALUE).encode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_snapshot_that_would_keep_a_value_is_not_kept(workspace, form):
    put(workspace, "config/.env", b"KEY=" + FORMS[form] + b"\n")
    with pytest.raises(secret_scan.SecretFound, match=r"^config/\.env holds the secret DEPLOY_KEY\. Take it out there"):
        take(workspace)
    assert workspace.snapshots.count() == 0
    assert snapshots.store_of(workspace).verify(full=True).objects == 0
    with pytest.raises(secret_scan.SecretFound):
        snapshots.scan(workspace, snapshots.host_tree(workspace))  # nor does a look at what changed keep anything
    [finding] = secrets.open_findings(workspace)
    assert (finding.path, str(finding)) == ("config/.env", "DEPLOY_KEY in config/.env")
    put(workspace, "config/.env", b"KEY=$DEPLOY_KEY\n")
    assert take(workspace).number == 1
    assert not SecretFinding.objects.exists()


@pytest.mark.parametrize("where", ["a name", "a folder", "a link", "an attribute"])
def test_names_links_and_attributes_count(workspace, where):
    tree, word = paths.tree_of(workspace), base64.b64encode(VALUE.encode()).decode().strip("=").replace("/", "_")
    if where == "a name":
        (tree / f"token-{word}").touch()
    elif where == "a folder":
        (tree / word).mkdir()
    elif where == "a link":
        os.symlink(word, tree / "link")
    else:
        os.setxattr(tree / "README", "user.note", VALUE.encode())
    with pytest.raises(secret_scan.SecretFound, match="DEPLOY_KEY"):
        take(workspace)


def test_a_value_across_the_borders_of_pieces_is_found(workspace):
    """At each place where the store cuts a large file."""
    noise = random.Random(1).randbytes(5 << 20)
    put(workspace, "large.bin", noise)
    lengths = [len(piece) for piece in cut(lambda size, at: noise[at : at + size], 0, len(noise))]
    value, border = VALUE.encode(), 0
    assert len(lengths) > 5
    for length in lengths[:-1]:
        border += length
        where = border - len(value) // 2
        put(workspace, "large.bin", noise[:where] + value + noise[where + len(value) :])
        with pytest.raises(secret_scan.SecretFound):
            snapshots.scan(workspace, snapshots.host_tree(workspace))


def test_values_that_this_workspace_never_had_and_short_ones_do_not_count(workspace, team):
    secrets.save(team, "OF_OTHERS", "agent", "never handed to it", by=BY)
    secrets.save(team, "SHORT_ONE", "agent", "1234567", by=BY)
    Environment.objects.filter(pk=workspace.environment_id).update(secrets={"agent": ["SHORT_ONE"]})
    workspace.environment.refresh_from_db()
    assert secrets.for_phase(workspace, "agent") == {"SHORT_ONE": "1234567"}
    put(workspace, "file", b"never handed to it, 1234567")
    assert take(workspace).number == 1


def test_a_value_that_was_replaced_or_deleted_is_still_looked_for(workspace, team):
    put(workspace, ".env", VALUE.encode())
    secret = secrets.save(team, "DEPLOY_KEY", "agent", "another value", by=BY, replace=True)
    secrets.delete(secret, by=BY)
    with pytest.raises(secret_scan.SecretFound):
        take(workspace)


def test_a_lead_may_say_that_it_is_kept_all_the_same(workspace, browser_of, lena, bob, vera, mallory):
    put(workspace, "fixtures/key.txt", VALUE.encode())
    put(workspace, "other.txt", VALUE.encode())
    with pytest.raises(secret_scan.SecretFound, match=r"^fixtures/key\.txt holds .* other\.txt holds"):
        take(workspace)
    page = browser_of(vera).get("/w/payments/scanned/").content.decode()
    assert "<code>fixtures/key.txt</code> contains <code>DEPLOY_KEY</code>" in page
    assert "Allow in snapshots" not in page
    ids = [str(finding.pk) for finding in secrets.open_findings(workspace)]
    for person, status in ((bob, 403), (vera, 403), (mallory, 404)):
        assert browser_of(person).post("/w/payments/scanned/secrets/keep/", {"finding": ids}).status_code == status
    assert len(secrets.open_findings(workspace)) == 2
    lead = browser_of(lena)
    assert "Allow in snapshots" in lead.get("/w/payments/scanned/").content.decode()
    said = lead.post("/w/payments/scanned/secrets/keep/", {"finding": ids[:1]}, follow=True).content.decode()
    assert "Allowed in 1 file." in said
    with pytest.raises(secret_scan.SecretFound, match=r"^other\.txt holds the secret DEPLOY_KEY\. "):
        take(workspace)
    lead.post("/w/payments/scanned/secrets/keep/", {"finding": ids})
    assert take(workspace).number == 1
    kept = [event.data for event in Event.objects.filter(verb="secret.kept").order_by("seq")]
    assert kept == [{"path": path, "name": "DEPLOY_KEY"} for path in ("fixtures/key.txt", "other.txt")]
    # The decision was for these files, and for this value.
    put(workspace, "third.txt", VALUE.encode())
    with pytest.raises(secret_scan.SecretFound, match=r"^third\.txt holds"):
        take(workspace)


def test_a_home_is_reported_and_stops_nothing(workspace):
    home = paths.folder_of(workspace.pk) / "home"
    (home / ".cache").mkdir()
    (home / ".cache" / "history").write_bytes(b"x" * secret_scan.PIECE + VALUE.encode())
    os.symlink("/etc/passwd", home / "link")
    os.mkfifo(home / "pipe")
    secret_scan.scan_home(workspace, snapshots.host_tree(workspace), workspace.created_at, by=BY)
    event = Event.objects.get(verb="secret.in_home")
    assert event.data == {
        "found": [{"path": "/home/agent/.cache/history", "name": "DEPLOY_KEY"}],
        "more": 0,
        "complete": True,
    }
    assert take(workspace).number == 1


def test_without_secrets_nobody_looks(team, transactional_db):
    environment = Environment.objects.create(team=team, name="plain")
    workspace = Workspace.objects.create(team=team, key="plain", environment=environment)
    assert secret_scan.inspector_of(workspace) is None


def test_without_the_keys_no_snapshot_claims_to_be_clean(workspace):
    keyring.path().rename(keyring.path().with_name("aside"))
    try:
        with pytest.raises(StoreError, match=r"^it cannot be searched for DEPLOY_KEY: "):
            take(workspace)
    finally:
        keyring.path().with_name("aside").rename(keyring.path())
    assert take(workspace).number == 1
