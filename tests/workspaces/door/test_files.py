"""The file API and the envelope's two lists: secrets are never handed to an agent, protected paths become a card."""

import io
import tarfile
import zipfile

import pytest

from tests.support.waiting import until

SECRETS = [
    ".env",
    ".ENV",
    "./.env",
    "sub//.env",
    "sub/.env.production",
    ".ssh/anything",
    "deep/er/.aws/credentials",
    ".docker/config.json",
    "server.key",
    "node_modules/x/.npmrc",
    "config/credentials.json",
]
PROTECTED = [
    ".git/hooks/post-commit",
    ".git/config",
    ".GIT/hooks/x",
    ".git/modules/a/hooks/x",
    ".mcp.json",
    ".github/workflows/x.yml",
    "sub/.github/workflows/x.yml",
    "./.vscode//tasks.json",
    ".vscode/tasks.json",
    "sub/.git/hooks/post-commit",
    "sub/.git",
    ".envrc",
    ".claude/agents/x.md",
    "bare/hooks/post-receive",
    "bare/config",
    "half/HEAD",
]


@pytest.fixture(scope="module")
def files(agent, lead):
    """The key of a workspace with a file at each of those paths that is not protected, and a bare repository."""
    key = agent.create()["key"]
    lead.run(
        key, "git init -q . && git init -q --bare bare && mkdir -p half/objects half/refs other && echo x > other/a"
    )
    lead.run(key, "mkdir -p linked && ln -s ../.env linked/env && ln -s ../.ssh linked/ssh")
    for path in SECRETS:
        lead.call("PUT", f"/workspaces/{key}/files/{path}", b"canary", expect=None)
    lead.post(f"/workspaces/{key}/snapshots")
    return key


def tree(lead, key) -> bytes:
    return lead.run(key, "find . -path ./.git/objects -prune -o -type f -print0 | sort -z | xargs -0 sha256sum")


@pytest.mark.parametrize("path", [*SECRETS, "linked/ssh/anything", ".ssh/", ".ssh"])
@pytest.mark.parametrize("at", ["", "?snapshot=2"])
def test_a_secret_is_not_handed_to_an_agent(agent, files, path, at):
    answer = agent.get(f"/workspaces/{files}/files/{path}{at}", expect=None)
    assert answer.status in (403, 404, 409, 422)
    assert b"canary" not in answer.body
    if not path.startswith("linked"):
        assert (answer.status, answer.json["code"]) == (403, "secret_path")


def test_a_person_reads_it(lead, files):
    assert lead.get(f"/workspaces/{files}/files/.env").body == b"canary"


@pytest.mark.parametrize("at", ["", "&snapshot=2"])
def test_a_zip_leaves_secrets_out_by_name(agent, lead, files, at):
    def names(desk):
        return zipfile.ZipFile(io.BytesIO(desk.get(f"/workspaces/{files}/files/?zip=1{at}").body))

    found = names(agent)
    assert not [name for name in found.namelist() if found.read(name) == b"canary"]
    said = found.read("handrail-left-out.txt").decode()
    for path in (".env", ".ssh", "server.key", "deep/er/.aws"):
        assert f"\n{path}: holds secrets" in said
    whole = names(lead)
    assert len([name for name in whole.namelist() if whole.read(name) == b"canary"]) >= len(SECRETS) - 2


def test_a_patch_an_archive_and_an_artifact_hold_no_secret(agent, lead, files):
    patch = agent.get(f"/workspaces/{files}/patch?from=1&to=live&ignored=1").body
    assert b"canary" not in patch
    assert b"Left out: .env " in patch
    assert b"canary" in lead.get(f"/workspaces/{files}/patch?from=1&to=live&ignored=1").body
    diff = agent.get(f"/workspaces/{files}/diff?from=1&ignored=1", headers={"Accept": "text/x-diff"}).body
    assert b"canary" not in diff
    assert agent.get(f"/workspaces/{files}/snapshots/2/archive", expect=403).json["code"] == "secret_path"
    assert lead.get(f"/workspaces/{files}/snapshots/2/archive").body
    for path in (".env", ".ssh/anything", ".docker/config.json"):
        told = agent.post(f"/workspaces/{files}/artifacts", {"name": "x", "paths": [path]}, expect=403).json
        assert told["code"] == "secret_path"
    kept = lead.post(f"/workspaces/{files}/artifacts", {"name": "y", "paths": [".ssh/anything", "other"]}).json["id"]
    for desk, secrets in ((agent, 0), (lead, 1)):
        found = zipfile.ZipFile(io.BytesIO(desk.get(f"/artifacts/{kept}/zip").body))
        assert len([name for name in found.namelist() if found.read(name) == b"canary"]) == secrets


def test_another_hard_link_of_a_secret_is_secret_too(agent, lead):
    key = agent.create()["key"]
    lead.run(key, "mkdir -p a/b config && echo canary > .env && ln .env a/b/plain.txt && echo 1 > one && ln one two")
    number = lead.post(f"/workspaces/{key}/snapshots").json["number"]
    for at in ("", f"?snapshot={number}"):
        told = agent.get(f"/workspaces/{key}/files/a/b/plain.txt{at}", expect=403)
        assert told.json["code"] == "secret_path"
        assert agent.get(f"/workspaces/{key}/files/two{at}").body == b"1\n"
        assert lead.get(f"/workspaces/{key}/files/a/b/plain.txt{at}").body == b"canary\n"
        whole = agent.get(f"/workspaces/{key}/files/?zip=1{at.replace('?', '&')}").body
        found = zipfile.ZipFile(io.BytesIO(whole))
        assert not [name for name in found.namelist() if b"canary" in found.read(name)]
        assert "\na/b/plain.txt: holds secrets" in found.read("handrail-left-out.txt").decode()
    assert b"canary" not in agent.get(f"/workspaces/{key}/patch?from=1&to=live&ignored=1").body
    for path in ("a", "a/b/plain.txt"):
        wish = {"name": path.replace("/", "-"), "paths": [path]}
        assert agent.post(f"/workspaces/{key}/artifacts", wish, expect=403).json["code"] == "secret_path"
    lead.run(key, "rm .env")
    assert agent.get(f"/workspaces/{key}/files/a/b/plain.txt").body == b"canary\n"


def test_the_evidence_of_its_own_action_shows_an_agent_no_secret(agent, lead, files):
    call = {"tool": "Write", "arguments": {"file_path": "/workspace/.env", "content": "x"}, "workspace": files}
    asked = agent.post("/actions", call).json
    assert b"canary" not in agent.get(f"/actions/{asked['id']}/evidence").body
    assert agent.get(f"/actions/{asked['id']}/evidence").json["diff"] is None
    assert lead.get(f"/actions/{asked['id']}/evidence").json["diff"]["deletions"] == 1


@pytest.mark.parametrize("path", [*PROTECTED, *SECRETS])
def test_writing_a_guarded_path_becomes_a_card(agent, lead, files, path):
    before = tree(lead, files)
    told = agent.call("PUT", f"/workspaces/{files}/files/{path}", b"by an agent", expect=None)
    assert told.status == 202, told.body
    assert told.json["status"] == "pending"
    assert tree(lead, files) == before


@pytest.mark.parametrize("path", [".git/hooks", ".git", ".env", ".ssh", "sub", "deep", "bare/hooks", "deep/er"])
def test_deleting_one_or_a_folder_with_one_becomes_a_card(agent, lead, files, path):
    before = tree(lead, files)
    assert agent.call("DELETE", f"/workspaces/{files}/files/{path}", expect=202).json["status"] == "pending"
    assert tree(lead, files) == before


def test_other_files_are_written_and_deleted_unasked(agent, files):
    agent.call("PUT", f"/workspaces/{files}/files/src/plain.py", b"x", expect=201)
    agent.call("PUT", f"/workspaces/{files}/files/.git/description", b"x", expect=None)
    agent.call("PUT", f"/workspaces/{files}/files/config/settings.py", b"x", expect=201)
    agent.call("DELETE", f"/workspaces/{files}/files/src", expect=200)


def test_an_approved_write_is_carried_out(agent, lead, files):
    path = f"/workspaces/{files}/files/.github/workflows/approved.yml"
    asked = agent.call("PUT", path, b"on: push\n", expect=202).json["action"]
    lead.post(f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]}, expect=200)
    until(lambda: agent.get(f"/actions/{asked['id']}").json["status"] == "succeeded")
    assert lead.get(path).body == b"on: push\n"


def test_a_restore_that_rewrites_a_guarded_path_becomes_a_card(agent, lead):
    key = agent.create()["key"]
    lead.run(key, "git init -q . && echo a > plain")
    first = lead.post(f"/workspaces/{key}/snapshots").json["number"]
    lead.run(key, "echo b > plain")
    agent.post(f"/workspaces/{key}/snapshots/{first}/restore", expect=202)
    agent.settled(key)
    assert lead.run(key, "cat plain") == b"a\n"
    lead.run(key, "echo b > plain; echo true > .git/hooks/pre-commit; echo KEY=1 > .env")
    before = tree(lead, key)
    for path in (f"snapshots/{first}/restore", "reset"):
        assert agent.post(f"/workspaces/{key}/{path}", expect=202).json["status"] == "pending"
    named = {"paths": [".git/hooks"]}
    assert agent.post(f"/workspaces/{key}/snapshots/{first}/restore", named, expect=202).json["status"] == "pending"
    assert tree(lead, key) == before
    agent.post(f"/workspaces/{key}/snapshots/{first}/restore", {"paths": ["plain"]}, expect=202)
    agent.settled(key)
    assert lead.run(key, "cat plain") == b"a\n"


def test_a_revision_that_rewrites_a_guarded_path_is_refused(agent, lead):
    def upload(**files):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        return agent.call("POST", "/uploads", out.getvalue(), expect=201).json["id"]

    key = agent.create(source={"upload": upload(plain=b"1")})["key"]
    wish = {"upload": upload(**{"plain": b"2", ".mcp.json": b"{}"})}
    told = agent.post(f"/workspaces/{key}/revisions", wish, expect=409).json
    assert "A person has to take this revision" in told["detail"]
    assert lead.run(key, "cat plain; test ! -e .mcp.json") == b"1"
    agent.post(f"/workspaces/{key}/revisions", {"upload": upload(plain=b"3")})
    lead.post(f"/workspaces/{key}/revisions", wish, expect=None)
