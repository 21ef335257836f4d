"""Push a workspace's commits, or write them to a bundle, with credentials that the workspace never sees.

Git runs beside the workspace, not in it (git/sandbox.py): no program, setting or PATH of an agent decides what is sent.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces.host import paths
from workspaces.models import ReasonCode
from workspaces.provisioning.git import addresses, output, pushing
from workspaces.provisioning.git.pushing import Pushed
from workspaces.provisioning.git.running import CloneFailed
from workspaces.runner.git import sandbox, shown
from workspaces.runner.job import Job
from workspaces.runner.refusals import Refused, unclear
from workspaces.secrets import team_credentials
from workspaces.services import git_export

UNBORN = "Nothing is committed yet."  # runner/git/probe.py
BUNDLE_LIMIT = 2 * 1024**3  # bytes
LOOK_SECONDS = 60.0


async def make_bundle(job: Job, refs: list[str], into: Path) -> None:
    """Write a git bundle of the workspace's repository to a file here. Raise Refused if that fails."""
    try:
        await sandbox.bundle(job.workspace, await job.readable_tree(), refs, into, BUNDLE_LIMIT)
    except sandbox.NoAnswer as error:
        words = output.without_ours(str(error))
        raise Refused(words if words == UNBORN else f"git made no bundle of {job.workspace.key}: {words}") from None


async def push(job: Job, *, again: bool = False) -> Pushed:
    """Push HEAD to the branch in the job's arguments. `again`: it is no error that the branch has the commit already.

    With `sha` in the arguments, only that commit; with `seen`, only if it sends what a page or card showed. The job has
    started once something may be pushed.
    """
    told = await _shown(job) if job.args.get("seen") else None
    try:
        async with _sending(job) as sending:
            await _check_push(job, sending, told)
            if sending.before == sending.sha:
                if again:
                    return Pushed(sending.branch, sending.sha, sending.before)
                raise Refused(f"Nothing to push: {sending.branch} already has HEAD ({sending.sha[:12]}).")
            await job.progress(step="push", sha=sending.sha, **{"from": sending.before})
            failpoint("push.looked")
            await job.mark_started()
            failpoint("push.begun")
            pushed = await job.thread(sending.send)
            failpoint("push.sent")
            return pushed
    except CloneFailed as error:
        raise _not_pushed(error) from None


async def _check_push(job: Job, sending: pushing.Push, told: dict | None) -> None:
    """Unpack what would be pushed, and compare it with what was shown and with what the source has."""
    await job.progress(step="bundle")
    await make_bundle(job, ["HEAD"], sending.bundle)
    await job.thread(sending.unpack)
    await job.progress(step="look")
    await job.thread(sending.fetch_branches)
    await job.thread(_check, job.args.get("sha", ""), told, sending, job.workspace.default_branch)


async def find_pushed(job: Job) -> Pushed:
    """Return the push that was under way when the runner stopped, if the source has it; else raise Refused.

    The outcome is uncertain if the source does not answer, or may still be taking the push.
    """
    branch, sha, before = job.args["branch"], *(job.operation.progress.get(name, "") for name in ("sha", "from"))
    try:
        async with _sending(job) as sending:
            if await job.thread(sending.find, sha, before):
                return Pushed(branch, sha, before)
            if sending.may_arrive(before):
                raise unclear(f"The runner stopped during the push. {sending.not_yet()}")
    except CloneFailed as error:
        raise unclear(
            f"The runner stopped during the push, and the source does not say what arrived: {error}"
        ) from None
    at = f"is at {sending.before[:12]}" if sending.before else "is not there"
    reason = f"The runner stopped during the push, and {sha[:12]} did not arrive: {branch} {at}. Push again."
    raise Refused(reason, ReasonCode.RUNNER_STOPPED)


@asynccontextmanager
async def _sending(job: Job) -> AsyncIterator[pushing.Push]:
    """Yield a push in a folder of its own; remove it afterwards, and first what a killed runner left of it."""
    workspace, branch = job.workspace, job.args["branch"]
    try:
        source = await job.thread(addresses.check_git, workspace.remote, branch)
        credential = await job.thread(team_credentials.credential_of, workspace.team, source)
    except Problem as error:  # the address was good once; `secret`: what is missing
        code = ReasonCode.TOKEN if "secret" in error.extra else ReasonCode.SOURCE
        more = {name: value for name, value in error.extra.items() if name == "secret"}
        raise CloneFailed(output.without_ours(error.detail), code=code, more=more) from None
    folder = paths.folder_of(workspace.pk) / f"push-{job.operation.pk}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield pushing.Push(folder, source, branch, credential)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _not_pushed(error: CloneFailed) -> Refused:
    """Return the outcome of a push that failed, with the way on."""
    words, code = str(error), ReasonCode(error.code)
    if not error.more.get("uncertain"):
        words += " Nothing was pushed."
    if code == ReasonCode.BEHIND:
        words += " Update the workspace from its source, or push to another branch."
    return Refused(words, code, **error.more)


async def _shown(job: Job) -> dict:
    """Ask git in the workspace again what a push would send; Refused unless it is what was shown."""
    asked = await job.thread(git_export.question_of, job.workspace, "HEAD", job.args["branch"])
    question = asked | {"what": "push", "left": False}
    told = await sandbox.ask(job.workspace, await job.readable_tree(), question, seconds=LOOK_SECONDS)
    if "error" in told:
        raise Refused(f"{told['error']} Nothing was pushed.")
    sends = [sent for sent in told["sends"] if "sha" in sent]
    if found := next((sent for sent in sends if git_export.seen_of(sent) == job.args["seen"]), None):
        return found
    if moved := next((sent["sha"] for sent in sends if sent["sha"] != job.args["sha"]), None):
        raise _moved(job.args["sha"], moved)
    raise Refused("What a push would send has changed since it was shown. Nothing was pushed. Look at it again.")


def _check(expected: str, told: dict | None, sending: pushing.Push, default: str) -> None:
    """Refuse a push of another commit than `expected`, or of anything else than was `told`."""
    if expected and sending.sha != expected:
        raise _moved(expected, sending.sha)
    if told is None:
        return
    compared = (sending.repository, sending.sha, list(sending.there.values()), told)
    differs = shown.check(*compared)
    if differs and sending.fetch_moved(default):  # what branches there have by now, which was not here
        differs = shown.check(*compared)
    if differs:
        # What was pushed before may not be there any more, so it is not counted on at the next look.
        raise Refused(f"What this would push is not what was shown. {differs} Nothing was pushed.", forgets=True)


def _moved(expected: str, now: str) -> Refused:
    words = f"HEAD is {now[:12]} now, and {expected[:12]} was shown. Nothing was pushed."
    return Refused(words, ReasonCode.MOVED, shown=expected, now=now)
