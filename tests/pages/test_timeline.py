"""The timeline: what changed files, and what a part that went back, a push or a pin did."""

from datetime import timedelta

from dashboard.database import clock
from dashboard.event_log.sentences import WORDS
from dashboard.models import Actor
from tests.pages.conftest import PUSH, tight
from workspaces import lifecycle
from workspaces.models import Command, Contact, Operation, Run, Runner, Snapshot
from workspaces.models.snapshots import SOME_PATHS
from workspaces.pages.timeline import EVENT_LABELS

HERE = "/w/payments/repo-task-1/"
ALICE = Actor("person", "1", "alice")


def test_a_part_a_push_and_a_pin_stand_on_it(workspace, alice, browser_of, read):
    lifecycle.record(workspace, ALICE, "file.hunk_reverted", {"path": "src/app.py", "snapshot": 2})
    lifecycle.record(workspace, ALICE, "workspace.pushed", {"branch": "b", "ok": True, "reason": "Pushed ab to b."})
    lifecycle.record(workspace, ALICE, "workspace.pushed", {"branch": "c", "ok": False, "reason": "git said: no"})
    signed = {"kind": "commit", "sha": "ab" * 20, "subject": "Say <hello>"}
    lifecycle.record(workspace, ALICE, "workspace.commit_signed", signed)
    lifecycle.pin(workspace.head, True, by=ALICE)
    text = tight(read(browser_of(alice), HERE))
    for words in (
        'Reverted part of a file</span><span class="row-meta">alice · src/app.py · to snapshot 2',
        'Pushed</span><span class="row-meta">alice: Pushed ab to b.',
        'Could not be pushed</span><span class="row-meta">alice: git said: no',
        "alice ·<code>abababababab</code>Say &lt;hello&gt;",
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


def snapshot_of(workspace, number, *, kind="action", at=None, **fields):
    made = Snapshot.objects.create(
        workspace=workspace,
        number=number,
        tree=bytes([number]) * 32,
        parent=workspace.head,
        kind=kind,
        entries=12,
        bytes=1,
        added_bytes=0,
        created_at=at or clock.now(),
        **fields,
    )
    workspace.head = made
    workspace.save(update_fields=["head"])
    return made


def test_an_action_its_snapshot_and_its_command_are_one_row(workspace, ask, decide, bob, alice, browser_of, read):
    action = ask(PUSH, workspace=workspace)
    before, after = snapshot_of(workspace, 3, label=f"before A-{action.number}"), snapshot_of(workspace, 4)
    operation = Operation.objects.create(
        workspace=workspace, kind="broker", phase="settled", due_at=clock.now(), outcome={"ok": True}
    )
    ran = Command.objects.create(workspace=workspace, operation=operation, argv=["true"], shown="git push origin main")
    type(action).objects.filter(pk=action.pk).update(snapshot_before=before, operation=operation, status="succeeded")
    text = read(browser_of(alice), HERE)
    assert [f'id="{kind}-{row.pk}"' in text for kind, row in (("action", action), ("snapshot", before))] == [
        True,
        False,
    ]
    assert (f'id="command-{ran.pk}"' in text, f"/commands/{ran.pk}/" in text) == (False, True)
    row = text[text.index(f'id="action-{action.pk}"') :].partition("</li>")[0]
    assert f"?from={before.number}&amp;to={after.number}" in row
    assert f"snapshot {before.number}" in row


def test_rows_stand_under_their_days_and_a_day_can_be_chosen(workspace, alice, browser_of, read):
    now = clock.now()
    old = snapshot_of(workspace, 3, kind="manual", label="ten days old", at=now - timedelta(days=10))
    snapshot_of(workspace, 4, kind="manual", label="of today", at=now)
    text = read(browser_of(alice), HERE)
    assert [day in text for day in (">Today</li>", f'id="day-{old.created_at.date()}"')] == [True, True]
    assert text.index("of today") < text.index(f'id="day-{old.created_at.date()}"') < text.index("ten days old")
    then = read(browser_of(alice), f"{HERE}?day={old.created_at.date()}")
    assert ("ten days old" in then, "of today" in then) == (True, False)
    assert "of today" in read(browser_of(alice), f"{HERE}?day=2026-99-99")


def test_calls_in_a_row_that_changed_nothing_are_folded(workspace, ask, alice, browser_of, read):
    for number in range(3, 6):
        action = ask({"command": f"ls {number}"}, workspace=workspace)
        type(action).objects.filter(pk=action.pk).update(status="succeeded")
    text = tight(read(browser_of(alice), HERE))
    assert "3 auto-approved calls that changed no files" in text
    ask(PUSH, workspace=workspace)
    assert text.index('class="row row-fold"') < text.index(f'id="action-{action.pk}"')


def test_small_restores_in_a_row_are_one_row_and_a_whole_one_is_its_own(workspace, alice, browser_of, read):
    """As the runner leaves them: one snapshot before, then a snapshot and an event for each."""

    def restored(number, **about):
        snapshot_of(workspace, number, kind="restored", label="restored 2" + (SOME_PATHS if about else ""))
        lifecycle.record(workspace, ALICE, "workspace.restored", {"snapshot": 2} | about)

    snapshot_of(workspace, 3, kind="safety", label="before restoring 2")
    for number in range(4, 19):
        restored(number, some_paths=True)
    text = tight(read(browser_of(alice), HERE))
    assert "15 restores of some files" in text
    assert text.count('class="row row-fold"') == 1
    assert 'id="snapshot-' in text.partition("15 restores of some files")[2]  # inside of it
    restored(19)
    text = tight(read(browser_of(alice), HERE))
    assert (text.index(">Restored") < text.index("15 restores of some files"), text.count("row-fold")) == (True, 1)


def test_two_small_restores_are_shown_as_they_are(workspace, alice, browser_of, read):
    for number in (3, 4):
        snapshot_of(workspace, number, kind="restored", label=f"restored 2{SOME_PATHS}")
        lifecycle.record(workspace, ALICE, "workspace.restored", {"snapshot": 2, "some_paths": True})
    assert "row-fold" not in read(browser_of(alice), HERE)


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


# Events of a workspace that its timeline leaves out, with the place that shows them.
NOT_EVENTS = {
    "snapshot.taken": "a row of its own",
    "snapshot.opened_as_folder": "on the page of the snapshot",
    "snapshot.closed_as_folder": "on the page of the snapshot",
    "snapshot.trashed": "on the Snapshots tab",
    "snapshot.untrashed": "on the Snapshots tab",
    "workspace.connected": "the first row says it",
    "workspace.ready": "the first row says it",
    "workspace.rehearsed": "on the card",
    "workspace.environment_changed": "the new setup is a row",
    "workspace.described": "in the header",
    "workspace.purged": "it has no page any more",
}


def test_each_event_of_a_workspace_is_on_the_timeline_or_named_as_left_out():
    known = {verb for verb in WORDS if verb.startswith(("workspace.", "snapshot."))}
    shown = {verb for verb in EVENT_LABELS if verb.startswith(("workspace.", "snapshot."))}
    assert (known - shown, shown - known) == (set(NOT_EVENTS), set())
