"""The limits that a workspace of an environment has: its own, or the defaults of its driver and of this server."""

from django.conf import settings

from workspaces.drivers import capabilities
from workspaces.drivers.default_limits import GUEST_CPUS, GUEST_DISK, GUEST_MEMORY, PIDS
from workspaces.models import Environment

NAMES = ("memory_bytes", "cpus", "pids", "disk_bytes")


def defaults(driver: str) -> dict[str, float | None]:
    """Return the limits of an environment with this driver that names none; None: there is no limit."""
    if capabilities.of(driver).own_kernel:
        return {"memory_bytes": GUEST_MEMORY, "cpus": GUEST_CPUS, "pids": PIDS, "disk_bytes": GUEST_DISK}
    disk = {"disk_bytes": settings.HANDRAIL_WORKSPACE_BYTES or None}
    if capabilities.of(driver).own_folder:
        return dict.fromkeys(NAMES) | disk
    memory, cpus = settings.HANDRAIL_WORKSPACE_MEMORY or None, settings.HANDRAIL_WORKSPACE_CPUS or None
    return {"memory_bytes": memory, "cpus": cpus, "pids": PIDS} | disk


def in_force(environment: Environment) -> dict[str, float | None]:
    """Return each limit by its name in `Environment.limits`; None: there is no limit."""
    own = environment.limits
    return {name: own.get(name) or default for name, default in defaults(environment.driver).items()}


def disk_bytes(environment: Environment) -> int:
    """Return the limit of a workspace's files in bytes; 0: there is no limit."""
    return in_force(environment)["disk_bytes"] or 0
