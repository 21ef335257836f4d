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


def refuse_when_promised(workspace, runner=None, *, beside_itself=False):
    """Raise Problem 503 if the host cannot run one more workspace, or not one with these memory and CPU limits.

    Only limits that environments name are reserved, not the defaults. `beside_itself`: a copy of the workspace, while
    it may be running itself.
    """
    runner = runner or workspace.runner_id
    up = Run.objects.filter(ended_at=None)
    up = up if beside_itself else up.exclude(workspace=workspace)
    if runner is not None:
        up = up.filter(runner=runner)
    promised = [run.workspace.environment.limits for run in up.select_related("workspace__environment")]
    if settings.HANDRAIL_RUNS and len(promised) >= settings.HANDRAIL_RUNS:
        raise unavailable(
            f"This host is full: {len(promised)} workspaces are running. Pause one, or wait until one is paused."
        )
    wanted = workspace.environment.limits
    _refuse_beyond(settings.HANDRAIL_PROMISED_MEMORY, "memory_bytes", wanted, promised, "memory", plain_size)
    _refuse_beyond(settings.HANDRAIL_PROMISED_CPUS, "cpus", wanted, promised, "processors", "{:g}".format)


def _refuse_beyond(most, name: str, wanted: dict, limits: list[dict], what: str, said):
    """Raise Problem 503 if the sum of `limits[name]` and what is wanted exceeds `most`; 0 means no limit."""
    asked, promised = wanted.get(name) or 0, sum(limit.get(name) or 0 for limit in limits)
    if most and asked and promised + asked > most:
        raise unavailable(
            f"This host is full: of {said(most)} {what}, {said(promised)} are reserved for running workspaces, and "
            f"this one needs {said(asked)}. Pause one, or wait until one is paused."
        )
