"""Resolve the tag of an environment's image to its digest, and pull that, because a lead asked for it."""

from workspaces.models import Environment
from workspaces.provisioning import images
from workspaces.runner.job import Kind
from workspaces.services.environments import pulled


class PullImage(Kind):
    """Pull the image of an environment; args: {environment, image}. Performing it again after a crash is safe."""

    when_cancelled = "Nothing was changed."

    async def perform(self, job):
        await job.mark_started()
        environment = await job.thread(Environment.objects.get, pk=job.args["environment"])
        driver = job.daemon.driver(environment.driver)
        await job.thread(images.check_registry, job.args["image"])
        await job.progress(step="pull")
        pinned = await driver.resolve_image(job.args["image"])
        await driver.pull_image(pinned, asked=True)
        return {"ok": True, "image": pinned}

    def finish(self, job, outcome):
        pulled.finish(job.operation, outcome, by=job.by)
