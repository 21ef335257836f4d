"""Take back what left a workspace, with credentials that the workspace never sees.

All steps are looked at before the first is carried out. Branches and tags come first: the source itself compares them
with what was left there, so a push of somebody else's ends the operation before anything has changed.
"""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import code_hosts, lifecycle
from workspaces.host import paths
from workspaces.models import ReasonCode
from workspaces.provisioning.git import output, putting_back
from workspaces.provisioning.git.addresses import Git, check_git
from workspaces.provisioning.git.credentials import Credential
from workspaces.provisioning.git.putting_back import Move, moved_words
from workspaces.provisioning.git.running import CloneFailed
from workspaces.runner.job import Job, Kind
from workspaces.runner.operations.push import REASON_LENGTH
from workspaces.runner.refusals import Refused, unclear
from workspaces.secrets import team_credentials
from workspaces.services import pull_requests, taking_back
from workspaces.services.taking_back import PUT_BACK

UNCHANGED = "Nothing was changed."
KEPT = "taken-back.git"  # in a workspace's folder: commits that only a way back leads to


def kept_of(workspace):
    """Return the repository with the commits that a push would make unreachable at their source."""
    return paths.folder_of(workspace.pk) / KEPT


async def reached(job: Job, remote: str) -> tuple[Git, Credential]:
    """Return the checked source of a remote, and the team's credential for it. Raise CloneFailed."""
    try:
        source = await job.thread(check_git, remote)
        return source, await job.thread(team_credentials.credential_of, job.workspace.team, source)
    except Problem as problem:
        code = ReasonCode.TOKEN if "secret" in problem.extra else ReasonCode.SOURCE
        more = {name: value for name, value in problem.extra.items() if name == "secret"}
        raise CloneFailed(output.without_ours(problem.detail), code=code, more=more) from None


class TakeBack(Kind):
    """Carry out the steps of the arguments, as long as they fit."""

    async def perform(self, job):
        await job.refresh()
        due = await self._due(job)
        if not due:
            raise Refused(f"It is taken back already. {UNCHANGED}")
        failpoint("take_back.looked")
        await job.mark_started()
        return await self._carried_out(job, due)

    async def recover(self, job):
        """Look again, and do the rest: what was done before the runner stopped is seen at the source."""
        await job.refresh()
        await job.mark_started()
        return await self._carried_out(job, await self._due(job))

    def finish(self, job, outcome):
        steps = job.args["steps"]
        data = {"ok": outcome["ok"], "reason": outcome["reason"][:REASON_LENGTH], "what": taking_back.words_of(steps)}
        lifecycle.record(job.workspace, job.by, "workspace.taken_back", data)

    async def _due(self, job: Job) -> list[dict]:
        """Return the steps that are not done yet. Raise Refused if one of them no longer fits."""
        steps, due = job.args["steps"], []
        try:
            for remote in dict.fromkeys(step["remote"] for step in steps if step["do"] == PUT_BACK):
                due += await _moves_due(job, remote)
            for step in steps:
                if step["do"] != PUT_BACK and not await _is_done(job, step):
                    due.append(step)
        except (Problem, CloneFailed, code_hosts.Refused) as error:
            words = error.detail if isinstance(error, Problem) else str(error)
            raise _refused(error, f"{words} {UNCHANGED}") from None
        return due

    async def _carried_out(self, job: Job, due: list[dict]) -> dict:
        done = []
        for remote in dict.fromkeys(step["remote"] for step in due if step["do"] == PUT_BACK):
            moves = [step for step in due if step.get("remote") == remote]
            await self._put_back(job, remote, moves, done)
            done += moves
            failpoint("take_back.put_back")
        for step in due:
            if step["do"] != PUT_BACK:
                await self._at_host(job, step, done)
                done.append(step)
                failpoint("take_back.at_host")
        reason = f"Taken back: it {taking_back.words_of(job.args['steps'])}."
        return {"ok": True, "reason": reason, "forgets": True}

    async def _put_back(self, job: Job, remote: str, steps: list[dict], done: list[dict]):
        moves = [Move(step["ref"], step["to"], step["if_at"]) for step in steps]
        try:
            source, credential = await reached(job, remote)
            async with _scratch(job) as folder:
                kept = kept_of(job.workspace)
                await job.thread(partial(putting_back.put_back, source, moves, folder, kept, credential=credential))
        except CloneFailed as error:
            if error.more.get("uncertain"):
                raise unclear(str(error), ReasonCode.SOURCE) from None
            raise _refused(error, f"{error} {_so_far(done)}") from None

    async def _at_host(self, job: Job, step: dict, done: list[dict]):
        """Carry out a step at a code host; an answer that got lost says nothing about it, so the host is asked."""
        try:
            async with code_hosts.connected(await _account(job, step)) as host:
                if not await host.is_taken_back(step):
                    await host.take_back(step)
        except code_hosts.Refused as error:
            if error.is_no_answer:
                raise unclear(f"{error} Whether it was taken back is unknown.", ReasonCode.SOURCE) from None
            raise _refused(error, f"{error} {_so_far(done)}") from None
        except Problem as problem:
            raise _refused(problem, f"{problem.detail} {_so_far(done)}") from None


async def _moves_due(job: Job, remote: str) -> list[dict]:
    """Return the steps of one remote whose refs are still where they were left. CloneFailed for one that has moved."""
    steps = [step for step in job.args["steps"] if step.get("remote") == remote]
    source, credential = await reached(job, remote)
    refs = [step["ref"] for step in steps]
    now = await job.thread(partial(putting_back.tips, source, refs, credential=credential))
    due = [step for step in steps if now.get(step["ref"], "") != step["to"]]
    for step in due:
        if now.get(step["ref"], "") != step["if_at"]:
            words = moved_words(step["ref"], now.get(step["ref"], ""), step["if_at"])
            raise CloneFailed(words, code=ReasonCode.MOVED)
    return due


async def _account(job: Job, step: dict) -> code_hosts.Account:
    repository = code_hosts.repository_of(step["repository"])
    return await job.thread(pull_requests.account_for, job.workspace.team, repository)


async def _is_done(job: Job, step: dict) -> bool:
    async with code_hosts.connected(await _account(job, step)) as host:
        return await host.is_taken_back(step)


@asynccontextmanager
async def _scratch(job: Job) -> AsyncIterator:
    """Yield a folder for git; remove it afterwards, and first what a killed runner left of it."""
    folder = paths.folder_of(job.workspace.pk) / f"push-{job.operation.pk}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _so_far(done: list[dict]) -> str:
    return f"Before that it did this: it {taking_back.words_of(done)}." if done else UNCHANGED


def _refused(error, reason: str) -> Refused:
    """Return the outcome with the code and the keys that tell a program what to fix."""
    if isinstance(error, CloneFailed):
        return Refused(reason, ReasonCode(error.code), **error.more)
    if isinstance(error, Problem) and "secret" in error.extra:
        return Refused(reason, ReasonCode.TOKEN, secret=error.extra["secret"])
    return Refused(reason, ReasonCode.SOURCE)
