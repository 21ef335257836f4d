"""The timeline of a workspace: what happened, newest first, one row for one act.

An action, the snapshot before it and the command that carried it out are one row. Rows stand under their days; calls
and snapshots in a row that changed nothing are folded, and so are restores of some files.
"""

import time
from bisect import bisect_right
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby

from django.db.models import Exists, F, OuterRef
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Event
from dashboard.text.moments import long_date
from workspaces import extensions
from workspaces.changes import changed_lines
from workspaces.changes.comparisons import Lines
from workspaces.models import Command
from workspaces.models.snapshots import SOME_PATHS
from workspaces.programs.checks import counted
from workspaces.programs.terminals import name_of

ENTRIES_PER_PAGE = 60
FOLDED_FROM = 3  # as many quiet entries in a row are one
COUNTING_SECONDS = 0.25  # for counting changed lines on one page; what is counted is cached
QUIET_SNAPSHOTS = ("periodic", "end", "safety")
# Events on the timeline: those that no snapshot, action or command on it shows already.
EVENT_LABELS = {
    "workspace.created": gettext_lazy("Created"),
    "workspace.forked": gettext_lazy("Forked"),
    "workspace.paused": gettext_lazy("Paused"),
    "workspace.stopped": gettext_lazy("Stopped"),
    "workspace.archived": gettext_lazy("Archived: its files left the host"),
    "workspace.moved": gettext_lazy("Moved to another place"),
    "workspace.move_failed": gettext_lazy("Could not be moved"),
    "workspace.host_lost": gettext_lazy("Its host was lost"),
    "workspace.lead_taken": gettext_lazy("A host took over what runs in it"),
    "workspace.returned": gettext_lazy("Its lost host came back with its files"),
    "workspace.return_kept": gettext_lazy("Kept what came back as a fork"),
    "workspace.return_dropped": gettext_lazy("Left what came back behind"),
    "workspace.archive_failed": gettext_lazy("Could not be archived"),
    "workspace.unarchived": gettext_lazy("Its files came back from the archive"),
    "workspace.handed_over": gettext_lazy("Handed over"),
    "workspace.agent_refused": gettext_lazy("Refused an agent, as another was at work"),
    "notes.edited": gettext_lazy("Edited the notes"),
    "comments.sent": gettext_lazy("Sent comments on lines of a diff"),
    "artifact.kept": gettext_lazy("Kept files as an artifact"),
    "environment.layer_kept": gettext_lazy("Kept what was installed in its environment"),
    "checkpoint.deleted": gettext_lazy("Deleted a checkpoint"),
    "checkpoint.failed": gettext_lazy("Could not keep a checkpoint"),
    "checkpoint.kept": gettext_lazy("Kept a checkpoint"),
    "workspace.checkpoint_failed": gettext_lazy("A checkpoint could not be restored"),
    "workspace.checkpoint_restored": gettext_lazy("Restored a checkpoint"),
    "snapshot.purged": gettext_lazy("Purged snapshot"),
    "workspace.resumed": gettext_lazy("Resumed"),
    "workspace.restored": gettext_lazy("Restored"),
    "workspace.restore_failed": gettext_lazy("Restore failed"),
    "workspace.operation_stopped": gettext_lazy("Operation cancelled"),
    "workspace.ended": gettext_lazy("Exited"),
    "workspace.end_failed": gettext_lazy("Exited; cleanup pending"),
    "workspace.resume_failed": gettext_lazy("Resume failed"),
    "workspace.maintenance_failed": gettext_lazy("The maintenance script failed"),
    "workspace.proof_failed": gettext_lazy("Resumed with files that differ"),
    "workspace.watch_alarm": gettext_lazy("Watching missed a change and is off"),
    "workspace.proven": gettext_lazy("Compared every byte"),
    "workspace.found_kept": gettext_lazy("Current files kept"),
    "workspace.kept_awake": gettext_lazy("Kept running"),
    "workspace.revised": gettext_lazy("Source updated"),
    "workspace.revision_refused": gettext_lazy("Source update refused"),
    "workspace.rebuilt": gettext_lazy("Rebuilt"),
    "workspace.rebuild_failed": gettext_lazy("Rebuild failed"),
    "workspace.nearly_full": gettext_lazy("Nearly full"),
    "workspace.frozen": gettext_lazy("Frozen: disk full"),
    "workspace.thawed": gettext_lazy("Unfrozen"),
    "workspace.orphan_stopped": gettext_lazy("Stopped a leftover program"),
    "workspace.dismissed": gettext_lazy("Dismissed a problem"),
    "workspace.unreachable": gettext_lazy("Can't be reached"),
    "workspace.reachable": gettext_lazy("Reachable again"),
    "workspace.files_lost": gettext_lazy("Files were gone, snapshot restored"),
    "workspace.root_changed": gettext_lazy("Image or setup rebuilt"),
    "workspace.failed": gettext_lazy("Failed"),
    "workspace.retried": gettext_lazy("Retried"),
    "workspace.warned": gettext_lazy("Unused: will move to the trash"),
    "workspace.kept": gettext_lazy("Kept"),
    "action.ran_differently": gettext_lazy("ALARM: ran another command than was allowed"),
    "action.read_at_code_host": gettext_lazy("Read at the code host"),
    "workspace.hook_missing": gettext_lazy("Not gated: the hook is missing or changed"),
    "workspace.other_hook": gettext_lazy("ALARM: another hook could change calls after they were judged"),
    "workspace.hook_in_place": gettext_lazy("Gated again"),
    "workspace.held": gettext_lazy("Calls are held in a box"),
    "workspace.not_held": gettext_lazy("Calls are not held"),
    "workspace.forgot": gettext_lazy("Old output or the agent's home was deleted"),
    "workspace.trashed": gettext_lazy("Moved to the trash"),
    "workspace.untrashed": gettext_lazy("Restored from trash"),
    "secret.kept": gettext_lazy("Secret allowed in snapshots"),
    "secret.in_home": gettext_lazy("Secret value found in its home folder"),
    "workspace.agents_changed": gettext_lazy("Changed which agents may work here"),
    "workspace.commit_signed": gettext_lazy("Signed with the team's key"),
    "workspace.pull_request": gettext_lazy("Opened a pull request"),
    "workspace.pushed": gettext_lazy("Pushed"),
    "workspace.taken_back": gettext_lazy("Took back what left it"),
    "file.hunk_reverted": gettext_lazy("Reverted part of a file"),
    "file.taken": gettext_lazy("Took a file of another workspace"),
    "snapshot.pinned": gettext_lazy("Pinned snapshot"),
    "snapshot.unpinned": gettext_lazy("Unpinned snapshot"),
    "file.appeared": gettext_lazy("A protected path appeared while an agent's program ran in the background"),
    "file.quarantined": gettext_lazy("Moved a protected path into quarantine"),
    "network.blocked": gettext_lazy("Blocked a connection"),
    "network.host_port_closed": gettext_lazy("Took back a port of this machine"),
    "network.host_port_opened": gettext_lazy("Let the box reach a port of this machine"),
    "network.port_closed": gettext_lazy("Closed a forwarded port"),
    "network.port_forwarded": gettext_lazy("Forwarded a port"),
    "network.allowed": gettext_lazy("Allowed a host"),
    "workspace.preview_opened": gettext_lazy("Opened a preview of a port"),
    "network.revoked": gettext_lazy("Revoked a host"),
}


SMALL_RESTORES = ("file.hunk_reverted", "file.taken")
CHANGE_FILES = (
    "workspace.restored",
    "workspace.checkpoint_restored",
    "workspace.revised",
    "workspace.rebuilt",
    "file.hunk_reverted",
    "file.taken",
)


@dataclass
class Entry:
    """An entry of the timeline. `kind`: snapshot, action, command, terminal, message, event.

    `since` and `until` are the numbers of the snapshots around an action or before a snapshot, None if there is none;
    `lines` are those changed between them, None if that is unknown.
    """

    kind: str
    at: datetime
    thing: object
    words: str = ""
    since: int | None = None
    until: int | None = None
    lines: Lines | None = None

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.thing.pk}"

    @property
    def is_quiet(self) -> bool:
        """True for what nobody was asked for and that changed no file: it is folded with its like."""
        if self.lines and self.lines.files:
            return False
        if self.kind == "snapshot":
            return self.thing.kind in QUIET_SNAPSHOTS and not self.thing.label
        return self.kind == "action" and self.thing.tier in ("low", "medium") and self.thing.status == "succeeded"

    @property
    def is_small_restore(self) -> bool:
        """True for an event that some files, or a part of one, were restored."""
        if self.kind != "event":
            return False
        return self.thing.verb in SMALL_RESTORES or bool(self.thing.data.get("some_paths"))

    @property
    def like(self) -> str:
        """What it is folded with in a row: "quiet", "restores", or "" for nothing."""
        if self.is_small_restore:
            return "restores"
        if self.kind == "snapshot" and (self.thing.label.endswith(SOME_PATHS) or self._is_before_a_restore):
            return "restores"
        return "quiet" if self.is_quiet else ""

    @property
    def _is_before_a_restore(self) -> bool:
        return self.thing.kind == "safety" and bool(self.thing.label)


@dataclass
class Fold:
    """Quiet entries, or small restores with their snapshots, that follow each other."""

    entries: list[Entry]
    kind: str = "fold"

    @property
    def id(self) -> str:
        return f"fold-{self.entries[-1].id}"  # the oldest one: the fold keeps its name when it grows

    @property
    def calls(self) -> int:
        return sum(entry.kind == "action" for entry in self.entries)

    @property
    def restores(self) -> int:
        return sum(entry.is_small_restore for entry in self.entries)

    @property
    def snapshots(self) -> int:
        return 0 if self.restores else len(self.entries) - self.calls


@dataclass
class Heading:
    """The day of the rows below it."""

    day: date
    kind: str = "day"

    @property
    def id(self) -> str:
        return f"day-{self.day.isoformat()}"

    @property
    def words(self) -> str:
        ago = (timezone.localdate() - self.day).days
        return {0: gettext("Today"), 1: gettext("Yesterday")}.get(ago) or long_date(self.day)


@dataclass
class Timeline:
    """A page of rows (Heading, Entry or Fold), and the time to continue from ("" on the last page)."""

    rows: list
    older: str


def timeline_of(workspace, *, before: str = "", day: str = "", only_files: bool = False) -> Timeline:
    """Return at most ENTRIES_PER_PAGE entries before a time (ISO 8601), or up to the end of a day.

    With `only_files`: snapshots whose tree differs from their parent's, and events of CHANGE_FILES.
    """
    until = _moment(before) or _end_of(day)
    snapshots = workspace.snapshots.select_related("parent")
    if only_files:
        snapshots = snapshots.exclude(tree=F("parent__tree"))
    else:  # the row of an action stands for the snapshot before it
        actions_after = workspace.actions.filter(snapshot_before=OuterRef("pk"))
        snapshots = snapshots.filter(~Exists(actions_after.order_by()))
    entries = [Entry("snapshot", s.created_at, s) for s in _newest(snapshots, "created_at", until)]
    if not only_files:
        actions = workspace.actions.select_related("agent__owner", "team", "snapshot_before", "operation__command")
        entries += [Entry("action", a.created_at, a) for a in _newest(actions, "created_at", until)]
        commands = Command.objects.filter(workspace=workspace, operation__action=None)
        commands = counted(commands).select_related("operation")
        entries += [Entry("command", c.created_at, c) for c in _newest(commands, "created_at", until)]
        opened = workspace.terminals.select_related("operation")
        entries += [Entry("terminal", t.created_at, t, name_of(t)) for t in _newest(opened, "created_at", until)]
        said = _newest(extensions.ports.messages_in(workspace), "at", until)
        entries += [Entry("message", m.at, m) for m in said]
    events = Event.objects.filter(
        team=workspace.team_id, workspace_id=workspace.pk, verb__in=CHANGE_FILES if only_files else EVENT_LABELS
    )
    entries += [Entry("event", e.at, e, _event_text(e)) for e in _newest(events, "at", until)]
    entries.sort(key=lambda entry: entry.at, reverse=True)
    shown = entries[:ENTRIES_PER_PAGE]
    _count_lines(workspace, shown)
    return Timeline(_rows(shown), shown[-1].at.isoformat() if len(entries) > ENTRIES_PER_PAGE else "")


def _rows(entries: list[Entry]) -> list:
    """Put the entries under their days, and fold those in a row that are quiet or small restores."""
    rows = []
    for day, of_day in groupby(entries, key=lambda entry: timezone.localdate(entry.at)):
        rows.append(Heading(day))
        for like, run in groupby(of_day, key=lambda entry: entry.like):
            fold = Fold(list(run))
            many = fold.restores if like == "restores" else len(fold.entries)
            rows += [fold] if like and many >= FOLDED_FROM else fold.entries
    return rows


def _count_lines(workspace, entries: list[Entry]):
    """Set the snapshots around each entry and the lines changed between them, as far as the time allows."""
    begins = {entry.id: _snapshot_before(entry) for entry in entries}
    numbers = [snapshot.number for snapshot in begins.values() if snapshot]
    if not numbers:
        return
    known = workspace.snapshots.filter(number__gte=min(numbers), number__lte=max(numbers) + ENTRIES_PER_PAGE)
    later = list(known.order_by("number").values_list("number", "tree"))
    places = [number for number, _ in later]
    deadline = time.monotonic() + COUNTING_SECONDS
    for entry in entries:
        if (before := begins[entry.id]) is None:
            continue
        entry.since, at = before.number, bisect_right(places, before.number)
        if at < len(later):
            entry.until, tree = later[at]
            entry.lines = changed_lines.between(workspace.team_id, before.tree_hex, bytes(tree).hex(), until=deadline)


def _snapshot_before(entry: Entry):
    """Return the snapshot that the entry's changes begin at, None if there is none."""
    if entry.kind == "snapshot":
        return entry.thing.parent
    return entry.thing.snapshot_before if entry.kind == "action" else None


def _event_text(event) -> str:
    if event.verb == "workspace.pushed" and not event.data.get("ok"):
        return gettext("Could not be pushed")
    if event.verb == "workspace.pull_request" and not event.data.get("ok"):
        return gettext("Could not open a pull request")
    number = event.data.get("number")
    return f"{EVENT_LABELS[event.verb]} {number}" if event.verb.startswith("snapshot.") else EVENT_LABELS[event.verb]


def _newest(rows, column: str, until):
    rows = rows.filter(**{f"{column}__lt": until}) if until else rows
    return rows.order_by(f"-{column}")[: ENTRIES_PER_PAGE + 1]


def _moment(text: str):
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _end_of(day: str) -> datetime | None:
    """Return the end of a day (ISO 8601) by the reader's clock; None for anything else."""
    try:
        found = parse_date(day)
        return found and timezone.make_aware(datetime.combine(found + timedelta(days=1), datetime.min.time()))
    except (ValueError, OverflowError):
        return None
