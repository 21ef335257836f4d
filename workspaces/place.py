"""The host of a workspace: its files, programs and output are on the host of its runner, and reached only there."""

from django.conf import settings

from dashboard.problems import unavailable


def refuse_elsewhere(workspace):
    """Raise Problem 503 (code elsewhere) for a workspace on another host: unreachable from here is not gone."""
    runner = workspace.runner
    if runner is not None and runner.host != settings.HANDRAIL_HOST_NAME:
        raise unavailable(
            f"{workspace.key} is on {runner.host}, which this address cannot reach.", code="elsewhere", host=runner.host
        )
