"""One team at one moment: its rules, its holds, and what several layers look at, each read once."""

from datetime import datetime, timedelta
from functools import cached_property
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Value

from workspaces import extensions
from workspaces.models import Operation, Snapshot, State, Workspace
from workspaces.services.retention.holds import Held
from workspaces.services.retention.layers import TRASH, Item, Layer, Terms
from workspaces.services.retention.rules import Rules

DOWN = (State.PAUSED, State.STOPPED, State.ARCHIVED, State.FAILED)


class SnapshotRow(NamedTuple):
    """A snapshot that is not in the trash, as the rules see it."""

    pk: object
    workspace_id: object
    environment: str
    number: int
    kind: str
    created_at: datetime
    is_protected: bool


class WorkspaceRow(NamedTuple):
    pk: object
    key: str
    environment: str
    driver: str
    is_busy: bool


class Scope:
    """What a sweep or a preview of one team sees. `at` may be any time; `rules` may be ones that are not saved.

    `is_ahead` is for a later moment: an operation that is in progress now protects no snapshot then.
    """

    def __init__(self, team, at: datetime, rules: Rules | None = None, *, is_ahead: bool = False):
        self.team, self.at, self.is_ahead = team, at, is_ahead
        self.rules = rules or Rules.of(team)

    @cached_property
    def held(self) -> Held:
        return Held(self.team, self.at)

    def terms(self, layer: Layer, environment: str = "") -> Terms:
        return self.rules.in_force(layer, environment).terms

    def drop_date(self, environment: str = "") -> datetime:
        """Return when what goes to the trash now is deleted for good."""
        return self.at + timedelta(days=self.terms(TRASH, environment).days)

    @cached_property
    def workspaces(self) -> dict[object, WorkspaceRow]:
        """The team's workspaces that were not deleted for good, also those in the trash."""
        busy = Exists(Operation.objects.open().filter(workspace=OuterRef("pk")))
        is_busy = Value(False) if self.is_ahead else busy
        rows = Workspace.objects.filter(team=self.team, purged_at=None).annotate(is_busy=is_busy)
        columns = ("pk", "key", "environment__name", "environment__driver", "is_busy")
        return {row[0]: WorkspaceRow(*row) for row in rows.values_list(*columns)}

    def down(self):
        """Return the workspaces that are not up, not in the trash, have nothing to do, and are no connected folders."""
        down = Workspace.objects.kept().filter(team=self.team, state__in=DOWN, purged_at=None)
        busy = Operation.objects.open().filter(workspace=OuterRef("pk"))
        return down.filter(~Exists(busy)).not_connected_folders().select_related("environment", "team")

    @cached_property
    def snapshots(self) -> list[SnapshotRow]:
        """The snapshots that are not in the trash, by workspace, the newest first.

        Protected are those with a pin or a person's label, the first and the current one of a workspace, those that a
        new workspace is being made from, and all of a workspace with an operation in progress or in the trash.
        """
        used = self._used
        columns = ("pk", "workspace_id", "number", "kind", "created_at", "label", "pinned", "by")
        rows = Snapshot.objects.kept().filter(workspace__team=self.team).order_by("workspace_id", "-number")
        found = []
        for pk, workspace, number, kind, created_at, label, pinned, by in rows.values_list(*columns):
            if workspace not in self.workspaces:
                continue
            row = self.workspaces[workspace]
            named = is_named(kind, label, by)
            protected = pinned or named or pk in used or row.is_busy or workspace in self._trashed
            found.append(SnapshotRow(pk, workspace, row.environment, number, kind, created_at, protected))
        return found

    @cached_property
    def _trashed(self) -> set:
        return set(Workspace.objects.in_trash().filter(team=self.team).values_list("pk", flat=True))

    @cached_property
    def _used(self) -> set:
        """Return the snapshots that are the first or current one of a workspace, or the source of one being made."""
        pairs = Workspace.objects.filter(team=self.team).values_list("head", "baseline")
        making = Workspace.objects.filter(team=self.team, state__in=[State.CREATING, State.SETTING_UP, State.FAILED])
        sources = making.values_list("source", flat=True)
        forked = {str(source["fork"].get("id")) for source in sources if "fork" in source}
        from_forks = set(Snapshot.objects.filter(pk__in=forked).values_list("pk", flat=True)) if forked else set()
        return {pk for pair in pairs for pk in pair if pk} | from_forks

    @cached_property
    def _compared(self) -> set:
        return extensions.ports.snapshots_compared(self.team)

    def is_compared(self, item: Item) -> bool:
        """Whether the item is a snapshot that the card of a waiting action compares with."""
        return item.snapshot_id is not None and item.snapshot_id in self._compared

    def is_in_use(self, snapshot_pk) -> bool:
        return snapshot_pk in self._used

    def item_of(self, workspace: Workspace, name: str, at: datetime, pk=None) -> Item:
        return Item(pk or workspace.pk, name, at, workspace.pk, workspace.key, group=(workspace.environment.name,))


def is_named(kind: str, label: str, by: dict) -> bool:
    """Return True for a snapshot that was taken on request and given a label by a person."""
    return kind == "manual" and bool(label) and by.get("type") != "agent"
