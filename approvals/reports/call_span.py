"""The points of a workspace between which one call changed its files."""

from typing import NamedTuple

from approvals.models import Action
from approvals.reports.acts import acts_between
from workspaces.changes.history import LIVE
from workspaces.models import Snapshot


class CallSpan(NamedTuple):
    """`since` and `until` are the snapshots around the call, or "live"; `is_own`: nothing else ran between them."""

    since: int
    until: int | str
    is_own: bool


def span_of(action: Action) -> CallSpan:
    """Return the span from the snapshot before the call to the next one, or to now if there is none."""
    before = action.snapshot_before
    later = Snapshot.objects.filter(workspace=action.workspace_id, number__gt=before.number).order_by("number")
    after = later.only("number", "created_at").first()
    acts = acts_between(action.workspace, before.created_at, after and after.created_at)
    others = [act for act in acts if act.kind != "snapshot" and not (act.kind == "action" and act.thing == action)]
    # What ended before the call began, or began after the next snapshot, is outside.
    since = action.consumed_at or before.created_at
    others = [act for act in others if act.ended is None or act.ended > since]
    return CallSpan(before.number, after.number if after else LIVE, not others)
