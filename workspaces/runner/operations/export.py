"""Export a workspace: an archive, a git bundle, or a push with credentials that it never sees.

Git runs beside the workspace, not in it (git/sandbox.py): no program, setting or PATH of an agent decides what is sent.
"""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

from workspaces import history, lifecycle, paths, team_credentials
from workspaces.models import ReasonCode, State
from workspaces.provisioning.git import addresses, pushing
from workspaces.runner.git import sandbox, shown
from workspaces.runner.job import Job, Kind
from workspaces.runner.refusals import Refused, unclear
from workspaces.services import archives, export

BUNDLE_LIMIT = 2 * 1024**3  # bytes
LOOK_SECONDS = 60.0


async def make_bundle(job: Job, refs: list[str], into: Path) -> None:
    """Write a git bundle of the workspace's repository to a file here. Raise Refused if that fails."""
    try:
        await sandbox.bundle(job.workspace, await job.readable_tree(), refs, into, BUNDLE_LIMIT)
    except sandbox.NoAnswer as error:
        raise Refused(f"git made no bundle of {job.workspace.key}: {error}") from None


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
        workspace = await job.require(State.READY)
        made = paths.bundle_of(workspace)
        await make_bundle(job, ["HEAD", "--branches", "--tags"], made.with_suffix(".new"))
        os.replace(made.with_suffix(".new"), made)
        return {"ok": True, "reason": ""}

    async def recover(self, job):
        """Refuse: a bundle changes nothing, so the caller can request it again."""
        raise Refused("The runner stopped while creating the bundle. Try again.", ReasonCode.RUNNER_STOPPED)


class Push(Kind):
    """Push the workspace's HEAD to a branch of the repository it came from; never by force."""

    async def perform(self, job):
        await job.require(State.READY)
        sha = await push(job)
        return {"ok": True, "reason": f"Pushed {sha[:12]} to {job.args['branch']}.", "sha": sha}

    async def recover(self, job):
        """Declare the push uncertain: only the remote knows whether it arrived."""
        raise unclear("The runner stopped during the push.")

    def finish(self, job, outcome):
        data = {"branch": job.args["branch"], "ok": outcome["ok"], "reason": outcome["reason"][:500]}
        lifecycle.record(job.workspace, job.by, "workspace.pushed", data)


async def push(job: Job, *, again: bool = False) -> str:
    """Push HEAD to the branch in the job's arguments; return its SHA. `again`: also if it is there already.

    With `sha` in the arguments, only that commit; with `seen`, only if it sends what a page or card showed.
    """
    workspace, branch = job.workspace, job.args["branch"]
    source = await job.thread(addresses.check_git, workspace.remote, branch)
    credential = await job.thread(team_credentials.credential_of, workspace.team, source)
    told = await _shown(job) if job.args.get("seen") else None
    scratch = Path(tempfile.mkdtemp(prefix="push-", dir=paths.folder_of(workspace.pk)))
    try:
        await make_bundle(job, ["HEAD"], scratch / "bundle")
        check = partial(_check, job.args.get("sha", ""), told)
        how = {"check": check, "credential": credential, "again": again}
        return await job.thread(partial(pushing.push_bundle, scratch, source, branch, **how))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


async def _shown(job: Job) -> dict:
    """Ask git in the workspace again what a push would send; Refused unless it is what was shown."""
    asked = await job.thread(export.question_of, job.workspace, "HEAD", job.args["branch"])
    question = asked | {"what": "push", "left": False}
    told = await sandbox.ask(job.workspace, await job.readable_tree(), question, seconds=LOOK_SECONDS)
    if "error" in told:
        raise Refused(f"{told['error']} Nothing was pushed.")
    sends = [sent for sent in told["sends"] if "sha" in sent]
    if found := next((sent for sent in sends if export.seen_of(sent) == job.args["seen"]), None):
        return found
    if moved := next((sent["sha"] for sent in sends if sent["sha"] != job.args["sha"]), None):
        raise _moved(job.args["sha"], moved)
    raise Refused("What a push would send has changed since it was shown. Nothing was pushed. Look at it again.")


def _check(expected: str, told: dict | None, repository: Path, sha: str, tips: list[str]) -> None:
    """Refuse a push of another commit than `expected`, or of anything else than was `told`."""
    if expected and sha != expected:
        raise _moved(expected, sha)
    if told is not None and (differs := shown.check(repository, sha, tips, told)):
        # What was pushed before may not be there any more, so it is not counted on at the next look.
        raise Refused(f"What this would push is not what was shown. {differs} Nothing was pushed.", forgets=True)


def _moved(expected: str, now: str) -> Refused:
    words = f"HEAD is {now[:12]} now, and {expected[:12]} was shown. Nothing was pushed."
    return Refused(words, ReasonCode.MOVED, shown=expected, now=now)
