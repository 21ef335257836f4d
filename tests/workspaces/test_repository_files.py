"""What a repository says about its set-up is read at creation and shown; nothing of it runs unless a lead saves it."""

import os
import subprocess

import pytest

from tests.support.visitor import Visitor

HANDRAIL = """
setup = "touch made-by-handrail-toml"
ignore = ["cache/"]
policy = "policy.toml"
surprise = 1
[checks]
tests = "make test"
"""


@pytest.fixture
def source(repository):
    """The path of a repository with files of several products; one of them is faulty in part."""
    path = repository[0]
    files = {
        "handrail.toml": HANDRAIL,
        ".devcontainer/devcontainer.json": '{"postCreateCommand": "touch made-by-devcontainer", "privileged": true}',
        "package.json": "{}",
        "package-lock.json": "{}",
        "conductor.json": "not json",
    }
    for name, text in files.items():
        (path / name).parent.mkdir(exist_ok=True)
        (path / name).write_text(text)
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-C", str(path)]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "files"], check=True)
    return path


def test_a_set_up_is_offered_and_a_lead_confirms_it(product, desk, source):
    lead = Visitor.named(product, "lead-of-repository-files", "lead")
    name = f"suggested-{os.urandom(4).hex()}"
    wish = {"team": "main", "name": name, "driver": "sandbox", "checks": "mine = true", "setup": ""}
    lead.post("/environments/new/", wish, at="/environments/new/")
    key = desk.create(environment=name, source={"git": str(source)})["key"]
    assert desk.run(key, "ls") == b"calc.py\nconductor.json\nhandrail.toml\npackage-lock.json\npackage.json\n"
    files = {file["path"]: file for file in desk.get(f"/workspaces/{key}/repository-files").json["files"]}
    assert list(files) == ["handrail.toml", ".devcontainer/devcontainer.json", "conductor.json", "package.json"]
    own = files["handrail.toml"]
    assert own["errors"] == [
        "surprise: there is no such key; there are environment, setup, checks, ignore, policy, agents."
    ]
    assert own["policy"] == "policy.toml"
    assert own["fields"] == {
        "setup": "touch made-by-handrail-toml\n",
        "checks": {"tests": "make test"},
        "snapshot_ignore": "cache/\n",
    }
    assert files["package.json"]["fields"] == {"setup": "npm ci\n"}
    assert any(words.startswith("privileged: ") for words in files[".devcontainer/devcontainer.json"]["notes"])
    assert files["conductor.json"]["errors"]

    assert "handrail.toml, conductor.json could not be read in full" in " ".join(lead.get(f"/w/main/{key}/").split())
    page = lead.get(f"/w/main/{key}/suggested/").replace("&amp;", "&")
    link = next(part for part in page.split('"') if part.endswith("file=handrail.toml"))
    form = lead.get(link)
    assert "touch made-by-handrail-toml" in form
    assert "tests = make test" in form
    assert "mine = true" in form
    watcher = Visitor.named(product, "viewer-of-repository-files", "viewer")
    assert "environment's form…" not in watcher.get(f"/w/main/{key}/suggested/")

    wish = {"driver": "sandbox", "setup": "touch made-by-handrail-toml\n", "checks": "tests = make test"}
    lead.post(link.partition("?")[0], wish, at=link)
    second = desk.create(environment=name, source={"git": str(source)})["key"]
    assert b"made-by-handrail-toml" in desk.run(second, "ls")
