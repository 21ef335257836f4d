"""The timeline: what changed files, and what a part that went back, a push or a pin did."""

from datetime import timedelta

from dashboard import clock
from dashboard.models import Actor
from tests.pages.conftest import tight
from workspaces import lifecycle
from workspaces.models import Contact, Run, Runner, Snapshot

HERE = "/w/payments/repo-task-1/"
ALICE = Actor("person", "1", "alice")


def test_a_part_a_push_and_a_pin_stand_on_it(workspace, alice, browser_of, read):
    lifecycle.record(workspace, ALICE, "file.hunk_reverted", {"path": "src/app.py", "snapshot": 2})
    lifecycle.record(workspace, ALICE, "workspace.pushed", {"branch": "b", "ok": True, "reason": "Pushed ab to b."})
    lifecycle.record(workspace, ALICE, "workspace.pushed", {"branch": "c", "ok": False, "reason": "git said: no"})
    lifecycle.pin(workspace.head, True, by=ALICE)
    text = tight(read(browser_of(alice), HERE))
    for words in (
        'Reverted part of a file</span><span class="row-meta">alice · src/app.py · to snapshot 2',
        'Pushed</span><span class="row-meta">alice: Pushed ab to b.',
        'Could not be pushed</span><span class="row-meta">alice: git said: no',
        "Pinned snapshot 2</span>",
    ):
        assert words in text, words


def test_only_what_changed_files_leaves_out_what_did_not(workspace, command, alice, browser_of, read):
    same = Snapshot.objects.create(
        workspace=workspace,
        number=3,
        tree=workspace.head.tree,
        parent=workspace.head,
        kind="manual",
        label="nothing new",
        entries=12,
        bytes=1,
        added_bytes=0,
        created_at=clock.now(),
    )
    for verb in ("workspace.paused", "workspace.resumed", "workspace.restored", "file.hunk_reverted"):
        lifecycle.record(workspace, ALICE, verb, {"snapshot": 1})
    everything, files = (read(browser_of(alice), HERE + query) for query in ("", "?only=files"))
    shown = [f'id="snapshot-{same.pk}"', "Paused", "Resumed", "before lunch", "Restored<", "part of a file"]
    assert [words in everything for words in shown] == [True] * 6
    assert [words in files for words in shown] == [False, False, False, True, True, True]


def test_the_page_says_what_the_last_start_took(workspace, alice, browser_of, read):
    began = clock.now() - timedelta(minutes=5)
    runner = Runner.objects.create(host="here")
    Run.objects.create(
        workspace=workspace,
        runner=runner,
        started_at=began,
        ready_at=began + timedelta(seconds=2),
        first_useful_at=began + timedelta(seconds=31),
        setup_seconds=12.5,
    )
    words = "first successful command after 31.0 s"
    assert words in read(browser_of(alice), HERE)


def test_a_host_without_an_address_is_not_called_blocked(workspace, alice, browser_of, read):
    now = clock.now()
    told = {"phase": "agent", "port": 443, "method": "CONNECT", "allowed": False, "first_at": now, "last_at": now}
    Contact.objects.create(workspace=workspace, host="github.com", code="unresolved", count=2, **told)
    text = read(browser_of(alice), f"{HERE}network/")
    assert "Can't resolve <code>github.com</code>." in text
    assert "Nothing was blocked." in text
