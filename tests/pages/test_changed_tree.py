"""The changed files as a tree: folders with counts, a folder that is gone as one row, no empty sides."""

import re

import pytest

from tests.pages.conftest import keep_tree, make_workspace
from tests.pages.test_changes import listed, sections
from workspaces.changes.changed_tree import Folder, tree_of
from workspaces.models import SeenFile

HERE = "/w/payments/reviewed/changes/"
PAIR = "?from=1&to=2"
GONE = {f"old/part-{number % 7}/file-{number}.py": f"x = {number}\n" for number in range(317)}
BEFORE = {"lib/one.py": "1\n", "lib/two.py": "2\n", "docs/plan": "a file\n", "stays/a.py": "a\n", "stays/b.py": "b\n"}
AFTER = {"lib/one.py": "1\n2\n", "lib/two.py": "3\n", "docs/plan/step.md": "1\n", "stays/a.py": "a\n"}
AFTER |= {"src/badge/new.py": "new\n" * 3}


@pytest.fixture
def workspace(team, agent, tmp_path):
    made = make_workspace(team, agent, "reviewed")
    for number, files in ((1, BEFORE | GONE), (2, AFTER)):
        tree = keep_tree(team, tmp_path / str(number), files)
        made.snapshots.filter(number=number).update(tree=tree)
    return made


@pytest.fixture
def shown(workspace, alice, browser_of, read):
    """`shown("&under=old")`: the page, once the lines of all files are counted, which takes more than one visit."""
    client = browser_of(alice)

    def page(more=""):
        for _ in range(50):
            html = read(client, f"{HERE}{PAIR}{more}")
            if "at least" not in html and "lines not counted" not in html:
                break
        return html

    return page


def text_of(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_a_folder_that_is_gone_is_one_row_that_opens(shown):
    html = shown()
    paths = ["docs/plan", "docs/plan/step.md", "lib/one.py", "lib/two.py", "old/", "src/badge/new.py", "stays/b.py"]
    assert listed(html) == paths
    assert sections(html) == paths
    row = text_of(html.split('aria-label="old/"')[1].split("</section>")[0])
    assert "removed −317" in row
    assert "Show the 317 files that were in it" in row
    assert "323 files" in text_of(html.split('id="changed-files"')[1].split("</h2>")[0])
    opened = shown("&under=old")
    assert len(listed(opened)) == 317
    assert {path.split("/")[0] for path in listed(opened)} == {"old"}
    assert len(sections(opened)) == 50
    assert "under=old&amp;start=50" in opened


def test_a_folder_of_which_a_file_is_left_is_not_one_row(shown):
    assert "stays/b.py" in listed(shown())


def test_a_file_that_became_a_folder_says_so_in_a_row_of_its_own(shown):
    tree = shown().split('class="file-list file-tree"')[1]
    assert re.search(r'<code>plan</code></a><span class="chip">became a folder</span>', tree)


def test_folders_have_counts_and_a_chain_of_them_is_one(shown):
    tree = shown().split('class="file-list file-tree"')[1]
    lib = tree.split("<code>lib/</code>")[1].split("</summary>")[0]
    assert text_of(lib) == "2 files +2 −1"
    assert "<code>src/badge/</code>" in tree


def test_side_by_side_an_added_or_removed_file_has_no_empty_side(shown):
    assert "diff-side" not in shown("&path=src/badge/new.py&view=split")
    assert "diff-unified" in shown("&path=stays/b.py&view=split")
    assert "diff-side" in shown("&path=lib/one.py&view=split")


def test_a_gone_folder_is_seen_as_a_whole_by_this_person_alone(workspace, shown, alice, bob, browser_of, read):
    client = browser_of(alice)
    answer = client.post(f"{HERE}seen/{PAIR}&under=old", {"seen": "1"})
    assert answer.status_code == 302
    assert SeenFile.objects.count() == 317
    html = shown()
    assert "317 of 323 seen" in html
    assert ' data-seen><a href="#' in html.split("<code>old/</code>")[0][-80:]
    assert "0 of 323 seen" in read(browser_of(bob), f"{HERE}{PAIR}")
    client.post(f"{HERE}seen/{PAIR}&under=old", {"seen": "1"})
    assert SeenFile.objects.count() == 317
    client.post(f"{HERE}seen/{PAIR}&under=old", {"seen": "0"})
    assert not SeenFile.objects.exists()


def test_the_first_answer_of_many_files_is_small(shown):
    assert len(shown()) < 60_000


def test_a_tree_of_files_named_alike_keeps_their_order():
    class Row:
        additions, deletions = 1, None

        def __init__(self, path):
            self.path = path

    rows = [("#", Row(path), False) for path in (b"a.c", b"a/b/c", b"a/b/d", b"a/e", b"b/x/y/z")]
    root = tree_of(rows)
    shape = lambda entry: (  # noqa: E731
        (entry.name, entry.files, [shape(each) for each in entry.entries]) if isinstance(entry, Folder) else entry[1]
    )
    assert [shape(entry) for entry in root.entries] == [
        b"a.c",
        (b"a", 3, [(b"b", 2, [b"c", b"d"]), b"e"]),
        (b"b/x/y", 1, [b"z"]),
    ]
