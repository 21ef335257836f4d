"""The host of a workspace: its files, programs and output are on the host of its runner, and reached only there."""

from django.conf import settings

from dashboard.problems import unavailable


def is_away(workspace) -> bool:
    """Return whether the workspace is on another host, whose runner does not answer now. It may ask the database."""
    runner = workspace.runner
    return runner is not None and runner.host != settings.HANDRAIL_HOST_NAME and not runner.is_alive


def silence(workspace) -> str:
    """Return which host has not answered since when, as a clause; "" unless that host is away."""
    if not is_away(workspace):
        return ""
    since = workspace.runner.heartbeat_at
    return f"{workspace.runner.host}, which has not answered since " + (
        f"{since:%Y-%m-%d %H:%M} UTC" if since else "its last start"
    )


def unreachable(workspace) -> str:
    """Return why nothing can be done in the workspace, as a message; "" unless its host is away."""
    away = silence(workspace)
    return away and f"It is on {away}. Nothing is lost and nothing was changed: it goes on when that host is back."


def waits_for(operation, workspace=None) -> str:
    """Return what an operation that has not ended waits for, as a message; "" unless its workspace's host is away.

    A coroutine gives the workspace, loaded with its runner.
    """
    if operation.settled_at is not None:
        return ""
    workspace = workspace or operation.workspace
    away = workspace and silence(workspace)
    return f"It waits for {away}." if away else ""


def refuse_elsewhere(workspace):
    """Raise Problem 503 (code elsewhere) for a workspace on another host: unreachable from here is not gone."""
    runner = workspace.runner
    if runner is not None and runner.host != settings.HANDRAIL_HOST_NAME:
        raise unavailable(
            f"{workspace.key} is on {runner.host}, which this address cannot reach.", code="elsewhere", host=runner.host
        )
