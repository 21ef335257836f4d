"""Admission control for this host: free disk space, and the memory and CPUs reserved for running workspaces.

Nothing new is created once free space falls below the reserve, so that existing workspaces can still be snapshotted.
No workspace is started that would exceed the host's configured capacity.
"""

import shutil

from django.conf import settings

from dashboard.problems import Problem, unavailable
from dashboard.text.visible_text import plain_size
from workspaces.models import Run
from workspaces.provisioning import limits

NEARLY_FULL = 0.8  # fraction of a workspace's disk limit above which people are warned


def free_bytes() -> int:
    return shutil.disk_usage(settings.HANDRAIL_HOME).free


def is_short_of_room() -> bool:
    return free_bytes() < settings.HANDRAIL_RESERVE_BYTES


def refuse_new():
    """Raise Problem 507 if free disk space is below the reserve."""
    free = free_bytes()
    if free < settings.HANDRAIL_RESERVE_BYTES:
        raise Problem(
            507,
            f"The disk has {plain_size(free)} left; {plain_size(settings.HANDRAIL_RESERVE_BYTES)} are reserved "
            "for snapshots. Nothing new is created until there is room.",
        )


def size_limit(workspace) -> int:
    """Return the workspace's disk limit in bytes; 0 means no limit."""
    return limits.disk_bytes(workspace.environment)


def figures_here() -> dict:
    """Return what this host may promise: {runs, memory_bytes, cpus}; 0 means no limit."""
    return {
        "runs": settings.HANDRAIL_RUNS,
        "memory_bytes": settings.HANDRAIL_PROMISED_MEMORY,
        "cpus": settings.HANDRAIL_PROMISED_CPUS,
    }


def room_here() -> dict:
    """Return `figures_here`, and `is_short_of_disk`: what other hosts read of this one in its row."""
    return figures_here() | {"is_short_of_disk": is_short_of_room()}


def refuse_when_promised(workspace, runner=None, *, beside_itself=False):
    """Raise Problem 503 if the host cannot run one more workspace, or not one with these memory and CPU limits.

    Only limits that environments name are reserved, not the defaults. `runner` is the id of this host's;
    `beside_itself`: a copy of the workspace, while it may be running itself.
    """
    up = Run.objects.filter(ended_at=None)
    up = up if beside_itself else up.exclude(workspace=workspace)
    if (host := runner or workspace.runner_id) is not None:
        up = up.filter(runner=host)
    is_here = runner or workspace.runner is None or workspace.runner.host == settings.HANDRAIL_HOST_NAME
    running = [run.workspace.environment.limits for run in up.select_related("workspace__environment")]
    figures = figures_here() if is_here else workspace.runner.room
    if words := beyond(figures, workspace.environment.limits, running):
        name = "This host" if is_here else f"Its host {workspace.runner.host}"
        raise unavailable(f"{name} {words}. Pause one, or wait until one is paused.")


def beyond(figures: dict, wanted: dict, running: list[dict]) -> str:
    """Return why a host with these figures cannot run one more workspace, as a clause about it; "" if it can.

    `running` are the limits of those that it runs, `wanted` those of the one more.
    """
    if figures.get("runs") and len(running) >= figures["runs"]:
        return f"is full: {len(running)} workspaces are running"
    memory = _beyond(figures.get("memory_bytes"), "memory_bytes", wanted, running, "memory", plain_size)
    return memory or _beyond(figures.get("cpus"), "cpus", wanted, running, "processors", "{:g}".format)


def _beyond(most, name: str, wanted: dict, running: list[dict], what: str, shown) -> str:
    """Return why the sum of the limits with this name and what is wanted exceed `most`; "" if not, or without one."""
    asked, promised = wanted.get(name) or 0, sum(limits.get(name) or 0 for limits in running)
    if not (most and asked and promised + asked > most):
        return ""
    return (
        f"is full: of {shown(most)} {what}, {shown(promised)} are reserved for running workspaces, and this one needs "
        f"{shown(asked)}"
    )
