"""Two workspaces that come from one snapshot, side by side. A store, and no runner."""

import random
import re
import subprocess
from html import unescape

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.database import clock
from tests.pages.conftest import keep_tree, make_workspace
from workspaces.changes import ignored
from workspaces.changes.forks import can_merge
from workspaces.models import Snapshot

LINES = "".join(f"line {n}\n" for n in range(30))
BASE = {
    ".gitignore": "*.log\n",
    "both/other_lines.txt": LINES,
    "both/same_line.txt": LINES,
    "both/alike.txt": "old\n",
    "both/removed.txt": "going\n",
    "changed_and_removed.txt": "old\n",
    "renamed_and_edited.txt": "a text of some length\n",
    "file_and_folder": "a file\n",
    "only_left.txt": "old\n",
    "only_right.txt": "old\n",
    "same.txt": "same\n",
}
LEFT = BASE | {
    "both/other_lines.txt": LINES.replace("line 3\n", "line three\n"),
    "both/same_line.txt": LINES.replace("line 9\n", "line nine\n"),
    "both/alike.txt": "new\n",
    "changed_and_removed.txt": "new\n",
    "new_name.txt": BASE["renamed_and_edited.txt"],
    "file_and_folder": "another file\n",
    "only_left.txt": "new\n",
    "both_new.txt": "left\n",
    "noise.log": "noise\n",
}
RIGHT = BASE | {
    "both/other_lines.txt": LINES.replace("line 20\n", ""),
    "both/same_line.txt": LINES.replace("line 9\n", "LINE 9\n"),
    "both/alike.txt": "new\n",
    "renamed_and_edited.txt": "another text of some length\n",
    "file_and_folder/inside.txt": "inside\n",
    "only_right.txt": "new\n",
    "both_new.txt": "right\n",
}
for gone, files in (
    (("both/removed.txt", "renamed_and_edited.txt"), LEFT),
    (("both/removed.txt", "changed_and_removed.txt", "file_and_folder"), RIGHT),
):
    for name in gone:
        del files[name]
EXPECTED = {
    "both/alike.txt": ("alike", False),
    "both/other_lines.txt": ("different", False),
    "both/removed.txt": ("alike", False),
    "both/same_line.txt": ("different", True),
    "both_new.txt": ("different", True),
    "changed_and_removed.txt": ("different", True),
    "file_and_folder": ("different", True),
    "file_and_folder/inside.txt": ("right", False),
    "new_name.txt": ("left", False),
    "only_left.txt": ("left", False),
    "only_right.txt": ("right", False),
    "renamed_and_edited.txt": ("different", True),
}
HERE = "/w/payments/cart-fork/beside/"


def set_tree(workspace, number: int, tree: bytes):
    workspace.snapshots.filter(number=number).update(tree=tree)


def make_fork(team, agent, key: str, parent, number: int):
    """A fork of that snapshot: its first one is of the same files."""
    made = make_workspace(team, agent, key, forked_from=parent, source={"fork": {"snapshot": number}})
    made.snapshots.filter(number=1).update(kind="fork", tree=parent.snapshots.get(number=number).tree)
    return made


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(ignored, "SECONDS", 100)


@pytest.fixture
def parent(team, agent, tmp_path):
    made = make_workspace(team, agent, "cart")
    set_tree(made, 1, keep_tree(team, tmp_path / "base", BASE))
    set_tree(made, 2, keep_tree(team, tmp_path / "right", RIGHT))
    return made


@pytest.fixture
def fork(team, agent, parent, tmp_path):
    made = make_fork(team, agent, "cart-fork", parent, 1)
    set_tree(made, 2, keep_tree(team, tmp_path / "left", LEFT))
    return made


@pytest.fixture
def told(client, agent_token):
    """`told("cart-fork", "cart")`: what the API says of newest snapshots."""

    def ask(key, other, query="?at=2&other_at=2", status=200):
        address = f"/api/v1/workspaces/{key}/beside/{other}{query}"
        answer = client.get(address, headers={"Authorization": f"Bearer {agent_token}"})
        assert answer.status_code == status, answer.content
        return answer.json()

    return ask


@pytest.fixture
def shown(alice, browser_of, read):
    client = browser_of(alice)
    return lambda query="?at=2&with_at=2&with=cart", address=HERE: unescape(read(client, address + query))


def sections(html: str) -> dict[str, str]:
    """{id of its heading: the section}"""
    return {part.partition('"')[0]: part for part in html.split('<section class="section" aria-labelledby="')[1:]}


def files_of(told: dict) -> dict:
    return {file["path"]: (file["state"], file["conflict"]) for file in told["files"]}


def test_each_file_is_of_one_side_or_of_both(fork, parent, told):
    found = told("cart-fork", "cart")
    assert files_of(found) == EXPECTED
    assert found["base"] == {"workspace": "cart", "at": "1"}
    assert (found["left"], found["right"]) == ({"workspace": "cart-fork", "at": "2"}, {"workspace": "cart", "at": "2"})
    assert found["counts"] == {"left": 2, "right": 2, "alike": 2, "different": 6, "conflicts": 5}
    assert found["left_out"] == 1
    same_line = next(file for file in found["files"] if file["path"] == "both/same_line.txt")
    assert [(same_line[side]["additions"], same_line[side]["deletions"]) for side in ("left", "right")] == [(1, 1)] * 2
    assert files_of(told("cart-fork", "cart", "?at=2&other_at=2&ignored=1"))["noise.log"] == ("left", False)


def test_the_other_way_round_it_is_the_same(fork, parent, told):
    turned = {"left": "right", "right": "left"}
    found = files_of(told("cart", "cart-fork"))
    assert {path: (turned.get(state, state), conflict) for path, (state, conflict) in found.items()} == EXPECTED


def test_two_forks_are_compared_with_the_older_snapshot_of_both(fork, parent, team, agent, told, tmp_path):
    younger = make_fork(team, agent, "cart-younger", parent, 2)
    set_tree(younger, 2, keep_tree(team, tmp_path / "younger", RIGHT | {"later.txt": "later\n"}))
    of_it = make_fork(team, agent, "cart-grandchild", younger, 2)
    found = told("cart-fork", "cart-younger")
    assert found["base"] == {"workspace": "cart", "at": "1"}
    assert files_of(found) == EXPECTED | {"later.txt": ("right", False)}
    assert told("cart-grandchild", "cart-younger", "?at=1&other_at=1")["base"]["workspace"] == "cart-younger"
    assert told(of_it.key, "cart", "?at=1&other_at=1")["base"] == {"workspace": "cart", "at": "2"}


def test_a_deleted_snapshot_is_found_in_the_fork_that_began_with_it(fork, parent, told):
    Snapshot.objects.filter(workspace=parent, number=1).delete()
    found = told("cart-fork", "cart")
    assert (found["base"], files_of(found)) == ({"workspace": "cart-fork", "at": "1"}, EXPECTED)
    Snapshot.objects.filter(workspace=fork, number=1).delete()
    assert "is deleted" in told("cart-fork", "cart", status=409)["detail"]


def test_workspaces_that_cannot_be_compared(fork, parent, team, agent, told):
    make_workspace(team, agent, "stranger")
    assert "no common snapshot" in told("cart", "stranger", status=409)["detail"]
    assert "the same one" in told("cart", "cart", status=422)["detail"]
    told("cart", "nowhere", status=404)
    told("cart", "cart-fork", "?at=99", status=404)
    told("cart", "cart-fork", "?at=x", status=422)
    told("cart", "cart-fork", "?form=1", status=422)


def test_the_page_shows_both_sides_and_their_lines(fork, parent, shown):
    parts = sections(shown())
    assert "2 only in cart-fork" in parts["side-by-side"]
    assert "2 only in cart<" in parts["side-by-side"].replace(" <", "<")
    assert "changed in both can be merged" in parts["side-by-side"]
    assert '<a href="/w/payments/cart/snapshots/1/">snapshot 1 of cart</a>' in parts["side-by-side"]
    assert 'href="/w/payments/cart-fork/changes/?from=2&to=cart:2"' in parts["side-by-side"].replace("%3A", ":")
    both = parts["both-differently"].split('<section class="beside-file"')[1:]
    assert [re.search('aria-label="([^"]+)"', part)[1] for part in both][-1] == "both/other_lines.txt"
    assert ["Can be merged" in part for part in both] == [False] * 5 + [True]
    same_line = next(part for part in both if 'aria-label="both/same_line.txt"' in part)
    assert same_line.index("<b>cart-fork</b>") < same_line.index("nine") < same_line.index("<b>cart</b>")
    assert "LINE" in same_line.partition("<b>cart</b>")[2]
    address = "/w/payments/cart-fork/changes/?from=cart:1&to=2&path=both/same_line.txt"
    assert address in same_line.replace("%3A", ":")
    left, right = parts["only-one"].split("<h3>")[1:]
    assert [("only_left.txt" in part, "only_right.txt" in part) for part in (left, right)] == [
        (True, False),
        (False, True),
    ]
    assert "from <code>renamed_and_edited.txt</code>" in left
    assert "both/alike.txt" in parts["both-alike"]


def test_each_link_of_the_page_leads_to_a_diff(fork, parent, alice, browser_of, shown):
    client = browser_of(alice)
    addresses = set(re.findall(r'href="(/w/payments/[^"]+/changes/\?[^"]+)"', shown()))
    assert len(addresses) > 12
    for address in sorted(addresses)[::4]:
        assert client.get(address).status_code == 200, address


def test_without_a_name_it_is_the_nearest_relative(fork, parent, team, agent, shown):
    make_fork(team, agent, "cart-sister", parent, 1)
    assert "snapshot 1 of cart</a>" in shown("?at=2&with_at=2")
    options = re.findall(r"<option[^>]*>\s*([\w-]+)\s*</option>", shown("?at=2&with_at=2").partition("beside-with")[2])
    assert options == ["cart", "cart-sister"]
    alone = make_workspace(team, agent, "stranger")
    assert "nothing to compare it with" in shown("", f"/w/payments/{alone.key}/beside/")


def test_forks_are_listed_with_a_link(fork, parent, shown):
    link = 'href="/w/payments/cart/beside/?with=cart-fork"'
    assert link in shown("", "/w/payments/cart/")
    assert 'href="/w/payments/cart-fork/beside/?with=cart"' in shown("", "/w/payments/cart-fork/")
    assert 'href="/w/payments/cart-fork/beside/"' in shown("", "/workspaces/")


def test_now_cannot_be_read_without_a_runner_and_the_page_says_so(fork, parent, shown):
    assert 'data-tone="amber"' in shown("?with=cart")


def test_another_teams_workspace_is_not_there(fork, parent, mallory, browser_of, alice, other_team, agent):
    assert browser_of(mallory).get(f"{HERE}?with=cart").status_code == 404
    make_workspace(other_team, None, "theirs")
    assert browser_of(alice).get(f"{HERE}?with=theirs").status_code == 404


def test_a_fork_in_the_trash_is_shown_with_its_newest_snapshot(fork, parent, shown):
    fork.trashed_at = clock.now()
    fork.save()
    parts = sections(shown("?with=cart&with_at=2"))
    assert "snapshot 2" in parts["side-by-side"]
    assert "changes/?from" not in parts["side-by-side"].partition(">cart</a>")[0]


def test_many_files_take_no_more_queries(fork, parent, team, alice, browser_of, tmp_path):
    client, counts = browser_of(alice), []
    for files in (1, 40):
        tree = keep_tree(team, tmp_path / f"many{files}", LEFT | {f"more/{n}.txt": f"{n}\n" for n in range(files)})
        set_tree(fork, 2, tree)
        client.get(f"{HERE}?at=2&with_at=2")
        with CaptureQueriesContext(connection) as queries:
            client.get(f"{HERE}?at=2&with_at=2")
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_what_can_be_merged_git_merges(tmp_path):
    """Differently edited texts: git has no conflict where none is told, and mostly has one where one is."""
    chance, agreed, clean = random.Random(15), 0, 0
    old = [f"{n}\n" for n in range(12)]
    for _ in range(150):
        sides = [edited(old, chance) for _ in range(2)]
        for name, lines in zip(("left", "old", "right"), (sides[0], old, sides[1]), strict=True):
            (tmp_path / name).write_text("".join(lines))
        git = subprocess.run(["git", "merge-file", "-p", "left", "old", "right"], cwd=tmp_path, capture_output=True)
        texts = ("".join(lines).encode() for lines in (old, *sides))
        is_clean = can_merge(*texts)
        assert not is_clean or git.returncode == 0, sides
        agreed, clean = agreed + (is_clean == (git.returncode == 0)), clean + is_clean
    assert 30 < clean < 120
    assert agreed >= 145


def edited(lines: list[str], chance) -> list[str]:
    """The lines with one or two of them replaced, removed, or followed by a new one."""
    found = list(lines)
    for at in chance.sample(range(len(lines)), chance.choice((1, 1, 2))):
        found[at] = chance.choice((f"new {chance.randrange(3)}\n", "", f"{found[at]}more\n"))
    return found
