"""Export a workspace: an archive, a git bundle made inside it, or a push with credentials it never sees."""

import shutil
import tempfile
from pathlib import Path

from workspaces import history, lifecycle, paths
from workspaces.models import ReasonCode, State
from workspaces.provisioning import sources
from workspaces.runner import files
from workspaces.runner.job import Job, Kind
from workspaces.runner.refusals import Refused, unclear
from workspaces.runner.server import BUNDLE
from workspaces.services import archives

BUNDLE_LIMIT = 2 * 1024**3  # bytes


async def make_bundle(job: Job) -> None:
    """Create a git bundle inside the workspace, as its own user. Raise Refused if that fails."""
    path = f"/home/agent/{BUNDLE.decode()}"
    script = f'mkdir -p "$(dirname {path})" && rm -f {path} && git bundle create --quiet {path} HEAD --branches --tags'
    ended = await job.run_program(["bash", "-c", script], timeout_s=600, phase=None)
    if not ended["ok"]:
        raise Refused(ended["reason"], ReasonCode(ended["reason_code"]))
    if ended["exit_status"] != 0:
        said = await job.output_tail(ended)
        raise Refused(f"git made no bundle of /workspace ({ended['words']}): {said or 'it said nothing'}")


class MakeArchive(Kind):
    """Write a snapshot's files to one archive, to be downloaded."""

    when_store_fails = "The archive could not be written: "

    async def perform(self, job):
        await job.refresh()
        await job.mark_started()
        snapshot = await job.thread(history.find_snapshot, job.workspace, job.args["number"])
        size = await job.thread(archives.write, snapshot, job.watch(step="archive"))
        return {"ok": True, "snapshot": snapshot.number, "bytes": size}


class MakeBundle(Kind):
    """Bundle the workspace's repository: HEAD, branches and tags, as committed."""

    async def perform(self, job):
        await job.require(State.READY)
        await make_bundle(job)
        return {"ok": True, "reason": ""}

    async def recover(self, job):
        """Refuse: a bundle changes nothing, so the caller can request it again."""
        raise Refused("The runner stopped while creating the bundle. Try again.", ReasonCode.RUNNER_STOPPED)


class Push(Kind):
    """Push the workspace's HEAD to a branch of the repository it came from; never by force."""

    async def perform(self, job):
        workspace = await job.require(State.READY)
        await make_bundle(job)
        sha = await job.thread(push, workspace, await job.readable_tree(), job.args)
        return {"ok": True, "reason": f"Pushed {sha[:12]} to {job.args['branch']}.", "sha": sha}

    async def recover(self, job):
        """Declare the push uncertain: only the remote knows whether it arrived."""
        raise unclear("The runner stopped during the push.")

    def finish(self, job, outcome):
        data = {"branch": job.args["branch"], "ok": outcome["ok"], "reason": outcome["reason"][:500]}
        lifecycle.record(job.workspace, job.by, "workspace.pushed", data)


def push(workspace, tree, args: dict, *, token: str = "", again: bool = False) -> str:
    """Push the bundle that lies in the workspace's home; return the SHA. `again`: also if it is there already."""
    branch = args["branch"]
    source = sources.check_git(workspace.remote, branch)
    scratch = Path(tempfile.mkdtemp(prefix="push-", dir=paths.folder_of(workspace.pk)))
    try:
        with files.opened(tree, BUNDLE, "home") as file, open(scratch / "bundle", "wb") as copy:
            if file.info.st_size > BUNDLE_LIMIT:
                raise sources.CloneFailed("The bundle is too large to push.")
            while piece := file.pread(files.PIECE, copy.tell()):
                copy.write(piece)
        return sources.push_bundle(scratch, source, branch, approved=args.get("sha", ""), token=token, again=again)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
