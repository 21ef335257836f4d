"""Page, API, patch, timeline and manifest name the same changed paths and count the same lines, for any two trees."""

import base64
import os
import random
import re
import shutil
import stat
import subprocess
from html import unescape
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pages.changed_trees import (
    ANY_TREES,
    EMPTY_FOLDER,
    SCRIPT,
    WITH_KEEP,
    build,
    changed,
    expected,
    flat,
    numstat,
    trees,
)
from tests.pages.conftest import make_workspace
from tests.pages.test_changes import keep
from workspaces.changes import changed_lines, history, ignored
from workspaces.changes.comparisons import Point, compare
from workspaces.host import paths
from workspaces.manifests import git_state
from workspaces.services.file_versions import versions_of
from workspaces.store import LocalTree, Store
from workspaces.store.objects import FOLDER

HERE = "/w/payments/reviewed/changes/"


def patched(patch: bytes, old: Path, new: Path):
    """Apply the patch to the old tree, and compare what git has a form for with the new one."""
    subprocess.run(["git", "init", "-q"], cwd=old, check=True)
    subprocess.run(["git", "apply", "--unsafe-paths", "-"], cwd=old, input=patch, check=True)
    shutil.rmtree(old / ".git")
    assert of_git(old) == of_git(new)


def of_git(root: Path) -> dict:
    found = {}
    for place, folders, names in os.walk(os.fsencode(root)):
        for name in [*names, *(name for name in folders if os.path.islink(place + b"/" + name))]:
            path = place + b"/" + name
            seen = os.lstat(path)
            is_link = stat.S_ISLNK(seen.st_mode)
            content = os.readlink(path) if is_link else Path(os.fsdecode(path)).read_bytes()
            found[os.path.relpath(path, os.fsencode(root))] = (is_link or bool(seen.st_mode & 0o100), content)
    return found


def names_in(patch: bytes) -> set[bytes]:
    """Return the paths that a patch changes, and those that its comments name."""
    comments, *parts = re.split(rb"^diff --git ", patch, flags=re.M)
    found = {unquoted(line.removeprefix(b"#   ")) for line in comments.split(b"\n") if line.startswith(b"#   ")}
    for part in parts:
        both = part.partition(b"\n")[0]
        if moved := re.findall(rb"^rename (?:from|to) (.*)$", part, re.M):
            found |= {unquoted(name) for name in moved}
        else:  # both names are the same
            found.add(unquoted(both[: len(both) // 2]).removeprefix(b"a/"))
    return found


def unquoted(text: bytes) -> bytes:
    """Return a path at the beginning of a line, C-quoted or up to a colon."""
    if not text.startswith(b'"'):
        return text.partition(b": ")[0]
    inside = re.match(rb'"((?:[^"\\]|\\.)*)"', text)[1]
    simple = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
    escape = re.compile(rb"\\([0-7]{3}|.)", re.S)
    return escape.sub(lambda m: bytes([int(m[1], 8)]) if len(m[1]) == 3 else simple.get(m[1], m[1]), inside)


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Everything is compared, however busy the machine is."""
    monkeypatch.setattr(git_state, "SECONDS", 100)
    monkeypatch.setattr(ignored, "SECONDS", 100)


@pytest.fixture
def workspace(team, agent):
    Store.create(paths.store_of(team.pk))
    return make_workspace(team, agent, "reviewed")


@pytest.fixture
def named_everywhere(workspace, client, agent_token, browser_of, alice, tmp_path):
    """`named_everywhere(old, new)`: compare two trees in every way there is."""
    browser, numbers = browser_of(alice), iter(range(10**6))

    def look(old: dict, new: dict):
        place = tmp_path / str(next(numbers))
        place.mkdir()
        trees = []
        for number, (name, tree) in enumerate({"old": old, "new": new}.items(), 1):
            build(os.fsencode(place / name), tree)
            build(os.fsencode(place / f"git-{name}"), tree, git_only=True)
            trees.append(keep(workspace, number, place / name))
        try:
            agree(workspace, client, agent_token, browser, place, trees, (old, new))
        finally:
            shutil.rmtree(place)

    return look


def agree(workspace, client, agent_token, browser, place, trees, contents):
    wanted = expected(*contents)
    store = Store.open(paths.store_of(workspace.team_id))
    rows = history.rows_of(store, tuple(trees))
    history.count_rows(store, rows, 20)
    assert {name for row in rows for name in (row.path, row.old_path) if name} == wanted
    answer = client.get(
        "/api/v1/workspaces/reviewed/diff?from=1&to=2", headers={"Authorization": f"Bearer {agent_token}"}
    ).json()
    implied = [change for change in answer["changes"] if change["implied"]]
    assert all(change["old_type"] in (None, "folder") and change["new_type"] in (None, "folder") for change in implied)
    answer["changes"] = [change for change in answer["changes"] if not change["implied"]]
    assert [raw(change, "path") for change in answer["changes"]] == [row.path for row in rows]
    counts = numstat(place / "git-old", place / "git-new")
    for change in answer["changes"]:
        if change["kind"] == "renamed":
            assert (change["additions"], change["deletions"]) == (0, 0)
            counts.pop(raw(change, "path"), None)
            counts.pop(raw(change, "old_path"), None)
            continue
        counted = counts.pop(raw(change, "path"), (0, 0))
        assert (change["additions"], change["deletions"]) == tuple(number or 0 for number in counted), change
        if change["kind"] != "mode":  # git does not look into a file whose content is the same
            assert change["binary"] == (None in counted)
        assert change["facts"] or counted != (0, 0) or change["kind"] in ("added", "removed", "modified"), change
    assert set(counts) == set()
    total = answer.get("total", {"files": 0, "additions": 0, "deletions": 0, "are_all": True})
    assert total == {
        "files": len(rows),
        "additions": sum(change["additions"] for change in answer["changes"]),
        "deletions": sum(change["deletions"] for change in answer["changes"]),
        "are_all": True,
    }
    assert tuple(changed_lines.between(workspace.team_id, *trees)) == (
        total["additions"], total["deletions"], total["files"], True,
    )  # fmt: skip
    on_page(browser, wanted, total)
    in_history(workspace, rows, contents)
    in_manifest(place, contents, wanted)
    patch = b"".join(compare(Point(workspace, 1), Point(workspace, 2)).patch())
    assert names_in(patch) == wanted
    if b"diff --git" in patch:
        patched(patch, place / "git-old", place / "git-new")


def raw(change: dict, name: str) -> bytes:
    return base64.b64decode(change[f"{name}_b64"]) if f"{name}_b64" in change else change[name].encode()


def on_page(browser, wanted: set[bytes], total: dict):
    html = browser.get(f"{HERE}?from=1&to=2").content.decode("utf-8", "surrogateescape")
    if not wanted:
        assert "Nothing changed between" in html
        return
    found, pages = set(), [html]
    while pages:
        page = pages.pop()
        for query in re.findall(r'(?:action="[^"]*/seen/|hx-get="[^"]*/file/|<li><a href=")\?([^"]*)"', page):
            fields = dict(part.partition("=")[::2] for part in unescape(query).split("&"))
            found |= {unquote_to_bytes(fields[name].replace("+", " ")) for name in ("path", "old") if name in fields}
        more = re.findall(r'href="([^"]*)">More files<', page)
        more += re.findall(r'<p class="diff-note">\s*<a href="(\?[^"]*&amp;under=[^"]*)"', page)
        for address in more:
            pages.append(browser.get(f"{HERE}{unescape(address)}").content.decode("utf-8", "surrogateescape"))
    assert found == wanted
    heading = html.partition('id="changed-files">')[2].partition("</div>")[0]
    said = " ".join(re.sub(r"<[^>]*>", " ", heading).split())
    assert said.startswith("1 file" if total["files"] == 1 else f"{total['files']} files")
    for sign, number in (("+", total["additions"]), ("−", total["deletions"])):
        assert (f"{sign}{number}" in said.split()) == bool(number)
    assert "at least" not in said


def in_history(workspace, rows, trees):
    """The newest version of a file is the one of snapshot 2 if it is in the list, and has the lines of the list."""
    named = {name for row in rows for name in (row.path, row.old_path)}
    for row in rows:
        for path, side in ((row.old_path or row.path, row.change.old), (row.path, row.change.new)):
            if side is None or side.kind == FOLDER:
                continue
            version = versions_of(workspace, path, 2)[0]
            assert (version.snapshot.number, version.path) == (2, path)
            if row.kind == "renamed":
                assert (version.kind, version.old_path) in (("renamed", row.old_path), ("removed", path))
            else:
                assert (version.additions, version.deletions) == (row.additions, row.deletions)
    for path in flat(trees[0]).keys() & flat(trees[1]).keys() - named:
        if flat(trees[1])[path][0] != "folder":
            assert versions_of(workspace, path, 2)[0].snapshot.number == 1


def in_manifest(place: Path, trees, wanted: set[bytes]):
    """`dirty` names the paths of the list that git has a form for, once the new tree is where the old was committed."""
    repository, later = place / "repository", place / "later"
    build(os.fsencode(repository), trees[0], git_only=True)
    before, identity = of_git(repository), ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    for command in (["init", "-q"], ["add", "-A", "."], ["commit", "-q", "--allow-empty", "-m", "old"]):
        subprocess.run(["git", *identity, *command], cwd=repository, check=True)
    for entry in [entry for entry in repository.iterdir() if entry.name != ".git"]:
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    build(os.fsencode(later), trees[1], git_only=True)
    after = of_git(later)
    for entry in later.iterdir():
        entry.rename(repository / entry.name)
    status = [
        "git",
        "status",
        "--porcelain",
        "-z",
        "--no-renames",
        "-uall",
    ]  # without -uall, git omits a folder in a file's place
    by_git = {line[3:] for line in subprocess.check_output(status, cwd=repository).split(b"\0") if line}
    with LocalTree(repository).files() as files:
        told = git_state.dirty_of(files, git_state.git_of(files)[0]["sha"])
    named = {raw(file, "path") for file in told["files"]}
    assert (told["count"], told["cut_off"]) == (len(named), "")
    folders = tuple(path for path in named if path.endswith(b"/"))  # one line for all that came in a folder
    inside = {path for path in after if folders and path.startswith(folders)}
    differs = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert named - set(folders) | inside == by_git == differs
    assert differs <= wanted


@ANY_TREES
@given(old=trees, new=trees)
def test_all_name_the_same_paths(named_everywhere, old, new):
    named_everywhere(old, new)


@ANY_TREES
@given(old=trees, seed=st.integers(0, 10**6))
def test_all_name_the_same_paths_of_a_tree_that_was_changed_a_little(named_everywhere, old, seed):
    named_everywhere(old, changed(old, random.Random(seed)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({b"gate": SCRIPT, b"current": ("link", b"prod")}, {b"gate": WITH_KEEP, b"current": WITH_KEEP}),
        ({b"gate": WITH_KEEP}, {b"gate": SCRIPT}),
        ({b"gate": SCRIPT}, {b"gate": EMPTY_FOLDER}),
        ({b"gate": ("fifo",)}, {b"gate": WITH_KEEP}),
        ({b"gate": ("socket",)}, {b"gate": SCRIPT}),
        ({b"d": WITH_KEEP}, {b"d": ("folder", {b"x": SCRIPT}, 0o1777)}),
        ({b"d": ("folder", {b"x": SCRIPT}, 0o755)}, {b"e": ("folder", {b"x": SCRIPT}, 0o2755)}),
        ({b"f": ("file", b"a\nb\nc", 0o644, None)}, {b"f": ("file", b"a\nb\nc\n", 0o644, None)}),
        ({b"f": ("file", b"a", 0o644, None)}, {b"f": ("file", b"a", 0o664, None)}),
    ],
)
def test_all_name_a_path_of_another_type(named_everywhere, old, new):
    named_everywhere(old, new)


@pytest.fixture
def page_of(workspace, browser_of, alice, tmp_path):
    """`page_of(old, new)`: the page of the changes from one tree to the other."""

    def show(old: dict, new: dict, more: str = "") -> str:
        for number, (name, tree) in enumerate({"first": old, "second": new}.items(), 1):
            build(os.fsencode(tmp_path / name), tree)
            keep(workspace, number, tmp_path / name)
        return browser_of(alice).get(f"{HERE}?from=1&to=2{more}").content.decode()

    return show


@pytest.mark.parametrize("view", ["unified", "split"])
def test_the_line_without_a_newline_is_marked(page_of, view):
    old, new = ({b"f": ("file", text, 0o644, None)} for text in (b"a\nb\nc", b"a\nb\nc\n"))
    page = page_of(old, new, f"&view={view}")
    assert page.count('<span class="no-newline">No newline at end of file</span>') == 1
    lacking = re.search(r"<tr.*?no-newline.*?</tr>", page.partition('<table class="diff-lines')[2], re.S)[0]
    assert "removed" in lacking.rpartition("<tr")[2]


def test_a_long_file_with_few_changes_is_shown_with_its_parts(page_of):
    lines = [b"line %d\n" % number for number in range(60_000)]
    changed = [b"new\n" if number in (3, 20_000, 40_000, 59_990) else line for number, line in enumerate(lines)]
    old, new = ({b"lock": ("file", b"".join(each), 0o644, None)} for each in (lines, changed))
    page = page_of(old, new, "&path=lock")
    assert "Too " not in page
    assert page.count("Restore this part") == 4
    assert 'data-digits="5"' in page  # of its line numbers, which have to fit on one line
    assert len(re.findall(r'<tr class="added">', page)) == len(re.findall(r'<tr class="removed">', page)) == 4


def test_modes_types_and_attributes_are_shown(page_of, tmp_path):
    old = {b"same": ("file", b"x\n", 0o644, None), b"f": ("file", b"x\n", 0o644, None)}
    new = {
        b"same": ("file", b"x\n", 0o644, b"1"),
        b"f": ("link", b"elsewhere"),
        b"su": ("file", b"x\n", 0o4755, None),
        b"run": ("file", b"x\n", 0o755, None),
        b"pipe": ("fifo",),
        b"sock": ("socket",),
    }
    page = page_of(old, new)
    chips = " ".join(re.findall(r'<span class="chip"[^>]*>([^<]*)</span>', page))
    for words in (
        "became a symbolic link", "setuid", "executable", "named pipe", "socket", "attribute user.mark added",
    ):  # fmt: skip
        assert words in chips
    assert not {"type", "mode"} & set(re.findall(r'<span class="chip"[^>]*>([^<]*)</span>', page))  # said once
    sock = page.partition('aria-label="sock"')[2].partition("</section>")[0]
    assert ("Restore this file from snapshot 2" in sock, "It has no lines." in sock) == (False, True)


def test_lines_that_are_not_counted_are_unknown_and_the_sum_is_at_least(page_of, client, agent_token):
    huge = b"".join(b"%d\n" % number for number in range(1_500_000))
    old, new = (
        {b"huge": ("file", each, 0o644, None), b"small": ("file", each[:2], 0o644, None)}
        for each in (huge, b"x\n" + huge)
    )
    page = page_of(old, new)
    heading = page.partition('id="changed-files">')[2].partition("</div>")[0]
    assert "at least" in heading
    answer = client.get(
        "/api/v1/workspaces/reviewed/diff?from=1&to=2", headers={"Authorization": f"Bearer {agent_token}"}
    ).json()
    counted = {change["path"]: (change["additions"], change["deletions"]) for change in answer["changes"]}
    assert counted == {"huge": (None, None), "small": (1, 1)}
    assert answer["total"] == {"files": 2, "additions": 1, "deletions": 1, "are_all": False}
