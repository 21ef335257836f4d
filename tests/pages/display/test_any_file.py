"""Files with any name and of any size, on the pages: a store of its own, no runner."""

import base64
import re
from html import unescape

import pytest

from tests.pages.conftest import make_workspace
from workspaces.host import paths
from workspaces.models import Operation
from workspaces.store import LocalTree, Store

HERE = "/w/payments/any-file/"
NAMES = [b"caf\xe9.txt", b"two\nlines.txt", "right\u202eto left.txt".encode(), b'quo"te%41.txt', b"a&b+c.txt"]
LINE = b"one more line of a long text\n"


@pytest.fixture
def workspace(team, agent, tmp_path):
    """Snapshot 1 has the files, in snapshot 2 each has another line, one is renamed and one grew too large."""
    made = make_workspace(team, agent, "any-file")
    store, tree = Store.create(paths.store_of(team.pk)), tmp_path / "tree"
    tree.mkdir()
    for name in NAMES:
        (tree / name.decode("utf-8", "surrogateescape")).write_text("before\n")
    (tree / "old\nname").write_text("moves as it is\n")
    (tree / "large").write_bytes(b"first line\n" + LINE * 30_000 + b"last line\n")
    (tree / "binary").write_bytes(b"\0" * 700_000)
    (tree / "link").symlink_to("some/where\u202e")
    (tree / "huge").write_text("small\n")
    _keep(made, 1, store.snapshot(LocalTree(tree)))
    for name in NAMES:
        (tree / name.decode("utf-8", "surrogateescape")).write_text("before\nsecond-line\n")
    (tree / "old\nname").rename(tree / "new\nname")
    (tree / "huge").write_bytes(LINE * 300_000)
    (tree / "link").unlink()
    (tree / "link").symlink_to("else/where")
    _keep(made, 2, store.snapshot(LocalTree(tree)))
    return made


def _keep(workspace, number, kept):
    workspace.snapshots.filter(number=number).update(tree=bytes.fromhex(kept.tree))


def quoted(name: bytes) -> str:
    return "".join(f"%{byte:02X}" for byte in name)


def test_a_folder_shows_each_name_and_links_to_it(workspace, alice, browser_of, read):
    client = browser_of(alice)
    text = read(client, f"{HERE}files/?at=2")
    for mark in ('data-bytes="e9"', 'data-bytes="0a"', 'data-bytes="e280ae"'):
        assert mark in text
    links = [unescape(link) for link in re.findall(r'class="row-title plain-weight" href="([^"]+)"', text)]
    assert len(links) == len(NAMES) + 4
    for link in links:
        assert client.get(link).status_code == 200, link


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_any_name_opens_moves_in_time_and_downloads(workspace, alice, browser_of, read, name):
    client = browser_of(alice)
    text = read(client, f"{HERE}files/?at=2&path={quoted(name)}")
    assert "after" in text
    hidden = unescape(re.search(r'name="quoted" value="([^"]*)"', text)[1])
    earlier = client.get(f"{HERE}files/", {"at": "1", "quoted": hidden}).content.decode()
    assert ("before" in earlier, "second-line" in earlier) == (True, False)
    saved = client.get(f"{HERE}files/raw/?at=2&path={quoted(name)}")
    assert b"".join(saved.streaming_content) == b"before\nsecond-line\n"


@pytest.mark.parametrize("name", NAMES)
def test_a_change_of_any_name_is_shown_and_goes_back(workspace, lena, browser_of, read, name):
    client = browser_of(lena)
    assert client.get(f"{HERE}changes/?from=1&to=2").status_code == 200
    one = read(client, f"{HERE}changes/?from=1&to=2&path={quoted(name)}")
    assert one.count('<section class="diff"') == 1
    client.post(f"{HERE}changes/back/", {"from": "1", "path": quoted(name), "confirmed": "yes"})
    assert Operation.objects.get().args == {"number": 1, "paths_b64": [base64.b64encode(name).decode()]}


def test_a_text_that_is_large_has_its_beginning_and_its_end(workspace, alice, browser_of, read):
    client = browser_of(alice)
    text = read(client, f"{HERE}files/?at=1&path=large")
    assert "Too large to show" in text
    assert text.index("first line") < text.index("… last part:") < text.index("last line")
    assert len(text) < 200_000
    saved = b"".join(client.get(f"{HERE}files/raw/?at=1&path=large").streaming_content)
    assert saved == b"first line\n" + LINE * 30_000 + b"last line\n"


def test_what_is_no_text_says_so_whatever_its_size(workspace, alice, browser_of, read):
    text = read(browser_of(alice), f"{HERE}files/?at=1&path=binary")
    assert "Not text." in text
    assert "Too large" not in text


def test_a_change_of_a_large_text_does_not_say_not_text(workspace, alice, browser_of, read):
    client = browser_of(alice)
    text = read(client, f"{HERE}changes/?from=1&to=2&path=huge")
    assert "Too large to show (8.3" in text
    assert "Not text" not in text
    link = unescape(re.search(r'href="([^"]*files/raw/[^"]*)"', text)[1])
    assert b"".join(client.get(link).streaming_content) == LINE * 300_000


def test_a_file_larger_than_what_is_sent_in_one_piece_downloads(workspace, alice, browser_of, settings):
    settings.HANDRAIL_FILE_BYTES = 4096
    saved = browser_of(alice).get(f"{HERE}files/raw/?at=2&path=huge")
    assert b"".join(saved.streaming_content) == LINE * 300_000


def test_a_link_looks_like_a_link(workspace, alice, browser_of, read):
    client = browser_of(alice)
    text = read(client, f"{HERE}files/?at=2")
    assert 'link</span> → <span class="exact">else/where</span>' in text
    assert "symbolic link" in read(client, f"{HERE}changes/?from=1&to=2&path=link")
