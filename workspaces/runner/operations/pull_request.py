"""Open a pull request: push a bundle of the workspace's commits, then ask the code host, with the team's token.

The code host is asked before the push as well: for its API, the token and the base. What fails after the push can be
asked for again: the commit is there already, and a pull request that is open is found.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.workers.failpoints import failpoint
from workspaces import code_hosts, lifecycle
from workspaces.code_hosts import PullRequest as Wanted
from workspaces.models import PullRequest, ReasonCode, State
from workspaces.provisioning.git import pushing, running
from workspaces.provisioning.git.addresses import check_git
from workspaces.provisioning.git.pushing import Pushed
from workspaces.runner.job import Job, Kind
from workspaces.runner.operations.push import REASON_LENGTH
from workspaces.runner.refusals import Refused
from workspaces.runner.steps.push import find_pushed, push
from workspaces.secrets import team_credentials
from workspaces.services import pull_requests


async def base_branch(workspace, base: str, thread) -> dict:
    """Return {"defaults", "missing"}: names of the default branch, and whether the host lacks the branch `base`.

    `defaults` has the name as git gives it and, with a token, as the code host's API does; [] if neither answers. The
    operation asks again before it pushes.
    """
    found, missing = [], False
    with suppress(Problem, code_hosts.Refused):
        account = await thread(pull_requests.account_of, workspace)
        async with code_hosts.connected(account) as host:
            found.append(await host.default_branch())
            missing = bool(base) and not await host.tip_of(base)
    with suppress(Problem, running.CloneFailed):
        source = await thread(check_git, workspace.remote)
        credential = await thread(team_credentials.credential_of, workspace.team, source)
        found.append(await thread(partial(pushing.default_branch, source, credential=credential)))
    return {"defaults": [name for name in dict.fromkeys(found) if name], "missing": missing}


class OpenPullRequest(Kind):
    """Push HEAD to a branch and open a pull request for it, or find the one that is open."""

    async def perform(self, job):
        workspace = await job.require(State.READY)
        account = await job.thread(pull_requests.account_of, workspace)
        wanted = _wanted(job.args)
        try:
            async with code_hosts.connected(account) as host:
                base = await host.base_of(wanted)
        except code_hosts.Refused as error:
            raise _refused(account, error, f"{error} Nothing was pushed.") from None
        await job.progress(base=base, kind=host.kind)
        pushed = await push(job, again=True)
        return await self._opened(job, account, pushed)

    async def recover(self, job):
        """Find out what had happened when the runner stopped, and do the rest: nothing is pushed or opened twice."""
        workspace = await job.refresh()
        account = await job.thread(pull_requests.account_of, workspace)
        return await self._opened(job, account, await _arrived(job), again=True)

    async def _opened(self, job: Job, account, pushed: Pushed, *, again: bool = False) -> dict:
        """Open it, or find the one that is open, and return the outcome. `again`: it may have been opened before."""
        await job.progress(step="pull_request", pushed=pushed.as_json)
        await job.mark_started()
        failpoint("pull_request.pushed")
        told = job.operation.progress
        wanted = _wanted(job.args | {"base": told["base"]})
        try:
            async with code_hosts.connected(_known(account, told.get("kind", ""))) as host:
                opened = await _open(host, wanted, again=again)
        except code_hosts.Refused as error:
            raise _not_opened(account, error, pushed, is_uncertain=again and error.is_no_answer) from None
        failpoint("pull_request.opened")
        return _outcome(opened, pushed)

    def finish(self, job, outcome):
        names = ("ok", "reason", "url", "number", "base", "pushed")
        data = {"branch": job.args["branch"]} | {name: outcome[name] for name in names if name in outcome}
        data["reason"] = data["reason"][:REASON_LENGTH]
        if outcome["ok"]:
            now = clock.now()
            fields = {"number": outcome["number"], "branch": job.args["branch"], "base": outcome["base"]}
            fields |= {"title": outcome["title"], "sha": outcome["sha"], "pushed_at": now}
            made = {"by": job.by.as_json, "opened_at": now}
            PullRequest.objects.update_or_create(
                workspace=job.workspace, url=outcome["url"], defaults=fields, create_defaults=fields | made
            )
        lifecycle.record(job.workspace, job.by, "workspace.pull_request", data)


def _wanted(args: dict) -> Wanted:
    texts = {name: args[name] for name in ("branch", "base", "title", "body")}
    return Wanted(**texts, draft=args.get("draft", False), given=tuple(args.get("given", ())))


def _known(account: code_hosts.Account, kind: str) -> code_hosts.Account:
    """Return the account with the kind of host that was found before the push, so that nobody asks again."""
    return replace(account, kind=account.kind or kind)


async def _arrived(job: Job) -> Pushed:
    """Return the push that was made before the runner stopped. Raise Refused if it did not arrive."""
    if told := job.operation.progress.get("pushed"):
        return Pushed(told["branch"], told["sha"], told["from"])
    return await find_pushed(job)


async def _open(host: code_hosts.CodeHost, wanted: Wanted, *, again: bool) -> code_hosts.Opened:
    """Open the pull request, unless an earlier request did: an answer that got lost says nothing about it."""
    if again and (found := await host.find(wanted)):
        return found
    try:
        return await host.open(wanted)
    except code_hosts.Refused as error:
        if error.is_no_answer:
            with suppress(code_hosts.Refused):
                if found := await host.find(wanted):
                    return found
        raise


def _refused(account: code_hosts.Account, error: code_hosts.Refused, reason: str, **more) -> Refused:
    """Return a refusal with the code and the keys that tell a program what to fix."""
    if error.status in (401, 403):
        secret = {"name": account.secret, "origin": account.repository.base}
        return Refused(reason, ReasonCode.TOKEN, secret=secret, **more)
    return Refused(reason, ReasonCode.SOURCE, **more)


def _not_opened(account, error: code_hosts.Refused, pushed: Pushed, *, is_uncertain: bool) -> Refused:
    """Return the outcome of a push that arrived without its pull request, with the way on."""
    what = "Whether the pull request was opened is unknown" if is_uncertain else "Opening the pull request failed"
    reason = f"Pushed {pushed.sha[:12]} to {pushed.branch}. {what}: {error} {error.next_step}"
    more = {"uncertain": True} if is_uncertain else {}
    return _refused(account, error, reason, pushed=pushed.as_json, **more)


def _outcome(opened: code_hosts.Opened, pushed: Pushed) -> dict:
    verb = "Opened" if opened.is_new else "Pushed to the open"
    reason = f"{verb} pull request #{opened.number}: {opened.url}"
    if opened.updated:
        words = {"title": "title", "body": "description"}
        reason += f" (new {' and '.join(words[name] for name in opened.updated)})"
    told = {"number": opened.number, "url": opened.url, "base": opened.base, "title": opened.title, "sha": pushed.sha}
    told["is_new"] = opened.is_new
    return {"ok": True, "reason": reason, **told, "pushed": pushed.as_json, "updated": list(opened.updated)}
