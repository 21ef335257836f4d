"""Write a git bundle of a workspace's repository."""

import os

from workspaces.host import paths
from workspaces.models import ReasonCode, State
from workspaces.runner.job import Kind
from workspaces.runner.refusals import Refused
from workspaces.runner.steps.push import make_bundle


class CreateBundle(Kind):
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
