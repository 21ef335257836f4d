"""Keep what was changed in an ephemeral workspace since its setup, as a patch that is an artifact.

The artifact stays when the workspace and its snapshots are gone; it goes as the team's retention says.
"""

from pathlib import Path

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Event
from workspaces.changes.comparisons import Comparison, Point
from workspaces.host import paths
from workspaces.models import Artifact, Snapshot
from workspaces.runner import removing, snapshots
from workspaces.store import LocalTree, StoreError

PATCH = "changes.patch"
FOLDER = "kept-changes"  # in the workspace's folder of this host, while the patch is written


def keep_changes(job) -> dict:
    """Keep the changes as an artifact, and record that; return {"changes": its name or "", "why": why there is none}.

    Doing it again after a crash keeps nothing twice.
    """
    workspace = job.workspace
    first, last = workspace.baseline, workspace.head
    if first is None:
        return {"changes": "", "why": "its snapshot after setup is gone"}
    name = f"{workspace.key}-changes"
    if first.tree_hex == last.tree_hex:
        return {"changes": "", "why": "nothing was changed"}
    if _is_kept(workspace, name):
        return {"changes": name, "why": ""}
    folder = paths.folder_of(workspace.pk) / FOLDER
    try:
        kept = _stored(workspace, folder)
    except StoreError as error:
        return {"changes": "", "why": f"no patch could be made: {error}"}
    finally:
        removing.remove(folder)
    if kept is None:
        return {"changes": "", "why": "nothing was changed but files that git ignores"}
    _record(job, name, kept)
    return {"changes": name, "why": ""}


def _is_kept(workspace, name: str) -> bool:
    """Return whether the newest such artifact was made from the same files."""
    newest = Artifact.objects.kept().filter(workspace=workspace, name=name).order_by("-created_at").first()
    if newest is None:
        return False
    made_of = Snapshot.objects.filter(workspace=workspace, number=newest.snapshot_number).first()
    return made_of is not None and made_of.tree_hex == workspace.head.tree_hex


def _stored(workspace, folder: Path):
    """Write the patch into the team's store; return the store's snapshot, None for a patch without a change."""
    removing.remove(folder)
    folder.mkdir(mode=0o755, parents=True)
    points = [Point(workspace, snapshot.number) for snapshot in (workspace.baseline, workspace.head)]
    comparison = Comparison(*points, (workspace.baseline.tree_hex, workspace.head.tree_hex))
    with open(folder / PATCH, "xb") as file:
        size = sum(file.write(piece) for piece in comparison.patch())
    return snapshots.store_of(workspace).snapshot(LocalTree(folder), thorough=True) if size else None


def _record(job, name: str, kept):
    workspace = job.workspace
    fields = {"entries": kept.entries, "bytes": kept.bytes}
    with transaction.atomic():
        made = Artifact.objects.create(
            team_id=workspace.team_id,
            workspace=workspace,
            key=workspace.key,
            repository=workspace.remote,
            snapshot_number=workspace.head.number,
            name=name,
            note=f"What was changed since setup (snapshot {workspace.baseline.number}), as a patch for git apply.",
            paths=[PATCH],
            tree=bytes.fromhex(kept.tree),
            by=job.by.as_json,
            created_at=clock.now(),
            **fields,
        )
        data = {"name": name, "key": workspace.key, "snapshot": workspace.head.number, "paths": [PATCH]}
        about = {"actor": job.by, "subject": made, "workspace": workspace}
        Event.objects.record(workspace.team_id, verb="artifact.kept", data=data | fields, **about)
