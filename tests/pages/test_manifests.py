"""Manifests on pages: what differs now, the download, and any two compared within a team."""

import json

import pytest

from dashboard.database import clock
from dashboard.keys import log_key
from handrail_verify.signed import verify
from workspaces.manifests import keep
from workspaces.models import Manifest, Run, Runner

from .conftest import make_workspace

HERE = "/w/payments/repo-task-1/"
API = "/api/v1/workspaces/repo-task-1/snapshots/1/manifest/compare"


@pytest.fixture
def body():
    """A manifest's body as snapshots have it."""
    return {
        "format": 2,
        "workspace": "repo-task-1",
        "snapshot": 1,
        "kind": "setup",
        "at": "2026-01-01T00:00:00.000+00:00",
        "git": {"branch": "main", "sha": "ab" * 20},
        "dirty": {"count": 2, "files": [{"path": "a\u202e.py", "state": "modified"}], "cut_off": "there is no index"},
        "lock_files": [{"path": "uv.lock", "sha256": "cd" * 32}],
        "checks": {"tests": {"exit_status": 1, "at": "2026-01-01T00:00:00.000+00:00"}},
        "ports": [],
        "secrets": ["DEPLOY_KEY"],
        "cause": {
            "actor": {"type": "agent", "id": "1", "label": "claude", "approved_by": "lena"},
            "operation": {"kind": "command", "id": "1"},
            "action": {"id": "1", "number": "A-41"},
            "command": "make test",
        },
    }


@pytest.fixture
def manifest(workspace, body):
    Manifest.objects.filter(snapshot__number=1).delete()
    return keep.sign_and_save(body, snapshot=workspace.baseline)


def test_the_page_names_the_cause_and_marks_hidden_characters(manifest, vera, browser_of, read):
    text = read(browser_of(vera), f"{HERE}snapshots/1/")
    for words in ("claude (agent)", "approved by lena", "A-41", "make test", "tests: exit status 1", "DEPLOY_KEY"):
        assert words in text, words
    assert "Not complete: there is no index" in text
    assert "\u202e" not in text
    assert f"Signed with the log's key <code>{log_key.public_key()}</code>" in text.replace("&#x27;", "'")


def test_a_changed_row_is_named(manifest, body, vera, browser_of, read):
    Manifest.objects.filter(pk=manifest.pk).update(body=body | {"secrets": []})
    assert "Its signature does not match" in read(browser_of(vera), f"{HERE}snapshots/1/")


def test_an_older_manifest_says_that_it_is_not_signed(workspace, vera, browser_of, read):
    assert "Not signed" in read(browser_of(vera), f"{HERE}snapshots/2/")


def test_the_download_verifies(manifest, vera, browser_of):
    response = browser_of(vera).get(f"{HERE}snapshots/1/manifest.json")
    assert response["Content-Disposition"] == 'attachment; filename="repo-task-1-1.manifest.json"'
    assert verify(response.content, log_key.public_key())["cause"]["action"]["number"] == "A-41"


def test_a_resume_has_a_page_and_an_api_of_its_own(manifest, body, workspace, vera, browser_of, read, api, token_of):
    run = Run.objects.create(workspace=workspace, runner=Runner.objects.create(host="h"), started_at=clock.now())
    client = browser_of(vera)
    assert "Started" in read(client, f"{HERE}runs/")
    assert client.get(f"{HERE}runs/{run.pk}/manifest/").status_code == 404
    keep.sign_and_save(body | {"kind": "resume", "memory": "its programs went on"}, run=run)
    assert f"{HERE}runs/{run.pk}/manifest/" in read(client, f"{HERE}runs/")
    assert "its programs went on" in read(client, f"{HERE}runs/{run.pk}/manifest/")
    told = api(token_of(vera)).get(f"/api/v1/workspaces/repo-task-1/runs/{run.pk}/manifest").json()
    assert told["memory"] == "its programs went on"
    assert verify(json.dumps(told).encode(), log_key.public_key())["kind"] == "resume"
    assert verify(client.get(f"{HERE}runs/{run.pk}/manifest.json").content, told["signature"]["key"])["format"] == 2


def test_two_are_compared_over_workspaces(manifest, body, team, agent, vera, browser_of, read, api, token_of):
    other = make_workspace(team, agent, "repo-task-2")
    Manifest.objects.filter(snapshot=other.head).delete()
    changed = body | {"secrets": [], "lock_files": [{"path": "uv.lock", "sha256": "ef" * 32}], "snapshot": 2}
    keep.sign_and_save(changed | {"cause": body["cause"] | {"action": None}}, snapshot=other.head)
    text = read(browser_of(vera), "/manifests/compare/?a=repo-task-1/1&b=repo-task-2/2")
    assert ("uv.lock: " + "cd" * 32 in text, "uv.lock: " + "ef" * 32 in text) == (True, True)
    assert "Last checks" not in text
    told = api(token_of(vera)).get(f"{API}?other=repo-task-2/2").json()
    assert sorted(told["differences"]) == ["lock_files", "secrets"]
    assert told["differences"]["secrets"] == [["DEPLOY_KEY"], []]


def test_manifests_of_another_team_are_not_found(manifest, mallory, other_team, agent, browser_of, api, token_of):
    make_workspace(other_team, None, "theirs")
    client = browser_of(mallory)
    for a, b in (("repo-task-1/1", "theirs/1"), ("theirs/1", "repo-task-1/1")):
        assert client.get(f"/manifests/compare/?a={a}&b={b}").status_code == 404
    for key, other in (("repo-task-1", "theirs/1"), ("theirs", "repo-task-1/1")):
        address = f"/api/v1/workspaces/{key}/snapshots/1/manifest/compare?other={other}"
        assert api(token_of(mallory)).get(address).status_code == 404
    assert client.get(f"{HERE}snapshots/1/manifest.json").status_code == 404


def test_an_invalid_name_is_reported(vera, workspace, browser_of, read, api, token_of):
    assert "Name a snapshot as KEY/NUMBER" in read(browser_of(vera), "/manifests/compare/?a=x&b=y")
    assert api(token_of(vera)).get(f"{API}?other=x").status_code == 422


def test_the_public_key_is_given_to_who_may_read(workspace, vera, api, token_of):
    told = api(token_of(vera)).get("/api/v1/manifests/key").json()
    assert told == {"algorithm": "Ed25519", "key": log_key.public_key()}
