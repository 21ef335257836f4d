"""Push a workspace's HEAD to the repository that it came from."""

from workspaces import lifecycle
from workspaces.models import State
from workspaces.provisioning.git.pushing import Pushed
from workspaces.runner.job import Kind
from workspaces.runner.steps.push import find_pushed, push

REASON_LENGTH = 1500  # characters of a reason on the timeline


class Push(Kind):
    """Push the workspace's HEAD to a branch of the repository it came from; never by force."""

    async def perform(self, job):
        await job.require(State.READY)
        return _outcome(await push(job))

    async def recover(self, job):
        """Ask the source whether the push arrived before the runner stopped."""
        await job.refresh()
        return _outcome(await find_pushed(job))

    def finish(self, job, outcome):
        data = {"branch": job.args["branch"], "ok": outcome["ok"], "reason": outcome["reason"][:REASON_LENGTH]}
        lifecycle.record(job.workspace, job.by, "workspace.pushed", data)


def _outcome(pushed: Pushed) -> dict:
    remote = {"remote": pushed.remote} if pushed.remote else {}
    reason = f"Pushed {pushed.sha[:12]} to {pushed.branch}."
    return {"ok": True, "reason": reason, "sha": pushed.sha, "pushed": pushed.as_json, **remote}
