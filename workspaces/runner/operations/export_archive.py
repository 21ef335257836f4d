"""Write the files of a snapshot to an archive, to be downloaded."""

from workspaces.changes import history
from workspaces.runner.job import Kind
from workspaces.services import archives


class ExportArchive(Kind):
    """Write a snapshot's files to one archive, to be downloaded."""

    stored = "archive"

    when_store_fails = "The archive could not be written: "

    async def perform(self, job):
        await job.refresh()
        await job.mark_started()
        snapshot = await job.thread(history.find_snapshot, job.workspace, job.args["number"])
        size = await job.thread(archives.write, snapshot, job.watch(step="archive"))
        return {"ok": True, "snapshot": snapshot.number, "bytes": size}
