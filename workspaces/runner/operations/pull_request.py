"""Open a pull request: push a bundle of the workspace's commits, then ask the code host, with the team's token."""

from contextlib import suppress
from functools import partial

from dashboard import clock
from dashboard.problems import Problem
from workspaces import code_hosts, lifecycle, team_credentials
from workspaces.code_hosts import PullRequest as Wanted
from workspaces.models import PullRequest, ReasonCode, State
from workspaces.provisioning.git import pushing, running
from workspaces.provisioning.git.addresses import check_git
from workspaces.runner.job import Kind
from workspaces.runner.operations.export import push
from workspaces.runner.refusals import Refused, unclear
from workspaces.services import pull_requests


async def default_branches(workspace, thread) -> list[str]:
    """Return the default branch as git names it and, with a token, as the code host's API does; [] if neither answers.

    The operation asks again before it pushes.
    """
    found = []
    with suppress(Problem, code_hosts.Refused):
        repository, token = await thread(pull_requests.token_of, workspace)
        addresses = await thread(pull_requests.addresses_of, repository)
        found.append(await code_hosts.default_branch(repository, token, addresses))
    with suppress(Problem, running.CloneFailed):
        source = await thread(check_git, workspace.remote)
        credential = await thread(team_credentials.credential_of, workspace.team, source)
        found.append(await thread(partial(pushing.default_branch, source, credential=credential)))
    return [name for name in dict.fromkeys(found) if name]


class OpenPullRequest(Kind):
    """Push HEAD to a branch and open a pull request for it, or find the one that is open."""

    async def perform(self, job):
        workspace = await job.require(State.READY)
        repository, token = await job.thread(pull_requests.token_of, workspace)
        addresses = await job.thread(pull_requests.addresses_of, repository)
        try:
            default = await code_hosts.default_branch(repository, token, addresses)
        except code_hosts.Refused as error:
            raise Refused(f"{error} Nothing was pushed.", ReasonCode.SOURCE) from None
        pull_requests.check_branches(job.args["branch"], job.args["base"], [default])
        sha = (await push(job, again=True)).sha
        await job.progress(step="pull_request", sha=sha)
        wanted = Wanted(*(job.args[name] for name in ("branch", "base", "title", "body")))
        try:
            opened = await code_hosts.open_pull_request(repository, wanted, token, addresses)
        except code_hosts.Refused as error:
            raise Refused(f"Pushed {sha[:12]}, but {error}", ReasonCode.SOURCE) from None
        verb = "Opened" if opened.is_new else "Pushed to the open"
        told = {"number": opened.number, "url": opened.url, "base": opened.base, "sha": sha}
        return {"ok": True, "reason": f"{verb} pull request #{opened.number}: {opened.url}", **told}

    async def recover(self, job):
        """Declare it uncertain: only the code host knows whether it was opened."""
        raise unclear("The runner stopped while opening the pull request.")

    def finish(self, job, outcome):
        names = ("ok", "reason", "url", "number", "base")
        data = {"branch": job.args["branch"]} | {name: outcome[name] for name in names if name in outcome}
        data["reason"] = data["reason"][:500]
        if outcome["ok"]:
            now = clock.now()
            fields = {"number": outcome["number"], "branch": job.args["branch"], "base": outcome["base"]}
            fields |= {"title": job.args["title"], "sha": outcome["sha"], "pushed_at": now}
            made = {"by": job.by.as_json, "opened_at": now}
            PullRequest.objects.update_or_create(
                workspace=job.workspace, url=outcome["url"], defaults=fields, create_defaults=fields | made
            )
        lifecycle.record(job.workspace, job.by, "workspace.pull_request", data)
