"""What deletes asks first: a page says what is deleted, and its button does it."""

import re
from html import unescape
from pathlib import Path

import pytest
from django.conf import settings

from dashboard.database import clock
from workspaces.models import Operation, State
from workspaces.pages.header import Head
from workspaces.store.file_reader import LEFT_OUT

from .conftest import keep_tree, make_workspace

HERE = "/w/payments/repo-task-1/"
TEMPLATES = Path(settings.BASE_DIR) / "templates"
FORM = re.compile(r'<form\b(?P<tag>[^<]*?\{% url "(?P<name>[\w-]+)"[^%]*%\}[^>]*)>', re.S)
LOSES = re.compile(r"delete|remove|reset|discard|purge|trash|back")
# Addresses that one tap of a page may post to, and why nothing is lost by it.
MAY_POST = {
    "agent-run-discard": "below a fold that says what is restored, after a snapshot",
    "change-back": "asks, whatever the page, if it only deletes; the page that follows offers the undo",
    "hunk-back": "after a snapshot; the notice that follows has a button for the undo",
    "environment-go-back": "a new version; the newer one stays",
    "policy-go-back": "a new version; the newer one stays",
    "snapshot-trash": "below a fold that says how long the trash keeps it",
    "snapshot-untrash": "restores",
    "workspace-untrash": "restores",
    "workspace-network-back": "revokes a permission",
    "channel-remove": "an address for notifications, which can be added again",
    "device-remove": "an address for notifications, which can be added again",
    "person-remove": "below a fold; whoever was removed can be invited again",
    "view-remove": "a saved query",
    "log-target-remove": "an address for the log, which can be added again",
    "scrub-purge": "the page names what is purged and asks for the name to be typed",
    "retention-put-off": "keeps for longer",
    "approver-group-remove": "a list of names, which can be written again; what needs the group waits meanwhile",
    "callback-again": "sends the same message once more",
    "task-bring-back": "restores",
    "task-source-remove": "asks, whatever the page",
    "host-account-remove": "a name, which can be added again",
}


def posting_forms() -> set[str]:
    found = set()
    for template in TEMPLATES.rglob("*.html"):
        for form in FORM.finditer(template.read_text()):
            if 'method="post"' in form["tag"]:
                found.add(form["name"])
    return found


def test_no_button_of_a_page_deletes_with_one_tap():
    assert {name for name in posting_forms() if LOSES.search(name)} <= set(MAY_POST)


@pytest.mark.parametrize("state", State.values)
def test_no_button_of_a_workspaces_header_deletes_with_one_tap(team, agent, alice, state):
    from dashboard.people.access import caller_of

    made = make_workspace(team, agent, "repo-task-2", state=state)
    posts = [control.address for control in Head(made, caller_of(alice), "workspace").controls if control.posts]
    assert not [address for address in posts if LOSES.search(address.removeprefix("/w/payments/"))]


def test_a_reset_leads_to_the_page_that_asks(workspace, lena, browser_of, read):
    client = browser_of(lena)
    here = "/w/payments/repo-task-1/"
    assert "Reset to after setup…" in read(client, here)
    client.post(f"{here}reset/")
    asked = client.get(f"{here}reset/", follow=True)
    assert asked.request["PATH_INFO"] == f"{here}snapshots/1/restore/"
    assert "Restore repo-task-1 to snapshot 1?" in re.sub(r"\s+", " ", asked.content.decode())
    assert not Operation.objects.exists()


@pytest.fixture
def changed(team, workspace, tmp_path):
    """Two snapshots: the second has a file more, one less, and one that became a link's neighbour."""
    first, second = workspace.snapshots.order_by("number")
    first.tree = keep_tree(team, tmp_path / "a", {"old.txt": "old\n", "same.txt": "a\n"})
    second.tree = keep_tree(team, tmp_path / "b", {"new.txt": "new\n", "same.txt": "b\n"})
    first.save()
    second.save()
    return workspace


def test_a_file_that_was_added_is_removed_only_after_a_question(changed, lena, browser_of):
    client, here = browser_of(lena), "/w/payments/repo-task-1/changes/"
    page = re.sub(r"\s+", " ", client.get(f"{here}?from=1&to=2&path=new.txt").content.decode())
    form = re.search(r'<form class="diff-back".*?</form>', page)[0]
    assert "Remove this file (undo the addition)…" in form
    assert 'method="get"' in form
    asked = client.get(f"{here}back/", {"from": "1", "path": "new.txt"}).content.decode()
    assert "Remove new.txt?" in asked
    assert "new.txt is deleted: it is not in snapshot 1." in asked
    assert "saved as a snapshot first" in asked
    assert not Operation.objects.exists()
    confirm = dict(re.findall(r'<input type="hidden" name="(from|path|confirmed)" value="([^"]*)"', asked))
    client.post(f"{here}back/", confirm)
    assert Operation.objects.get().args["number"] == 1


def test_a_post_that_only_deletes_asks_as_the_page_does(changed, lena, browser_of):
    client, here = browser_of(lena), "/w/payments/repo-task-1/changes/"
    asked = client.post(f"{here}back/", {"from": "1", "path": "new.txt"})
    assert "new.txt is deleted: it is not in snapshot 1." in asked.content.decode()
    assert not Operation.objects.exists()
    client.post(f"{here}back/", {"from": "1", "path": "old.txt"})
    assert Operation.objects.count() == 1  # nothing is deleted by that


def test_freeing_space_says_what_it_deletes(team, alice, lena, browser_of):
    page = browser_of(alice).get("/storage/").content.decode()
    assert f'href="/storage/{team.slug}/collect/"' in page
    assert f'action="/storage/{team.slug}/collect/"' not in page
    asked = browser_of(alice).get(f"/storage/{team.slug}/collect/").content.decode()
    assert "no snapshot" in asked
    assert "deleted for good" in asked
    assert browser_of(lena).get(f"/storage/{team.slug}/collect/").status_code == 403
    assert not Operation.objects.exists()
    assert "deleted for good" in browser_of(alice).post(f"/storage/{team.slug}/collect/").content.decode()
    assert not Operation.objects.exists()
    browser_of(alice).post(f"/storage/{team.slug}/collect/", {"confirmed": "yes"})
    assert Operation.objects.get().kind == "store_collect"


@pytest.fixture
def unkept(workspace):
    """Snapshot 2 could not keep a socket, and left out what the environment leaves out."""
    skipped = [{"path": "sock", "reason": "a socket has no content to keep"}, {"path": "cache", "reason": LEFT_OUT}]
    workspace.snapshots.filter(number=2).update(skipped=skipped)
    return workspace


@pytest.mark.parametrize("page", ["snapshots/2/", "snapshots/2/restore/"])
def test_what_a_snapshot_could_not_keep_is_named_on_its_pages(unkept, lena, browser_of, read, page):
    text = read(browser_of(lena), f"/w/payments/repo-task-1/{page}")
    assert "<code>sock</code> <small>a socket has no content to keep</small>" in text
    assert "<code>cache</code>" not in text


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("restore", "/w/payments/repo-task-1/snapshots/2/restore/"),
        ("rebuild", "/w/payments/repo-task-1/rebuild/{}/undo/"),
    ],
)
def test_the_undo_of_an_operation_asks_and_names_what_it_does_not_bring_back(
    unkept, lena, browser_of, read, kind, address
):
    outcome = {"ok": True, "snapshot": 1, "safety_snapshot": 2, "created": 0, "changed": 1, "removed": 1, "version": 3}
    about = {"workspace": unkept, "kind": kind, "phase": "settled", "due_at": clock.now()}
    row = Operation.objects.create(**about, outcome=outcome)
    client, address = browser_of(lena), address.format(row.pk)
    text = read(client, f"/w/payments/repo-task-1/operations/{row.pk}/")
    assert f'href="{address}"> Undo: restore snapshot 2…' in text
    assert f'action="{address}"' not in text
    assert "<code>sock</code>" in text
    assert "<code>cache</code>" not in text
    for asked in (read(client, address), re.sub(r"\s+", " ", unescape(client.post(address).content.decode()))):
        assert "deleted" in asked or "Can't tell what would change" in asked
        assert '<input type="hidden" name="confirmed" value="yes">' in asked
        assert Operation.objects.get() == row


def test_a_file_that_changed_is_restored_and_one_that_went_is_brought_back_with_one_tap(changed, lena, browser_of):
    client, here = browser_of(lena), "/w/payments/repo-task-1/changes/"
    for name in ("same.txt", "old.txt"):
        page = re.sub(r"\s+", " ", client.get(f"{here}?from=1&to=2&path={name}").content.decode())
        forms = re.findall(r'<form class="diff-back".*?</form>', page)
        assert 'method="post"' in forms[0]
        assert "Restore this file from snapshot 1" in forms[0]


def test_the_question_says_what_is_wrong_with_its_point(changed, lena, browser_of):
    client, here = browser_of(lena), "/w/payments/repo-task-1/changes/"
    assert client.get(f"{here}back/", {"from": "nowhere:1", "path": "new.txt"}).status_code in (302, 404)
    assert client.get(f"{here}back/").status_code == 405


def test_a_person_who_may_not_restore_is_not_asked(changed, vera, mallory, browser_of):
    address = "/w/payments/repo-task-1/changes/back/?from=1&path=new.txt"
    assert browser_of(vera).get(address).status_code == 403
    assert browser_of(mallory).get(address).status_code == 404
