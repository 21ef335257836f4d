"""Keep chosen files of a snapshot as an artifact."""

from urllib.parse import unquote_to_bytes

from dashboard.models import Actor, Event
from workspaces.changes import history
from workspaces.models import Artifact
from workspaces.runner import snapshots
from workspaces.runner.job import Kind


class Promote(Kind):
    """Put a tree together that has only the chosen files; args: {artifact, number, paths}.

    Performing it again after a crash writes the same tree.
    """

    when_store_fails = "The files could not be kept: "

    async def perform(self, job):
        await job.refresh()
        await job.mark_started()
        return {"ok": True} | await job.thread(put_together, job.workspace, job.args)

    def finish(self, job, outcome):
        save_outcome(job.workspace, job.args, outcome, by=job.by)


def put_together(workspace, args: dict) -> dict:
    """Store the tree that has only the chosen files; return its id, entries and bytes."""
    snapshot = history.find_snapshot(workspace, args["number"])
    paths = [unquote_to_bytes(path) for path in args["paths"]]
    return snapshots.store_of(workspace).select(snapshot.tree_hex, paths)._asdict()


def save_outcome(workspace, args: dict, outcome: dict, *, by: Actor):
    """Write the outcome into the artifact's row, and its event; delete the row if the files could not be kept."""
    found = Artifact.objects.filter(pk=args["artifact"]).first()
    if found is None:  # deleted meanwhile
        return
    about = {"actor": by, "subject": found, "workspace": workspace}
    data = {"name": found.name, "key": found.key, "snapshot": found.snapshot_number, "paths": found.paths[:20]}
    if not outcome["ok"]:
        data["reason"] = outcome["reason"][:1000]
        Event.objects.record(found.team_id, verb="artifact.failed", data=data, **about)
        found.delete()
        return
    fields = {"entries": outcome["entries"], "bytes": outcome["bytes"]}
    Artifact.objects.filter(pk=found.pk).update(tree=bytes.fromhex(outcome["tree"]), **fields)
    Event.objects.record(found.team_id, verb="artifact.kept", data=data | fields, **about)
