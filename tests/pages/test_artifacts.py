"""Artifacts: files of a snapshot that stay when it is gone, are downloaded, and come into the next workspace."""

import io
import zipfile
from datetime import timedelta

import pytest
from django.test import Client

from dashboard.database import clock
from dashboard.models import Actor, Agent, Event
from dashboard.people.access import caller_of
from dashboard.people.tokens import make_token
from dashboard.problems import Problem
from tests.pages.conftest import keep_tree, make_workspace
from workspaces import lifecycle, tasks
from workspaces.host import paths
from workspaces.models import Artifact, Operation, RetentionRule, Workspace
from workspaces.runner import carried
from workspaces.services import artifacts, retention
from workspaces.services.retention import holds
from workspaces.store import Store, StoreError

HERE = "/w/payments/repo-task-1/"
FILES = {
    "dist/app.whl": "wheel\n",
    "dist/deep/notes.txt": "notes\n",
    "report.txt": "fine\n",
    "other.txt": "x" * 300_000,
}
NOBODY = Actor.system("test")


@pytest.fixture
def workspace(team, agent, tmp_path):
    made = make_workspace(team, agent, "repo-task-1", source={"git": "https://93.184.216.34/shop"})
    made.snapshots.filter(number=2).update(tree=keep_tree(team, tmp_path / "tree", FILES))
    made.refresh_from_db()
    return made


@pytest.fixture
def promote(workspace, runner):
    """`promote("build", "dist")`: an artifact of snapshot 2, whose files the runner has put together."""

    def keep(name, *paths_, **more):
        made, _ = artifacts.promote(workspace, name, [path.encode() for path in paths_], number=2, by=NOBODY, **more)
        runner()
        made.refresh_from_db()
        return made

    return keep


def files_in(zipped) -> dict[str, bytes]:
    found = zipfile.ZipFile(io.BytesIO(zipped))
    return {name: found.read(name) for name in found.namelist() if not name.endswith("/")}


def collect(runner):
    tasks.collect_garbage()
    runner()


# It works ------------------------------------------------------------------------------------------------------------


def test_files_stay_when_snapshot_and_workspace_are_gone(promote, workspace, runner, browser_of, vera):
    made = promote("build", "dist", "report.txt", note="For the release.")
    assert (made.entries, made.bytes, made.repository) == (5, 17, "https://93.184.216.34/shop")
    before = Store.open(paths.store_of(workspace.team_id)).usage().bytes
    Workspace.objects.filter(pk=workspace.pk).update(head=None, baseline=None)
    workspace.snapshots.all().delete()
    Workspace.objects.filter(pk=workspace.pk).delete()
    store = Store.open(paths.store_of(workspace.team_id))
    store.release(made.tree_hex)
    collect(runner)
    assert Operation.objects.filter(kind="store_collect").latest("created_at").outcome["ok"]
    client = browser_of(vera)
    zipped = b"".join(client.get(f"/artifacts/{made.pk}/zip/").streaming_content)
    assert files_in(zipped) == {
        "dist/app.whl": b"wheel\n",
        "dist/deep/notes.txt": b"notes\n",
        "report.txt": b"fine\n",
    }
    assert Store.open(paths.store_of(workspace.team_id)).usage().bytes <= before
    kept = Event.objects.get(verb="artifact.kept")
    assert (kept.data["name"], kept.data["paths"], kept.data["bytes"]) == ("build", ["dist", "report.txt"], 17)


def test_without_it_the_collection_frees_the_bytes(promote, workspace, runner, browser_of, lena):
    made = promote("build", "other.txt")
    Workspace.objects.filter(pk=workspace.pk).update(head=None, baseline=None)
    workspace.snapshots.all().delete()
    assert browser_of(lena).post(f"/artifacts/{made.pk}/delete/").status_code == 302
    store = Store.open(paths.store_of(workspace.team_id))
    store.release(made.tree_hex)
    assert not Artifact.objects.exists()
    assert Event.objects.get(verb="artifact.deleted").data["name"] == "build"
    collect(runner)
    with pytest.raises(StoreError):
        Store.open(paths.store_of(workspace.team_id)).ls(made.tree_hex)


def test_a_person_keeps_what_is_ticked(workspace, runner, browser_of, lena, read):
    client = browser_of(lena)
    assert "Keep as an artifact…" in read(client, f"{HERE}files/?at=2")
    form = read(client, f"{HERE}artifacts/new/?at=2&quoted=dist&choose=app.whl")
    assert '<code class="exact">dist/app.whl</code>' in form
    wish = {"at": "2", "path": ["dist/app.whl"], "name": "wheel", "note": "Of today\u202e.", "days": "7"}
    answer = client.post(f"{HERE}artifacts/new/", wish)
    operation = Operation.objects.get(kind="promote")
    assert answer.headers["Location"] == f"{HERE}operations/{operation.pk}/"
    assert "being created" in read(client, "/artifacts/")
    runner()
    made = Artifact.objects.get()
    days = made.expires_at - made.created_at
    assert (made.name, made.note, made.paths, days) == ("wheel", "Of today\u202e.", ["dist/app.whl"], timedelta(days=7))
    listed = read(client, "/artifacts/?key=repo-task-1")
    assert f"/artifacts/{made.pk}/zip/" in listed
    assert "\u202e" not in listed
    assert "U+202E" in listed
    assert "wheel" in read(client, "/artifacts/?repository=https%3A%2F%2F93.184.216.34%2Fshop")
    assert "wheel" not in read(client, "/artifacts/?repository=https%3A%2F%2F93.184.216.34%2Fother")


# Retention -----------------------------------------------------------------------------------------------------------


def test_its_own_time_counts_and_the_rule_for_the_others(promote, team):
    week, kept = promote("week", "report.txt", days=7), promote("kept", "report.txt")
    retention.sweep()
    assert set(Artifact.objects.all()) == {week, kept}
    Artifact.objects.filter(pk=week.pk).update(expires_at=clock.now() - timedelta(minutes=1))
    Artifact.objects.filter(pk=kept.pk).update(created_at=clock.now() - timedelta(days=40))
    retention.sweep()
    assert set(Artifact.objects.all()) == {kept}
    RetentionRule.objects.create(team=team, layer="artifacts", days=30)
    retention.sweep()
    assert not Artifact.objects.exists()
    assert [each.data["name"] for each in Event.objects.filter(verb="artifact.deleted")] == ["week", "kept"]


def test_a_hold_keeps_it_from_rules_and_people(promote, workspace, team, browser_of, lena):
    made = promote("week", "report.txt", days=7)
    Artifact.objects.update(expires_at=clock.now() - timedelta(days=1))
    holds.hold(team, workspace=workspace, reason="An audit", by=NOBODY)
    retention.sweep()
    browser_of(lena).post(f"/artifacts/{made.pk}/delete/")
    assert Artifact.objects.count() == 1


# The next workspace --------------------------------------------------------------------------------------------------


@pytest.fixture
def start(team, alice):
    """`start("next", ["build"])`: a workspace of the same repository that begins with these artifacts."""

    def create(key, names, git="https://93.184.216.34/shop"):
        wish = {"driver": "sandbox", "source": {"git": git}, "artifacts": names}
        return lifecycle.create(team, key, caller=caller_of(alice), wish=wish)[0]

    return create


def test_the_next_workspace_of_the_repository_begins_with_it(promote, start, tmp_path):
    promote("build", "report.txt")
    newest = promote("build", "dist")
    made = start("next", ["build"])
    assert made.source["artifacts"] == [{"id": str(newest.pk), "name": "build"}]
    tree = tmp_path / "next" / "tree"
    tree.mkdir(parents=True)
    carried.unpack_artifacts(made, tree, {"cancel": None})
    found = {str(path.relative_to(tree)): path.read_text() for path in tree.rglob("*") if path.is_file()}
    assert found == {
        "artifacts/.gitignore": "*\n",
        "artifacts/build/dist/app.whl": "wheel\n",
        "artifacts/build/dist/deep/notes.txt": "notes\n",
    }


def test_a_repository_cannot_lead_it_elsewhere(promote, start, tmp_path):
    promote("build", "report.txt")
    made, tree, elsewhere = start("next", ["build"]), tmp_path / "next" / "tree", tmp_path / "elsewhere"
    elsewhere.mkdir()
    tree.mkdir(parents=True)
    (tree / "artifacts").symlink_to(elsewhere)
    with pytest.raises(StoreError):
        carried.unpack_artifacts(made, tree, {"cancel": None})
    (tree / "artifacts").unlink()
    (tree / "artifacts").mkdir()
    (tree / "artifacts" / "build").symlink_to(elsewhere)
    with pytest.raises(StoreError):
        carried.unpack_artifacts(made, tree, {"cancel": None})
    assert list(elsewhere.iterdir()) == []


def test_only_one_of_the_same_repository_is_carried(promote, start, team):
    promote("build", "report.txt")
    shop, elsewhere = "https://93.184.216.34/shop", "https://93.184.216.34/other"
    for names, git in ((["other"], shop), (["build"], elsewhere), (["no\0thing"], shop)):
        with pytest.raises(Problem) as refused:
            start("next", names, git)
        assert refused.value.detail == f"There is no artifact named {names[0]!r} of this repository."
        assert (refused.value.status, Workspace.objects.filter(key="next").count()) == (422, 0)


# Who may not, and what is refused ------------------------------------------------------------------------------------


def test_reviewers_and_strangers_keep_and_delete_nothing(promote, browser_of, bob, mallory):
    made = promote("build", "report.txt")
    client, stranger = browser_of(bob), browser_of(mallory)
    wish = {"at": "2", "path": ["report.txt"], "name": "mine"}
    assert client.post(f"{HERE}artifacts/new/", wish).status_code == 403
    assert client.post(f"/artifacts/{made.pk}/delete/").status_code == 403
    assert client.get(f"/artifacts/{made.pk}/zip/").status_code == 200
    assert stranger.get(f"/artifacts/{made.pk}/zip/").status_code == 404
    assert stranger.post(f"/artifacts/{made.pk}/delete/").status_code == 404
    assert Artifact.objects.count() == 1


@pytest.mark.parametrize(
    ("paths_", "name", "status"),
    [
        (["nowhere"], "a", 404),
        ([], "a", 422),
        (["../x"], "a", 404),
        (["dist/a\0b"], "a", 404),
        (["./"], "a", 422),
        (["dist", "./dist//app.whl", "dist/app.whl/"], "..", 422),
        (["dist/app.whl", "dist"], "bad/name", 422),
        (["report.txt", "dist/../report.txt"], "a", 404),
    ],
)
def test_what_cannot_be_kept_is_refused(workspace, paths_, name, status):
    with pytest.raises(Problem) as refused:
        artifacts.promote(workspace, name, [path.encode() for path in paths_], number=2, by=NOBODY)
    assert (refused.value.status, Artifact.objects.count()) == (status, 0)


# The API -------------------------------------------------------------------------------------------------------------


def test_an_agent_sees_and_downloads_those_of_its_workspaces(promote, team, agent, agent_token):
    made = promote("build", "dist")
    other = Agent.objects.create(team=team, name="other", owner=agent.owner)

    def get(path, token):
        return Client().get(f"/api/v1{path}", headers={"Authorization": f"Bearer {token}"})

    [listed] = get("/artifacts?name=build", agent_token).json()["artifacts"]
    assert (listed["id"], listed["workspace"], listed["is_ready"]) == (str(made.pk), "repo-task-1", True)
    assert listed == get(f"/artifacts/{made.pk}", agent_token).json()
    zipped = b"".join(get(f"/artifacts/{made.pk}/zip", agent_token).streaming_content)
    assert set(files_in(zipped)) == {"dist/app.whl", "dist/deep/notes.txt"}
    token = make_token(team, agent=other)
    assert get("/artifacts", token).json()["artifacts"] == []
    assert get(f"/artifacts/{made.pk}/zip", token).status_code == 404
    headers = {"Authorization": f"Bearer {agent_token}"}
    assert Client().delete(f"/api/v1/artifacts/{made.pk}", headers=headers).status_code == 403
