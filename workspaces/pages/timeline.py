"""The timeline of a workspace: snapshots, actions, commands, terminals and events, newest first."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F
from django.utils.translation import gettext, gettext_lazy

from dashboard.models import Event
from workspaces.models import Command
from workspaces.terminals import name_of

ENTRIES_PER_PAGE = 60
# Events on the timeline: those that no snapshot, action or command on it shows already.
EVENT_LABELS = {
    "workspace.created": gettext_lazy("Created"),
    "workspace.forked": gettext_lazy("Forked"),
    "workspace.paused": gettext_lazy("Paused"),
    "workspace.stopped": gettext_lazy("Stopped"),
    "workspace.resumed": gettext_lazy("Resumed"),
    "workspace.restored": gettext_lazy("Restored"),
    "workspace.restore_failed": gettext_lazy("Restore failed"),
    "workspace.operation_stopped": gettext_lazy("Operation cancelled"),
    "workspace.ended": gettext_lazy("Exited"),
    "workspace.end_failed": gettext_lazy("Exited; cleanup pending"),
    "workspace.resume_failed": gettext_lazy("Resume failed"),
    "workspace.maintenance_failed": gettext_lazy("The maintenance script failed"),
    "workspace.proof_failed": gettext_lazy("Resumed with files that differ"),
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
    "workspace.unreachable": gettext_lazy("Unreachable"),
    "workspace.reachable": gettext_lazy("Reachable again"),
    "workspace.root_changed": gettext_lazy("Image or setup rebuilt"),
    "workspace.failed": gettext_lazy("Failed"),
    "workspace.retried": gettext_lazy("Retried"),
    "workspace.warned": gettext_lazy("Unused: will move to the trash"),
    "workspace.kept": gettext_lazy("Kept"),
    "action.ran_differently": gettext_lazy("ALARM: ran another command than was allowed"),
    "action.read_at_code_host": gettext_lazy("Read at the code host"),
    "workspace.hook_missing": gettext_lazy("Not gated: the hook is missing or changed"),
    "workspace.hook_in_place": gettext_lazy("Gated again"),
    "workspace.held": gettext_lazy("Calls are held in a box"),
    "workspace.not_held": gettext_lazy("Calls are not held"),
    "workspace.forgot": gettext_lazy("Old output or the agent's home was deleted"),
    "workspace.trashed": gettext_lazy("Moved to the trash"),
    "workspace.untrashed": gettext_lazy("Restored from trash"),
    "secret.kept": gettext_lazy("Secret allowed in snapshots"),
    "secret.in_home": gettext_lazy("Secret value found in its home folder"),
    "workspace.agents_changed": gettext_lazy("Changed which agents may work here"),
    "workspace.pushed": gettext_lazy("Pushed"),
    "file.hunk_reverted": gettext_lazy("Reverted part of a file"),
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
    "network.revoked": gettext_lazy("Revoked a host"),
}


CHANGE_FILES = ("workspace.restored", "workspace.revised", "workspace.rebuilt", "file.hunk_reverted")


@dataclass
class Entry:
    """An entry of the timeline. `kind`: snapshot, action, command, terminal, event."""

    kind: str
    at: datetime
    thing: object
    words: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.thing.pk}"


@dataclass
class Timeline:
    """A page of entries, and the time to continue from ("" on the last page)."""

    entries: list
    older: str


def timeline_of(workspace, *, before: str = "", only_files: bool = False) -> Timeline:
    """Return at most ENTRIES_PER_PAGE entries before a time (ISO 8601).

    With `only_files`: snapshots whose tree differs from their parent's, and events of CHANGE_FILES.
    """
    until = _moment(before)
    snapshots = workspace.snapshots.exclude(tree=F("parent__tree")) if only_files else workspace.snapshots.all()
    entries = [Entry("snapshot", s.created_at, s) for s in _newest(snapshots, "created_at", until)]
    if not only_files:
        actions = workspace.actions.select_related("agent__owner", "team")
        entries += [Entry("action", a.created_at, a) for a in _newest(actions, "created_at", until)]
        commands = Command.objects.filter(workspace=workspace).select_related("operation")
        entries += [Entry("command", c.created_at, c) for c in _newest(commands, "created_at", until)]
        opened = workspace.terminals.select_related("operation")
        entries += [Entry("terminal", t.created_at, t, name_of(t)) for t in _newest(opened, "created_at", until)]
    events = Event.objects.filter(
        team=workspace.team_id, workspace_id=workspace.pk, verb__in=CHANGE_FILES if only_files else EVENT_LABELS
    )
    entries += [Entry("event", e.at, e, _words(e)) for e in _newest(events, "at", until)]
    entries.sort(key=lambda entry: entry.at, reverse=True)
    shown = entries[:ENTRIES_PER_PAGE]
    return Timeline(shown, shown[-1].at.isoformat() if len(entries) > ENTRIES_PER_PAGE else "")


def _words(event) -> str:
    if event.verb == "workspace.pushed" and not event.data.get("ok"):
        return gettext("Could not be pushed")
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
