"""The drivers, the isolation level of each, and which of them are available now."""

from django.conf import settings
from django.utils.translation import gettext_lazy

from dashboard.problems import invalid
from workspaces.drivers import capabilities
from workspaces.envelope import ring
from workspaces.models import Runner

# Weakest first. An emulated machine (TCG) is not a security boundary.
LEVELS = (
    "none", "namespace", "microvm-emulated", "container", "pod-runc", "container-gvisor", "pod-gvisor", "microvm",
    "pod-kata",
)  # fmt: skip
IN_WORDS = {
    "none": gettext_lazy("not sandboxed"),
    "namespace": gettext_lazy("sandboxed"),
    "microvm-emulated": gettext_lazy("emulated microVM"),
    "container": gettext_lazy("container"),
    "container-gvisor": gettext_lazy("container in gVisor"),
    "pod-runc": gettext_lazy("pod"),
    "pod-gvisor": gettext_lazy("pod in gVisor"),
    "microvm": gettext_lazy("microVM"),
    "pod-kata": gettext_lazy("pod in a microVM"),
}


def is_enough(offered: str, minimum: str) -> bool:
    return LEVELS.index(offered) >= LEVELS.index(minimum)


def check(driver: str, minimum: str):
    """Raise Problem 422 if the driver is unknown, or isolates less than the environment requires."""
    if driver not in capabilities.TABLE:
        raise invalid(f"There is no driver {driver!r}; there are: {', '.join(capabilities.TABLE)}.")
    if minimum not in LEVELS:
        raise invalid(f"There is no isolation {minimum!r}; there are: {', '.join(LEVELS)}.")
    if not is_enough(offers := capabilities.of(driver).isolation, minimum):
        raise invalid(too_little(driver, offers, minimum))


def of(workspace) -> str:
    """Return the isolation level of this workspace on its host."""
    environment = workspace.environment
    if not environment.capabilities.isolation_varies:
        return environment.capabilities.isolation
    return _probe_for(workspace).get("isolation") or environment.minimum_isolation


def of_class(probe: dict, runtime_class: str) -> dict:
    """Return the part of a driver's probe for this runtime class: {isolation, envelope}, {} for an unknown one."""
    return probe.get("classes", {}).get(runtime_class, {}) if runtime_class else probe


def _probe_for(workspace) -> dict:
    probes = workspace.runner.capabilities if workspace.runner is not None else {}
    return of_class(probes.get(workspace.environment.driver, {}), workspace.environment.runtime_class)


def holds_programs(workspace) -> bool:
    """Return whether the workspace's host holds agents' programs to envelopes, in full."""
    if not settings.HANDRAIL_HELD:
        return False
    return ring.is_held(_probe_for(workspace).get("envelope") or {})


def offered(driver: str, runtime_class: str = "") -> str:
    """Return the strongest isolation a live host offers with this driver: the default minimum of an environment."""
    able = capabilities.of(driver)
    probes = [probes[driver] for probes in _reported_capabilities() if driver in probes]
    levels = [of_class(probe, runtime_class).get("isolation") for probe in probes if probe.get("available")]
    known = [level for level in levels if level in LEVELS]
    return max(known, key=LEVELS.index, default=able.isolation if runtime_class else able.usual_isolation)


def runtime_classes(driver: str) -> list[str]:
    """Return the runtime classes that live hosts have found for a driver."""
    return sorted({name for probes in _reported_capabilities() for name in probes.get(driver, {}).get("classes", {})})


def too_little(driver: str, offered: str, minimum: str) -> str:
    return f"This environment requires at least isolation {minimum}; {driver} offers {offered}."


def available() -> list[str]:
    """Return the drivers that a new workspace can use now."""
    said = _reported_capabilities()
    able = {name for probes in said for name, probe in probes.items() if probe.get("available")}
    made = capabilities.drivers_with(own_folder=False)
    return [name for name in made if name == capabilities.DEFAULT or name in able]


def _reported_capabilities() -> list[dict]:
    """Return the capabilities reported by each live runner: a list of {driver: probe}."""
    return list(Runner.objects.alive().order_by("host").values_list("capabilities", flat=True))


def why_not(driver: str) -> str:
    """Return why no host can use this driver now, as text for a person; "" if one can."""
    probes = [probes[driver] for probes in _reported_capabilities() if driver in probes]
    if any(probe.get("available") for probe in probes):
        return ""
    said = [probe[part] for probe in probes for part in ("reason", "what_to_do") if probe.get(part)]
    return " ".join(said) or "No runner supports it."
