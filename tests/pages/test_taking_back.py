"""Parts of a change are taken back, forked, and leave, through the pages of the live product."""

import html
import re
import subprocess

import pytest

from tests.support.desk import Desk
from tests.support.visitor import Visitor
from tests.support.waiting import until


@pytest.fixture(scope="module")
def lead(product):
    return Visitor.named(product, "lead-of-parts", "lead")


@pytest.fixture(scope="module")
def viewer(product):
    return Visitor.named(product, "viewer-of-parts", "viewer")


@pytest.fixture
def workspace(product):
    """A workspace whose file differs from snapshot 2 in two places; its key and the lead's token."""
    token = product.person_token("lead-of-parts", "lead")
    key = f"parts-{product.post('/api/v1/uploads', token, b'x').json['id'][-8:]}"
    product.post("/api/v1/workspaces", token, {"key": key})
    while product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"]:
        pass
    old = "".join(f"line {number}\n" for number in range(1, 41))
    product.call("PUT", f"/api/v1/workspaces/{key}/files/text", token, old.encode())
    product.call("PUT", f"/api/v1/workspaces/{key}/files/other", token, b"other\n")
    product.post(f"/api/v1/workspaces/{key}/snapshots", token)
    new = old.replace("line 3\n", "line three\n").replace("line 30\n", "line thirty\nline more\n")
    product.call("PUT", f"/api/v1/workspaces/{key}/files/text", token, new.encode())
    product.call("DELETE", f"/api/v1/workspaces/{key}/files/other", token)
    return key, token


def read(product, workspace, name) -> str:
    key, token = workspace
    return product.get(f"/api/v1/workspaces/{key}/files/{name}", token).text


def parts(page) -> list[dict]:
    """The hidden fields of each form that puts a part back, each once."""
    forms = re.findall(r'<form class="inline-form".*?</form>', page, re.S)
    found = [dict(re.findall(r'name="(from|path|index|seen)" value="([^"]*)"', form)) for form in forms]
    return list({fields["index"]: fields for fields in found}.values())


def test_one_part_of_a_file_is_undone_and_the_other_stays(product, lead, workspace):
    at = f"/w/main/{workspace[0]}/changes/?from=2&to=live"
    found = parts(lead.get(at))
    assert len(found) == 2
    lead.post(f"/w/main/{workspace[0]}/changes/back/part/", found[0], at=at)
    text = read(product, workspace, "text")
    assert "line 3\n" in text
    assert "line thirty\nline more\n" in text
    lead.post(f"/w/main/{workspace[0]}/changes/back/part/", parts(lead.get(at))[0], at=at)
    assert read(product, workspace, "text") == "".join(f"line {number}\n" for number in range(1, 41))


@pytest.mark.parametrize(("old", "new"), [("a\nb\nend", "a\nb\nend\n"), ("a\nb\nend\n", "a\nb\nend")])
def test_a_part_that_is_only_the_last_newline_goes_back(product, lead, workspace, old, new):
    key, token = workspace
    product.call("PUT", f"/api/v1/workspaces/{key}/files/newline", token, old.encode())
    product.post(f"/api/v1/workspaces/{key}/snapshots", token)
    product.call("PUT", f"/api/v1/workspaces/{key}/files/newline", token, new.encode())
    at = f"/w/main/{key}/changes/?from=3&to=live&path=newline"
    page = lead.get(at)
    assert page.count("No newline at end of file") == 1
    lead.post(f"/w/main/{key}/changes/back/part/", parts(page)[0], at=at)
    assert read(product, workspace, "newline") == old


def test_a_file_that_changed_meanwhile_is_left_alone(product, lead, workspace):
    key, token = workspace
    at = f"/w/main/{key}/changes/?from=2&to=live"
    found = parts(lead.get(at))
    product.call("PUT", f"/api/v1/workspaces/{key}/files/text", token, b"something else\n")
    said = lead.post(f"/w/main/{key}/changes/back/part/", found[0], at=at)
    assert "has changed since you looked" in html.unescape(said)
    assert read(product, workspace, "text") == "something else\n"


def test_a_part_goes_back_in_a_workspace_that_is_paused(product, lead, workspace):
    key, token = workspace
    product.post(f"/api/v1/workspaces/{key}/pause", token)
    while product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"]:
        pass
    at = f"/w/main/{key}/changes/?from=2&to=live"
    said = lead.post(f"/w/main/{key}/changes/back/part/", parts(lead.get(at))[0], at=at)
    assert "Reverted." in html.unescape(said)
    text = read(product, workspace, "text")
    assert ("line 3\n" in text, "line thirty\n" in text) == (True, True)


def test_no_part_is_offered_where_the_workspace_is_stopped(product, lead, workspace):
    key, token = workspace
    product.post(f"/api/v1/workspaces/{key}/stop", token)
    while product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"]:
        pass
    page = lead.get(f"/w/main/{key}/changes/?from=2&to=live")
    assert (parts(page), "Restore this file from snapshot" in page) == ([], True)


def test_a_renamed_file_goes_back_to_its_name(product, lead, workspace):
    key, token = workspace
    product.post(f"/api/v1/workspaces/{key}/snapshots", token)
    run = product.post(f"/api/v1/workspaces/{key}/commands", token, {"command": "mv text moved"}).json["id"]
    while product.get(f"/api/v1/commands/{run}?wait=5", token).json["state"] != "settled":
        pass
    at = f"/w/main/{key}/changes/?from=3&to=live"
    form = re.search(r'<form class="diff-back".*?</form>', lead.get(at), re.S)[0]
    fields = re.findall(r'name="(from|path)" value="([^"]*)"', form)
    assert fields == [("from", "3"), ("path", "moved"), ("path", "text")]
    lead.post(f"/w/main/{key}/changes/back/", fields, at=at)
    while product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"]:
        pass
    names = [entry["name"] for entry in product.get(f"/api/v1/workspaces/{key}/files/", token).json["entries"]]
    assert ("text" in names, "moved" in names) == (True, False)


def test_one_file_is_restored_and_the_other_stays(product, lead, workspace):
    key, token = workspace
    at = f"/w/main/{key}/changes/?from=2&to=live"
    lead.post(f"/w/main/{key}/changes/back/", {"from": "2", "path": "other"}, at=at)
    while product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"]:
        pass
    assert read(product, workspace, "other") == "other\n"
    assert "line three" in read(product, workspace, "text")


def test_a_viewer_sees_the_change_and_no_button(viewer, workspace):
    page = viewer.get(f"/w/main/{workspace[0]}/changes/?from=2&to=live")
    assert "line three" in re.sub(r"</?ins>", "", page)
    assert parts(page) == []
    assert "/changes/back/" not in page


def test_a_fork_from_the_snapshots_page(product, lead, workspace):
    key, token = workspace
    page = lead.post(f"/w/main/{key}/snapshots/2/fork/", {"key": f"{key}-fork"})
    assert f"{key}-fork" in page
    while product.get(f"/api/v1/workspaces/{key}-fork?wait=5", token).json["busy"]:
        pass
    assert read(product, (f"{key}-fork", token), "other") == "other\n"
    assert "is already used" in html.unescape(lead.post(f"/w/main/{key}/snapshots/2/fork/", {"key": f"{key}-fork"}))
    assert "Use lower-case letters" in html.unescape(lead.post(f"/w/main/{key}/snapshots/2/fork/", {"key": "No Name"}))


def test_a_push_from_the_changes_page(product, lead, tmp_path):
    path = product.sources / f"repo-{tmp_path.name}"
    subprocess.run(["git", "init", "-q", "-b", "main", str(path)], check=True)
    commit = ["git", "-c", "user.name=T", "-c", "user.email=t@e", "commit", "-q", "--allow-empty", "-m", "one"]
    subprocess.run(commit, cwd=path, check=True)
    token, key = product.person_token("lead-of-parts", "lead"), f"push-{tmp_path.name.replace('_', '-').lower()}"[:60]
    product.post("/api/v1/workspaces", token, {"key": key, "source": {"git": str(path)}})
    while product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"]:
        pass
    desk = Desk(product, token)
    desk.run(key, "git -c user.name=T -c user.email=t@e commit -q --allow-empty -m two")
    at = f"/w/main/{key}/export/"
    shown = dict(re.findall(r'name="(sha|seen)" value="([^"]*)"', lead.get(at)))
    lead.post(f"/w/main/{key}/push/", {"branch": "from-page", **shown}, at=at)
    pushes = product.get(f"/api/v1/workspaces/{key}/operations", token).json["operations"]
    [push] = [operation["id"] for operation in pushes if operation["kind"] == "push"]
    until(lambda: "Pushed" in lead.get(f"{at}?operation={push}"))
    branches = subprocess.run(["git", "branch"], cwd=path, capture_output=True, text=True, check=True).stdout
    assert "from-page" in branches


def test_gits_own_files_come_last_and_folded(product, lead, workspace):
    key, token = workspace
    for name in (".git/HEAD", ".git/logs/HEAD", "zz.txt"):
        product.call("PUT", f"/api/v1/workspaces/{key}/files/{name}", token, b"one line\n")
    changes = product.get(f"/api/v1/workspaces/{key}/diff?from=2&to=live", token).json["changes"]
    assert [change["path"] for change in changes] == [
        "other",
        "text",
        "zz.txt",
        ".git",
        ".git/HEAD",
        ".git/logs",
        ".git/logs/HEAD",
    ]
    page = lead.get(f"/w/main/{key}/changes/?from=2&to=live")
    assert '<h2 id="changed-files"> 3 files </h2>' in page
    assert "internal git file" in page
    shown = re.findall(r'<section class="diff" aria-label="([^"]+)"', page)
    assert shown == ["other", "text", "zz.txt"]
    one = lead.get(f"/w/main/{key}/changes/?from=2&to=live&path=.git/HEAD")
    assert re.findall(r'<section class="diff" aria-label="([^"]+)"', one) == [".git/HEAD"]
