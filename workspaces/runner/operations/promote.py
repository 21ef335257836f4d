"""Keep chosen files of a snapshot as an artifact."""

from urllib.parse import unquote_to_bytes

from dashboard.models import Event
from workspaces import history
from workspaces.models import Artifact
from workspaces.runner import snapshots
from workspaces.runner.job import Job, Kind


class Promote(Kind):
    """Put a tree together that has only the chosen files; args: {artifact, number, paths}.

    Performing it again after a crash writes the same tree.
    """

    when_store_fails = "The files could not be kept: "

    async def perform(self, job):
        await job.refresh()
        await job.mark_started()
        return {"ok": True} | await job.thread(_select, job)

    def finish(self, job, outcome):
        found = Artifact.objects.filter(pk=job.args["artifact"]).first()
        if found is None:  # deleted meanwhile
            return
        about = {"actor": job.by, "subject": found, "workspace": job.workspace}
        data = {"name": found.name, "key": found.key, "snapshot": found.snapshot_number, "paths": found.paths[:20]}
        if not outcome["ok"]:
            data["reason"] = outcome["reason"][:1000]
            Event.objects.record(found.team_id, verb="artifact.failed", data=data, **about)
            found.delete()
            return
        fields = {"entries": outcome["entries"], "bytes": outcome["bytes"]}
        Artifact.objects.filter(pk=found.pk).update(tree=bytes.fromhex(outcome["tree"]), **fields)
        Event.objects.record(found.team_id, verb="artifact.kept", data=data | fields, **about)


def _select(job: Job) -> dict:
    snapshot = history.find_snapshot(job.workspace, job.args["number"])
    paths = [unquote_to_bytes(path) for path in job.args["paths"]]
    made = snapshots.store_of(job.workspace).select(snapshot.tree_hex, paths)
    return made._asdict()
