"""Each verb whose declaration names protected or secret paths, tried at one: what it declares is what happens."""

import io
import re
import tarfile
import zipfile

import pytest

from dashboard.door.table import VERBS
from dashboard.door.verb import GATE

E2B = {  # tests/approvals/protocols/e2b/test_held.py
    "GET /e2b/envd/files",
    "POST /e2b/envd/files",
    "POST /e2b/envd/filesystem.Filesystem/Remove",
}
SECRET, PROTECTED = ".env", ".git/hooks/post-commit"
DIFF = {"Accept": "text/x-diff"}
GUARDED = {name: verb for name, verb in VERBS.items() if verb.protected or verb.secrets}
BY_THE_GATE = {name for name, verb in GUARDED.items() if verb.interrupted == GATE}  # judged by the policy, as calls are


def upload(agent, names=(PROTECTED, ".mcp.json")) -> str:
    """The id of an upload with files at protected paths."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"new"))
    return agent.call("POST", "/uploads", out.getvalue(), expect=201).json["id"]


# How each verb is asked for what such a path holds, or to change it: (path or query, body, headers).
SECRETS = {
    "GET /workspaces/{key}/files/": ("?zip=1", None, {}),
    "GET /workspaces/{key}/files/{path}": ("", None, {}),
    "GET /workspaces/{key}/diff": ("?from=1&to=live&ignored=1", None, DIFF),
    "GET /workspaces/{key}/patch": ("?from=1&to=live&ignored=1", None, {}),
    "GET /artifacts/{artifact_id}/zip": ("", None, {}),
    "GET /workspaces/{key}/search": (f"?path={SECRET}&pattern=canary", None, {}),
    "POST /workspaces/{key}/query": ("", {"path": SECRET, "sql": "SELECT text FROM file", "format": "lines"}, {}),
    "GET /workspaces/{key}/snapshots/{n}/archive": ("", None, {}),
    "PUT /workspaces/{key}/files/{path}": ("", b"new", {}),
    "DELETE /workspaces/{key}/files/{path}": ("", None, {}),
}
PROTECTS = {
    "PUT /workspaces/{key}/files/{path}": ("", b"new", {}),
    "DELETE /workspaces/{key}/files/{path}": ("", None, {}),
    "POST /workspaces/{key}/reset": ("", None, {}),
    "POST /workspaces/{key}/return": ("", {"choice": "snapshot", "snapshot": 1}, {}),
    "POST /workspaces/{key}/snapshots/{n}/restore": ("", {}, {}),
    "POST /workspaces/{key}/revisions": ("", upload, {}),
    "POST /workspaces/{key}/rebase": None,  # only of clones: tests/workspaces/test_git_revisions.py
    "POST /checkpoints/{checkpoint_id}/restore": None,  # only of microVMs: tests/workspaces/microvm
}


class Ground:
    """A workspace with a secret and a hook that came after its first snapshots, and an artifact with the secret."""

    def __init__(self, agent, lead):
        self.agent, self.lead = agent, lead
        self.key = agent.create(source={"upload": self._plain()})["key"]
        self.first = lead.post(f"/workspaces/{self.key}/snapshots").json["number"]
        lead.run(self.key, f"git init -q . && echo canary > {SECRET} && echo true > {PROTECTED}")
        self.second = lead.post(f"/workspaces/{self.key}/snapshots").json["number"]
        kept = {"name": "kept", "paths": [SECRET]}
        self.artifact = lead.post(f"/workspaces/{self.key}/artifacts", kept).json["id"]

    def _plain(self) -> str:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w") as archive:
            archive.addfile(tarfile.TarInfo("plain"), io.BytesIO())
        return self.agent.call("POST", "/uploads", out.getvalue(), expect=201).json["id"]

    def ask(self, name: str, path: str, asked: tuple):
        method, address = name.split(" ")
        query, body, headers = asked
        number = self.second if address.endswith("/archive") else self.first
        parts = {"key": self.key, "path": path, "n": str(number), "artifact_id": self.artifact}
        address = re.sub(r"\{(\w+)\}", lambda found: parts[found[1]], address)
        body = {"upload": body(self.agent)} if callable(body) else body
        return self.agent.call(method, address + query, body, expect=None, headers=headers)

    def files(self) -> bytes:
        return self.lead.run(self.key, f"cat {SECRET} {PROTECTED}; ls -A")


@pytest.fixture(scope="module")
def ground(agent, lead):
    return Ground(agent, lead)


def test_each_verb_that_declares_such_paths_is_tried():
    assert {name for name, verb in GUARDED.items() if verb.secrets} - BY_THE_GATE - E2B == SECRETS.keys()
    assert {name for name, verb in GUARDED.items() if verb.protected} - BY_THE_GATE - E2B == PROTECTS.keys()


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_path(ground, name):
    before, told = ground.files(), ground.ask(name, SECRET, SECRETS[name])
    words = VERBS[name].secrets
    if words == "asks":
        assert (told.status, told.json["status"]) == (202, "pending")
    elif "left out" in words and "{path}" not in name:
        assert told.status == 200
        assert b"left out" in told.body.lower() or b"handrail-left-out.txt" in told.body
        if told.body.startswith(b"PK"):
            found = zipfile.ZipFile(io.BytesIO(told.body))
            assert not [each for each in found.namelist() if b"canary" in found.read(each)]
    else:
        assert (told.status, told.json["code"]) == (403, "secret_path")
    assert b"canary" not in told.body
    assert ground.files() == before


@pytest.mark.parametrize("name", [name for name, asked in PROTECTS.items() if asked])
def test_a_protected_path(ground, name):
    before = ground.files()
    if name.endswith("/return"):
        ground.lead.post(f"/workspaces/{ground.key}/stop", expect=202)
        ground.lead.settled(ground.key)
    told = ground.ask(name, PROTECTED, PROTECTS[name])
    if name.endswith("/return"):
        ground.lead.post(f"/workspaces/{ground.key}/resume", expect=202)
        ground.lead.settled(ground.key)
    if VERBS[name].protected == "asks":
        assert (told.status, told.json["status"]) == (202, "pending"), told.body
    else:
        assert told.status == 409
        assert "A person has to" in told.json["detail"]
    assert ground.files() == before


def test_a_revision_leaves_git_s_own_files_alone(ground):
    before = ground.files()
    wish = {"upload": upload(ground.agent, [PROTECTED, "plain"])}
    ground.agent.post(f"/workspaces/{ground.key}/revisions", wish, expect=None)
    ground.lead.settled(ground.key)
    assert ground.files() == before
