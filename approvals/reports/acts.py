"""What ran in a workspace in a span of time and may have changed its files: actions, commands, terminals, edits."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Prefetch, Q

from approvals.evaluation.calls import beneath, parsed, root_of
from approvals.models import Action, Decision, Revision, Status
from dashboard.models import Event
from workspaces.models import Command, Snapshot, Terminal
from workspaces.programs.terminals import name_of

MAX_ACTS = 3000  # of each kind, the newest
# What makes a snapshot of its own, right after it changed the files.
SNAPSHOT_CAUSES = ("setup", "fork", "restored", "revision")
WRITING = ("write", "delete")  # effects of a shell command whose targets are files that it changes
FILE_EVENTS = ("file.written", "file.deleted", "file.hunk_reverted", "file.taken")


@dataclass(frozen=True, eq=False)
class Act:
    """Something that ran. `kind`: action, command, terminal, event, snapshot; `thing` is its row.

    `paths` are the files below the workspace's root that it says it changes; `approval` is one of "", person, grant,
    policy, and `approver` the person's name.
    """

    kind: str
    thing: object
    began: datetime
    ended: datetime | None
    title: str
    who: str
    paths: frozenset = frozenset()
    approval: str = ""
    approver: str = ""
    call: dict | None = None

    def was_on(self, since: datetime | None, until: datetime | None) -> bool:
        """Return True if it ran at some time in the span; None is an open end."""
        starts_in_time = until is None or self.began <= until
        return starts_in_time and (since is None or self.ended is None or self.ended >= since)


def acts_between(workspace, since: datetime | None, until: datetime | None) -> list[Act]:
    """Return what ran in the span, by its beginning, in a constant number of queries; None is an open end."""
    found = [
        *_actions(workspace, since, until),
        *_commands(workspace, since, until),
        *_terminals(workspace, since, until),
        *_events(workspace, since, until),
        *_snapshots(workspace, since, until),
    ]
    return sorted(found, key=lambda act: act.began)


def _in_span(began: str, ended: Q, since, until) -> Q:
    """Return the filter of what began before the span's end and matches `ended`, its end after the beginning."""
    inside = Q(**{f"{began}__isnull": False})
    if until is not None:
        inside &= Q(**{f"{began}__lte": until})
    return inside & ended if since is not None else inside


def _actions(workspace, since, until):
    # How long one of unknown outcome ran is unknown: it counts where it began.
    ended = Q(ended_at__gte=since) | Q(status=Status.RUNNING) | Q(consumed_at__gte=since)
    final = Prefetch("decisions", Decision.objects.filter(final=True).select_related("user"), to_attr="final")
    rows = Action.objects.filter(_in_span("consumed_at", ended, since, until), workspace=workspace)
    rows = rows.select_related("agent", "grant__by").prefetch_related(final).order_by("-consumed_at")[:MAX_ACTS]
    actions = list(rows)
    current = Revision.objects.filter(action__in=actions, number=F("action__revision"))
    revisions = {revision.action_id: revision for revision in current}
    for action in actions:
        call, commands = parsed(revisions[action.pk].canonical), revisions[action.pk].commands
        approval, approver = _approval(action)
        ended_at = action.consumed_at if action.status == Status.UNCERTAIN else action.ended_at
        paths = frozenset(_paths(workspace, call, commands))
        yield Act(
            "action",
            action,
            action.consumed_at,
            ended_at,
            action.title,
            action.agent.name,
            paths,
            approval,
            approver,
            call,
        )


def _approval(action: Action) -> tuple[str, str]:
    if action.final:
        return "person", action.final[0].user.get_username()
    return ("grant", action.grant.by.get_username()) if action.grant else ("policy", "")


def _paths(workspace, call: dict, commands: list):
    """Yield the files that a call changes: the argument of a tool, and what parts of a shell command write."""
    root = root_of(workspace)
    cwd = call["cwd"] or root
    if call["tool"] in ("Edit", "Write", "MultiEdit", "NotebookEdit"):
        names = [(call["arguments"].get(name), cwd) for name in ("file_path", "notebook_path")]
    else:
        parts = (part for part in commands if part.get("kind") in WRITING)
        names = [(target, part.get("cwd") or cwd) for part in parts for target in part.get("targets", ())]
    for name, folder in names:
        inside = beneath(name, folder, root) if isinstance(name, str) and name else None
        if inside:
            yield inside.encode("utf-8", "surrogateescape")


def _commands(workspace, since, until):
    own = Q(operation__action=None)  # an action's own command is told by the action
    ended = Q(ended_at__gte=since) | Q(ended_at=None)
    rows = Command.objects.filter(own & _in_span("started_at", ended, since, until), workspace=workspace)
    for row in rows.order_by("-started_at")[:MAX_ACTS]:
        yield Act("command", row, row.started_at, row.ended_at, row.shown, row.by.get("label", ""))


def _terminals(workspace, since, until):
    ended = Q(ended_at__gte=since) | Q(ended_at=None)
    rows = Terminal.objects.filter(_in_span("created_at", ended, since, until), workspace=workspace)
    for row in rows.order_by("-created_at")[:MAX_ACTS]:
        yield Act("terminal", row, row.created_at, row.ended_at, name_of(row), row.opened_by.get("label", ""))


def _events(workspace, since, until):
    rows = Event.objects.filter(
        _in_span("at", Q(at__gte=since), since, until), team=workspace.team_id, workspace_id=workspace.pk
    )
    for row in rows.filter(verb__in=FILE_EVENTS).order_by("-at")[:MAX_ACTS]:
        paths = frozenset([row.data["path"].encode("utf-8", "surrogateescape")] if row.data.get("path") else ())
        yield Act("event", row, row.at, row.at, row.verb, row.actor_label, paths)


def _snapshots(workspace, since, until):
    rows = Snapshot.objects.filter(_in_span("created_at", Q(created_at__gt=since), since, until), workspace=workspace)
    for row in rows.filter(kind__in=SNAPSHOT_CAUSES).order_by("-created_at")[:MAX_ACTS]:
        yield Act("snapshot", row, row.created_at, row.created_at, row.label or row.kind, row.by.get("label", ""))
