"""The Changes tab: what it compares, what it leaves out, and how each kind of file is shown. A store, and no runner."""

import json
import re
import struct
from html import unescape

import pytest

from tests.pages.conftest import make_workspace
from tests.support.pictures import png
from workspaces.changes import highlight, ignored
from workspaces.host import paths
from workspaces.models import SeenFile
from workspaces.store import LocalTree, Store

HERE = "/w/payments/reviewed/changes/"
PAIR = "?from=1&to=2"
BLOCK = "def moved_block(first, second):\n    total = first + second\n    return total * 2\n"
CODE = BLOCK + "".join(f"line_{n} = {n}\n" for n in range(40))


def notebook(source: str, output: str) -> str:
    shown = {"output_type": "execute_result", "data": {"text/plain": output, "image/png": "A" * 4000}, "metadata": {}}
    cell = {"cell_type": "code", "metadata": {}, "source": source.splitlines(True), "outputs": [shown]}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


BEFORE = {
    ".gitignore": "out/\n*.log\n",
    "app.py": CODE,
    "style.css": "a { color: red; }\n  b { color: blue; }\n",
    "logo.png": png(2, 2),
    "drawing.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "data.csv": "name,price\npear,1\nplum,2\n",
    "book.ipynb": notebook("x = 1\nprint(x)", "1"),
    "windows.txt": "alpha\nbeta\n".encode("utf-16"),
    "blob.bin": b"\0" * 2000,
    "lib/one.py": "one = 1\n",
    "lib/two.py": "two = 2\n",
    "lib/deep/three.py": "three = 3\n",
    "out/built.txt": "old\n",
    "long.txt": "first\n",
}
AFTER = {
    ".gitignore": "out/\n*.log\nsneaky.py\n",
    "app.py": CODE.replace(BLOCK, "").replace("line_20 = 20\n", f"line_20 = 21\n{BLOCK}"),
    "style.css": "a { color: red; }\nb { color: blue; }\n",
    "logo.png": png(3, 2),
    "drawing.svg": "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(2)</script></svg>",
    "data.csv": "name,price\npear,1\nplum,3\n",
    "book.ipynb": notebook("x = 2\nprint(x)", "2"),
    "windows.txt": "alpha\ngamma\n".encode("utf-16"),
    "blob.bin": b"\0" * 3000,
    "source/one.py": "one = 1\n",
    "source/two.py": "two = 2\n",
    "source/deep/three.py": "three = 3\n",
    "out/built.txt": "new\n",
    "out/more.txt": "more\n",
    "run.log": "noise\n",
    "node_modules/left/index.js": "built\n",
    "sneaky.py": "import os\n",
    ".env": "TOKEN=1\n",
    "long.txt": "first\n" + "".join(f"number {n}\n" for n in range(1, 2600)),
}


def write(tree, files: dict):
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def keep(workspace, number: int, tree) -> str:
    kept = Store.open(paths.store_of(workspace.team_id)).snapshot(LocalTree(tree))
    workspace.snapshots.filter(number=number).update(tree=bytes.fromhex(kept.tree))
    return kept.tree


@pytest.fixture
def workspace(team, agent, tmp_path):
    """Snapshot 1 has BEFORE, snapshot 2 AFTER."""
    made = make_workspace(team, agent, "reviewed")
    Store.create(paths.store_of(team.pk))
    for number, files in ((1, BEFORE), (2, AFTER)):
        tree = tmp_path / str(number)
        write(tree, files)
        keep(made, number, tree)
    return made


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """Colours and ignored files come however busy the machine is."""
    monkeypatch.setattr(highlight, "COLOUR_SECONDS", 100)
    monkeypatch.setattr(ignored, "SECONDS", 100)


@pytest.fixture
def shown(workspace, alice, browser_of, read):
    """`shown("&path=app.py")`: the changes from snapshot 1 to 2."""
    client = browser_of(alice)
    return lambda more="": read(client, f"{HERE}{PAIR}{more}")


def listed(html: str) -> list[str]:
    """The paths in the tree of files, without those that moved with their folder."""
    found, folders = [], []
    tree = html.partition('class="file-list file-tree"')[2]
    pieces = r'<summary><code>([^<]*)/</code>|<a href="[^"]*"> ?<code>([^<]*)</code>|(</details>)|(</ul>)'
    for folder, name, ends, closes in re.findall(pieces, tree):
        if folder:
            folders.append(folder)
        elif name:
            found.append(unescape("/".join([*folders, name])))
        elif ends and folders:
            folders.pop()
        elif closes and not folders:
            break
    return found


def sections(html: str) -> list[str]:
    return re.findall(r'<section class="diff" aria-label="([^"]+)"', html)


def text_of(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


def test_what_git_ignores_and_tools_build_is_left_out(shown):
    found = shown()
    names = ".env .gitignore app.py blob.bin book.ipynb data.csv drawing.svg logo.png long.txt sneaky.py style.css"
    assert listed(found) == [*names.split(), "windows.txt"]
    assert "4 files that git ignores or a tool builds are left out." in found
    every = shown("&ignored=1")
    assert {"out/built.txt", "out/more.txt", "run.log", "node_modules/left/index.js"} < set(listed(every))


def test_a_pattern_that_came_with_the_change_hides_nothing(shown):
    assert "sneaky.py" in listed(shown())


def test_the_patch_leaves_out_what_the_page_leaves_out(workspace, alice, browser_of):
    client = browser_of(alice)

    def patched(more=""):
        answer = client.get(f"{HERE}patch/{PAIR}{more}")
        return re.findall(rb"^diff --git a/\S+ b/(\S+)$", b"".join(answer.streaming_content), re.M)

    assert b"sneaky.py" in patched()
    left_out = {b"out/built.txt", b"out/more.txt", b"run.log", b"node_modules/left/index.js"}
    assert left_out.intersection(patched()) == set()
    assert left_out.intersection(patched("&ignored=1")) == left_out


def test_a_renamed_folder_is_one_row(shown):
    found = shown()
    assert "lib/ → source/" in text_of(found)
    assert "3 files moved, unchanged" in found
    assert not any(name.startswith(("lib/", "source/")) for name in listed(found))


def test_each_difference_is_in_the_page_once(shown):
    found = shown("&path=data.csv&text=1")
    assert (found.count("plum,3"), text_of(found).count("plum,3")) == (0, 1)
    assert ("diff-unified" in found, "diff-side" in found) == (True, False)
    split = shown("&path=app.py&view=split")
    assert ("diff-unified" in split, "diff-side" in split) == (False, True)


def test_the_layout_that_a_person_chose_stays(shown):
    assert "diff-unified" in shown("&path=app.py")
    shown("&path=app.py&view=split")
    assert "diff-side" in shown("&path=app.py")
    shown("&path=app.py&view=unified")
    assert "diff-side" not in shown("&path=app.py")


def test_words_that_differ_are_marked(shown):
    found = shown("&path=app.py")
    assert re.findall(r"<del>(.*?)</del>", found) == ['<span class="mi">20</span>']
    assert re.findall(r"<ins>(.*?)</ins>", found) == ['<span class="mi">21</span>']


def test_a_moved_block_is_marked_on_both_sides(shown):
    found = shown("&path=app.py")
    assert re.findall(r'title="(Moved [^"]+)"', found) == [
        *(f"Moved to line {n}" for n in (22, 23, 24)),
        *(f"Moved from line {n}" for n in (1, 2, 3)),
    ]


def test_whitespace_can_be_left_out(shown):
    assert 'class="removed"' in shown("&path=style.css")
    found = shown("&path=style.css&w=1")
    assert ('class="removed"' in found, "No line changed." in found) == (False, True)


def test_a_table_is_shown_by_cells_and_as_text(shown):
    found = shown("&path=data.csv")
    assert '<td class="cell exact"><ins>3</ins></td>' in found
    assert "diff-table" not in shown("&path=data.csv&text=1")


def test_a_notebook_is_shown_by_its_cells(shown):
    found = text_of(shown("&path=book.ipynb"))
    assert "The notebook's cells as text." in found
    assert "x = 2" in found
    assert "AAAA" not in found
    assert '"cell_type"' in text_of(shown("&path=book.ipynb&text=1"))


def test_utf_16_is_shown_as_text(shown):
    found = text_of(shown("&path=windows.txt"))
    assert ("gamma" in found, "UTF-16, shown as UTF-8." in found) == (True, True)


def test_a_binary_file_has_its_sizes(shown):
    assert "Binary file. 2.0\xa0KB → 2.9\xa0KB" in shown("&path=blob.bin")


def test_an_image_is_shown_on_both_sides_and_never_a_document(shown, alice, browser_of):
    found = shown("&path=logo.png")
    addresses = [unescape(address) for address in re.findall(r'<img src="([^"]+)"', found)]
    client = browser_of(alice)
    answers = [client.get(address) for address in addresses]
    assert [answer.content for answer in answers] == [BEFORE["logo.png"], AFTER["logo.png"]]
    assert {answer.headers["Content-Type"] for answer in answers} == {"image/png"}
    for answer in answers:
        assert answer.headers["Content-Disposition"] == "attachment"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Security-Policy"].startswith("sandbox;")


def test_what_is_no_image_of_four_kinds_is_not_answered_as_one(shown, alice, browser_of):
    assert "<img" not in shown("&path=drawing.svg")
    client = browser_of(alice)
    for name in ("drawing.svg", "blob.bin", "app.py", "nothing.png"):
        assert client.get(f"{HERE}image/{PAIR}&side=new&path={name}").status_code == 404


def test_an_image_that_would_fill_the_memory_is_not_shown(workspace, shown, tmp_path, alice, browser_of):
    bomb = png(1, 1)
    bomb = bomb[:16] + struct.pack(">II", 60_000, 60_000) + bomb[24:]
    write(tmp_path / "2", {"logo.png": bomb})
    keep(workspace, 2, tmp_path / "2")
    assert shown("&path=logo.png").count("<img") == 1
    assert browser_of(alice).get(f"{HERE}image/{PAIR}&side=new&path=logo.png").status_code == 404


def numbers(html: str) -> tuple[int, int]:
    """The first and the last line of `long.txt` in a page."""
    found = [int(number) for number in re.findall(r"number (\d+)", text_of(html))]
    return found[0], found[-1]


def test_a_long_diff_comes_in_pieces(workspace, shown, alice, browser_of, read):
    client = browser_of(alice)
    section = shown().partition('aria-label="long.txt"')[2].partition("</section>")[0]
    fragment = unescape(re.search(r'hx-get="([^"]+)"', section)[1])
    first = client.get(fragment, headers={"HX-Request": "true"}).content.decode()
    assert numbers(first) == (1, 399)
    more = unescape(re.search(r'hx-get="([^"]+line=400)"', first)[1])
    then = client.get(more, headers={"HX-Request": "true"}).content.decode()
    assert ("<section" in then, numbers(then), "line=1400" in then) == (False, (400, 1399), True)


def test_without_scripts_a_long_diff_is_pages_of_its_own(workspace, shown, alice, browser_of, read):
    alone = shown("&path=long.txt")
    assert numbers(alone) == (1, 1999)
    link = unescape(re.search(r'<p class="diff-note diff-more">\s*<a href="([^"]+)"', alone)[1])
    assert numbers(read(browser_of(alice), link)) == (2000, 2599)


def test_a_file_of_a_hundred_thousand_lines_is_shown_in_pieces(workspace, shown, alice, browser_of, read, tmp_path):
    text = "".join(f"number {n}\n" for n in range(1, 100_001))
    write(tmp_path / "1", {"changed.txt": text})
    write(tmp_path / "2", {"new.txt": text, "changed.txt": text.replace("number 70000\n", "another\n")})
    keep(workspace, 1, tmp_path / "1")
    keep(workspace, 2, tmp_path / "2")
    assert numbers(shown("&path=new.txt")) == (1, 2000)
    assert numbers(shown("&path=new.txt&line=99500")) == (99_501, 100_000)
    assert numbers(shown("&path=changed.txt")) == (69_996, 70_003)
    assert len(shown()) < 300_000


def test_a_file_marked_as_seen_folds_until_it_changes(workspace, shown, alice, bob, browser_of, tmp_path, read):
    client = browser_of(alice)
    assert "0 of 12 seen" in shown()
    client.post(f"{HERE}seen/{PAIR}&path=app.py", {"seen": "1"})
    found = shown()
    assert "1 of 12 seen" in found
    assert ("line_20" in text_of(found), "app.py" in sections(found)) == (False, True)
    assert "0 of 12 seen" in read(browser_of(bob), f"{HERE}{PAIR}")
    write(tmp_path / "2", {"app.py": CODE + "another = 1\n"})
    keep(workspace, 2, tmp_path / "2")
    assert "0 of 12 seen" in shown()
    assert "another = 1" in text_of(shown())


def test_seen_is_taken_back(workspace, shown, alice, browser_of):
    client = browser_of(alice)
    for seen in ("1", "1", "0"):
        client.post(f"{HERE}seen/{PAIR}&path=app.py", {"seen": seen})
    assert SeenFile.objects.count() == 0
    assert "0 of 12 seen" in shown()


def test_marking_over_htmx_answers_with_the_file_and_the_count(workspace, alice, browser_of):
    answer = browser_of(alice).post(
        f"{HERE}seen/{PAIR}&path=app.py", {"seen": "1"}, headers={"HX-Request": "true"}
    ).content.decode()  # fmt: skip
    assert sections(answer) == ["app.py"]
    assert 'id="seen-count" hx-swap-oob="true"' in answer
    assert "1 of 12 seen" in answer


def test_a_thousand_files_are_shown_in_pages_and_diffed_when_they_are_reached(
    workspace, shown, alice, browser_of, tmp_path
):
    write(tmp_path / "2", {f"many/file-{n:04}.txt": f"content {n}\n" for n in range(1000)})
    keep(workspace, 2, tmp_path / "2")
    found = shown()
    assert len(listed(found)) == 1012
    assert len(sections(found)) == 50
    assert 0 < found.count('class="diff-lines') <= 6
    later = [unescape(address) for address in re.findall(r'hx-get="([^"]+)" hx-trigger="revealed"', found)]
    assert len(later) >= 44
    answer = browser_of(alice).get(later[-1], headers={"HX-Request": "true"}).content.decode()
    assert "content 40" in text_of(answer)
    more = unescape(re.search(r'<a class="button" href="([^"]+start=50)"', found)[1])
    assert sections(browser_of(alice).get(HERE + more).content.decode())[0] == "many/file-0041.txt"


def test_what_a_page_loads_later_is_of_the_same_moment(workspace, shown, alice, browser_of, tmp_path):
    signed = re.search(r"&quot;trees&quot;: &quot;([^&]+)&quot;|\"trees\": \"([^\"]+)\"", shown())
    trees = signed[1] or signed[2]
    write(tmp_path / "2", {"app.py": "all new\n"})
    keep(workspace, 2, tmp_path / "2")
    client = browser_of(alice)
    then = client.get(f"{HERE}file/{PAIR}&path=app.py&trees={trees}").content.decode()
    now = client.get(f"{HERE}file/{PAIR}&path=app.py&trees={trees}x").content.decode()
    assert ("all new" in text_of(then), "all new" in text_of(now)) == (False, True)


def test_a_page_that_refreshes_itself_compares_nothing(workspace, alice, browser_of):
    answer = browser_of(alice).get(HERE + PAIR, headers={"X-Handrail-Refresh": "1"}).content.decode()
    assert ('id="workspace-head"' in answer or "workspace-head" in answer, sections(answer)) == (True, [])


def test_a_point_of_another_workspace_is_compared(workspace, team, agent, alice, browser_of, read, tmp_path):
    fork = make_workspace(team, agent, "fork")
    write(tmp_path / "fork", BEFORE | {"app.py": "of the fork\n"})
    keep(fork, 1, tmp_path / "fork")
    client = browser_of(alice)
    found = read(client, f"{HERE}?from=1&to=fork:1")
    assert listed(found) == ["app.py"]
    assert "of the fork" in text_of(found)
    assert "Take this file from fork:1" in found
    assert listed(read(client, f"{HERE}?from=1&to=1&to_in=fork")) == ["app.py"]


def test_a_workspace_of_another_team_is_not_found(workspace, other_workspace, alice, browser_of):
    assert browser_of(alice).get(f"{HERE}?from=1&to={other_workspace.key}:1").status_code == 404


@pytest.fixture
def other_workspace(workspace, mallory):
    team = mallory.memberships.get().team
    made = make_workspace(team, None, "theirs")
    Store.create(paths.store_of(team.pk))
    return made


def test_a_file_name_that_is_not_utf_8_has_a_section_and_can_be_seen(workspace, shown, alice, browser_of, tmp_path):
    name = b"caf\xe9.txt"
    (tmp_path / "2" / name.decode("utf-8", "surrogateescape")).write_bytes(b"text\n")
    keep(workspace, 2, tmp_path / "2")
    browser_of(alice).post(f"{HERE}seen/{PAIR}&path=caf%E9.txt", {"seen": "1"})
    assert "1 of 13 seen" in shown()


@pytest.mark.parametrize(
    ("ticked", "leads_to"),
    [
        ("point=2&point=1", "?from=1&to=2"),
        ("point=1", "?from=1&to=live"),
        ("point=1&point=2&point=9", None),
        ("point=x", None),
    ],
)
def test_snapshots_ticked_in_their_list_are_compared(workspace, alice, browser_of, read, ticked, leads_to):
    client = browser_of(alice)
    found = read(client, "/w/payments/reviewed/snapshots/")
    assert re.findall(r'name="point"\s+value="(\d)"', found) == ["2", "1"]
    answer = client.get(f"{HERE}?{ticked}")
    assert answer.status_code == 302
    assert answer.headers["Location"] == (f"{HERE}{leads_to}" if leads_to else "/w/payments/reviewed/snapshots/")


@pytest.fixture
def diff_of(client, agent_token):
    """`diff_of("from=1&to=2")`: the answer of the API to the agent."""

    def ask(query, **headers):
        headers["Authorization"] = f"Bearer {agent_token}"
        return client.get(f"/api/v1/workspaces/reviewed/diff?{query}", headers=headers)

    return ask


def test_the_api_says_what_is_ignored_and_leaves_it_out_of_the_patch(workspace, diff_of):
    changes = {change["path"]: change["ignored"] for change in diff_of("from=1&to=2").json()["changes"]}
    assert (changes["out/built.txt"], changes["sneaky.py"]) == (True, False)
    assert b"out/built.txt" not in diff_of("from=1&to=2", Accept="text/x-diff").content
    assert b"out/built.txt" in diff_of("from=1&to=2&ignored=true", Accept="text/x-diff").content


def test_the_api_compares_with_a_point_of_another_workspace(workspace, team, agent, diff_of, tmp_path):
    write(tmp_path / "fork", BEFORE | {"app.py": "of the fork\n"})
    keep(make_workspace(team, agent, "fork"), 1, tmp_path / "fork")
    changes = diff_of("from=1&to=fork:1").json()["changes"]
    assert [(change["path"], change["kind"]) for change in changes] == [("app.py", "modified")]
    make_workspace(team, None, "not-its-own")
    answers = [
        diff_of(f"from=1&to={point}").status_code for point in ("fork:9", "not-its-own:1", "nowhere:1", "fork:x")
    ]
    assert answers == [404, 404, 404, 422]
