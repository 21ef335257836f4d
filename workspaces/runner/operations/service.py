"""Run a service of an environment while its workspace is up."""

from workspaces.runner.operations.command import RunCommand


class RunService(RunCommand):
    """Run a service of the environment while the workspace is up; submitted by reconcile/services.py."""

    is_asked = False

    def _counts(self, job):
        pass  # a service does not keep its workspace from an idle pause
