"""The timeline of a workspace: snapshots, actions, commands, terminals and moves on one rail, newest first."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.models import Event
from workspaces.models import Command
from workspaces.terminals import name_of

AT_ONCE = 60
# Events that say something which no snapshot, action or command on the rail says itself.
TOLD = {
    "workspace.created": "Created",
    "workspace.forked": "Forked",
    "workspace.paused": "Fell asleep",
    "workspace.stopped": "Stopped",
    "workspace.resumed": "Woke up",
    "workspace.restored": "Put back",
    "workspace.restore_failed": "Could not be put back",
    "workspace.move_stopped": "Was asked to stop half-way",
    "workspace.ended": "Ended by itself",
    "workspace.end_failed": "Has ended, and could not be cleared away yet",
    "workspace.resume_failed": "Could not be woken",
    "workspace.proof_failed": "Woke up with entries that differ",
    "workspace.proven": "Compared byte by byte",
    "workspace.found_kept": "Kept as it was found",
    "workspace.kept_awake": "Kept awake",
    "workspace.renewed": "Set up again",
    "workspace.renew_failed": "Could not be set up again",
    "workspace.nearly_full": "Nearly full",
    "workspace.frozen": "Stands still",
    "workspace.thawed": "Goes on",
    "workspace.orphan_stopped": "Something left over was stopped",
    "workspace.unreachable": "Cannot be reached",
    "workspace.reachable": "Can be reached again",
    "workspace.root_changed": "Its image or set-up was made again",
    "workspace.failed": "Broke",
    "workspace.retried": "Tried again",
    "workspace.warned": "Unused, so it will go to the trash",
    "workspace.kept": "Kept",
    "workspace.forgot": "Old output or the agent's home was deleted",
    "workspace.trashed": "Moved to the trash",
    "workspace.untrashed": "Brought back from the trash",
    "secret.kept": "A secret may stay in its snapshots",
    "secret.in_home": "A secret's value lies in its home folder",
    "network.blocked": "Held back a connection",
    "network.allowed": "Allowed a host",
    "network.taken_back": "Took back a host",
}


@dataclass
class Mark:
    """One thing on the rail. `kind`: snapshot, action, command, terminal, event."""

    kind: str
    at: datetime
    thing: object
    words: str = ""

    @property
    def id(self) -> str:
        return f"{self.kind}-{self.thing.pk}"


@dataclass
class Rail:
    marks: list
    older: str


def rail_of(workspace, *, before: str = "", only_files: bool = False) -> Rail:
    """At most AT_ONCE things before a moment (ISO 8601)."""
    until = _moment(before)
    marks = [Mark("snapshot", s.created_at, s) for s in _newest(workspace.snapshots.all(), "created_at", until)]
    if not only_files:
        actions = workspace.actions.select_related("agent__owner", "team")
        marks += [Mark("action", a.created_at, a) for a in _newest(actions, "created_at", until)]
        commands = Command.objects.filter(workspace=workspace).select_related("effect")
        marks += [Mark("command", c.created_at, c) for c in _newest(commands, "created_at", until)]
        opened = workspace.terminals.select_related("effect")
        marks += [Mark("terminal", t.created_at, t, name_of(t)) for t in _newest(opened, "created_at", until)]
    events = Event.objects.filter(team=workspace.team_id, workspace_id=workspace.pk, verb__in=TOLD)
    marks += [Mark("event", e.at, e, TOLD[e.verb]) for e in _newest(events, "at", until)]
    marks.sort(key=lambda mark: mark.at, reverse=True)
    shown = marks[:AT_ONCE]
    return Rail(shown, shown[-1].at.isoformat() if len(marks) > AT_ONCE else "")


def _newest(rows, column: str, until):
    rows = rows.filter(**{f"{column}__lt": until}) if until else rows
    return rows.order_by(f"-{column}")[: AT_ONCE + 1]


def _moment(text: str):
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None
