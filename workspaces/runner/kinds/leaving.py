"""Work gets out: an archive, a git bundle made inside, a push with credentials that the workspace never sees."""

import shutil
import tempfile
from pathlib import Path

from workspaces import archives, history, lifecycle, places, sources
from workspaces.drivers.base import DriverError
from workspaces.models import State
from workspaces.runner import files
from workspaces.runner.job import Job, Kind
from workspaces.runner.server import BUNDLE
from workspaces.store import Cancelled, StoreError

BUNDLE_LIMIT = 2 * 1024**3  # bytes


async def make_bundle(job: Job) -> str:
    """Run git in the workspace, as its own user; "" or why there is no bundle, in words."""
    path = f"/home/agent/{BUNDLE.decode()}"
    script = f'mkdir -p "$(dirname {path})" && rm -f {path} && git bundle create --quiet {path} HEAD --branches --tags'
    ended = await job.run_program(["bash", "-c", script], timeout_s=600, phase=None)
    if not ended["ok"]:
        return ended["reason"]
    if ended["exit_status"] == 0:
        return ""
    said = await job.said(ended)
    return f"git made no bundle of /workspace ({ended['words']}): {said or 'it said nothing'}"


class MakeArchive(Kind):
    """A snapshot's files as one archive, ready to be fetched for an hour."""

    async def perform(self, job):
        await job.refresh()
        await job.started()
        try:
            snapshot = await job.thread(history.find_snapshot, job.workspace, job.args["number"])
            size = await job.thread(archives.write, snapshot, job.watch(step="archive"))
        except Cancelled:
            return {"ok": False, "cancelled": True, "reason": "It was stopped as asked. Nothing of it was kept."}
        except StoreError as error:
            return {"ok": False, "reason": f"The archive could not be written: {error}"}
        return {"ok": True, "snapshot": snapshot.number, "bytes": size}


class MakeBundle(Kind):
    """A bundle of the workspace's repository: HEAD, branches and tags, as committed."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state != State.READY:
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        try:
            why_not = await make_bundle(job)
        except DriverError as error:
            why_not = str(error)
        return {"ok": not why_not, "reason": why_not}

    async def recover(self, job):
        """A bundle changes nothing; whoever wants one asks again."""
        return {"ok": False, "reason": "The runner stopped while the bundle was made. Ask again."}


class Push(Kind):
    """Push the workspace's HEAD to a branch of the repository it came from; never by force."""

    async def perform(self, job):
        workspace = await job.refresh()
        if workspace.state != State.READY:
            return {"ok": False, "reason": f"{workspace.key} {lifecycle.STATE_WORDS[workspace.state]}."}
        try:
            why_not = await make_bundle(job)
            if why_not:
                return {"ok": False, "reason": why_not}
            sha = await job.thread(_push, workspace, await job.seen(), job.args["branch"])
        except (DriverError, sources.CloneFailed) as error:
            return {"ok": False, "reason": str(error)}
        return {"ok": True, "reason": f"Pushed {sha[:12]} to {job.args['branch']}.", "sha": sha}

    async def recover(self, job):
        """A push either arrived or did not; only the remote knows."""
        return {"ok": False, "uncertain": True, "reason": "The runner stopped while it pushed."}

    def finish(self, job, outcome):
        data = {"branch": job.args["branch"], "ok": outcome["ok"], "reason": outcome["reason"][:500]}
        lifecycle.record(job.workspace, job.by, "workspace.pushed", data)


def _push(workspace, tree, branch: str) -> str:
    source = sources.check_git(workspace.source["git"], branch)
    scratch = Path(tempfile.mkdtemp(prefix="push-", dir=places.folder_of(workspace.pk)))
    try:
        with files.opened(tree, BUNDLE, "home") as file, open(scratch / "bundle", "wb") as copy:
            if file.info.st_size > BUNDLE_LIMIT:
                raise sources.CloneFailed("The bundle is too large to push.")
            while piece := file.pread(files.PIECE, copy.tell()):
                copy.write(piece)
        return sources.push_bundle(scratch, source, branch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
