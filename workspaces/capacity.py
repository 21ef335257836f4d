"""What this host can still take: room on its disk, and what it has promised to the workspaces that are up.

Refused before it fails: below the reserve nothing new is made, so that the snapshots at the end of what exists find
room; and no workspace is brought up beyond what the host has.
"""

import shutil

from django.conf import settings
from django.template.defaultfilters import filesizeformat

from dashboard.problems import Problem, unavailable
from workspaces.models import Run

NEARLY_FULL = 0.8  # of what a workspace may use: people are told


def free_bytes() -> int:
    return shutil.disk_usage(settings.HANDRAIL_HOME).free


def is_short_of_room() -> bool:
    return free_bytes() < settings.HANDRAIL_RESERVE_BYTES


def refuse_new():
    """Problem 507 in words while the disk has only its reserve left."""
    free = free_bytes()
    if free < settings.HANDRAIL_RESERVE_BYTES:
        raise Problem(
            507,
            f"The disk has {filesizeformat(free)} left, and {filesizeformat(settings.HANDRAIL_RESERVE_BYTES)} are kept "
            "back for saving what exists. Nothing new is made until there is room.",
        )


def size_limit(workspace) -> int:
    """How many bytes on disk it may have; 0: no limit."""
    return workspace.environment.limits.get("disk_bytes") or settings.HANDRAIL_WORKSPACE_BYTES


def refuse_when_promised(workspace, runner=None):
    """Problem 503 in words when its host cannot take one more, or one with its limits."""
    runner = runner or workspace.runner_id
    up = Run.objects.filter(ended_at=None).exclude(workspace=workspace)
    if runner is not None:
        up = up.filter(runner=runner)
    limits = [run.workspace.environment.limits for run in up.select_related("workspace__environment")]
    if settings.HANDRAIL_RUNS and len(limits) >= settings.HANDRAIL_RUNS:
        raise unavailable(f"This host is full: {len(limits)} workspaces are up. Pause one, or wait until one sleeps.")
    wanted = workspace.environment.limits
    _refuse_beyond(settings.HANDRAIL_PROMISED_MEMORY, "memory_bytes", wanted, limits, "memory", filesizeformat)
    _refuse_beyond(settings.HANDRAIL_PROMISED_CPUS, "cpus", wanted, limits, "processors", "{:g}".format)


def _refuse_beyond(most, name: str, wanted: dict, limits: list[dict], what: str, said):
    asked, promised = wanted.get(name) or 0, sum(limit.get(name) or 0 for limit in limits)
    if most and asked and promised + asked > most:
        raise unavailable(
            f"This host is full: of {said(most)} {what}, {said(promised)} are promised to workspaces that are up, and "
            f"this one asks for {said(asked)}. Pause one, or wait until one sleeps."
        )
