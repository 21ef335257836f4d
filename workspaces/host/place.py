"""The host of a workspace: its files, programs and output are on the host of its runner, and reached through that."""

from django.conf import settings
from django.db.models import Q

from dashboard.database import clock
from workspaces.models import State
from workspaces.models.runners import RUNNER_TIMEOUT


def is_away(workspace) -> bool:
    """Return whether the workspace is on another host, whose runner does not answer now. It may ask the database."""
    if workspace.runner_id is None or (workspace.state == State.ARCHIVED and shares_store()):
        return False
    runner = workspace.runner
    return runner.host != settings.HANDRAIL_HOST_NAME and not runner.is_alive


def are_away() -> Q:
    """Return the condition of `is_away` for a query of workspaces."""
    silent = Q(runner__heartbeat_at=None) | Q(runner__heartbeat_at__lt=clock.now() - RUNNER_TIMEOUT)
    kept = Q(state=State.ARCHIVED) if shares_store() else Q(pk__in=[])
    return silent & Q(runner__isnull=False) & ~Q(runner__host=settings.HANDRAIL_HOST_NAME) & ~kept


def shares_store() -> bool:
    """Return whether snapshots are kept where every host reaches them."""
    return bool(getattr(settings, "HANDRAIL_BUCKET", ""))


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
    """Return what an operation that has not ended waits for, as a message: a host that is away, or one that is fit.

    A coroutine gives the workspace, loaded with its runner.
    """
    if operation.settled_at is not None:
        return ""
    if operation.runner_id is None and (words := operation.progress.get("no_host")):
        return words
    workspace = workspace or operation.workspace
    away = workspace and silence(workspace)
    return f"It waits for {away}." if away else ""


def shown(workspace) -> dict | None:
    """Return {host, since} of the host that has the workspace's files; None while it is placed on none."""
    if workspace.runner is None:
        return None
    return {"host": workspace.runner.host, "since": workspace.placed_at or workspace.created_at}
