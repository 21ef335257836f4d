"""Which drivers there are, how much each holds apart, and which can be used now."""

from datetime import timedelta

from dashboard import clock
from dashboard.problems import invalid
from workspaces.models import Runner

ISOLATION = {"folder": "none", "sandbox": "namespace", "docker": "container", "microvm": "microvm"}
VARIES = {"microvm"}  # where it depends on the host how much that is
# From least to most; an emulated machine is no security boundary.
LEVELS = ("none", "namespace", "microvm-emulated", "container", "microvm")
SILENT = timedelta(minutes=2)


def is_enough(offered: str, minimum: str) -> bool:
    return LEVELS.index(offered) >= LEVELS.index(minimum)


def check(driver: str, minimum: str):
    """Problem 422 for a driver that there is not, or that holds less apart than the environment wants."""
    if driver not in ISOLATION:
        raise invalid(f"There is no driver {driver!r}; there are: {', '.join(ISOLATION)}.")
    if minimum not in LEVELS:
        raise invalid(f"There is no isolation {minimum!r}; there are: {', '.join(LEVELS)}.")
    if not is_enough(ISOLATION[driver], minimum):
        raise invalid(too_little(driver, ISOLATION[driver], minimum))


def of(workspace) -> str:
    """How much holds this workspace apart on its host."""
    driver = workspace.environment.driver
    if driver not in VARIES:
        return ISOLATION.get(driver, "none")
    capabilities = workspace.runner.capabilities if workspace.runner is not None else {}
    return capabilities.get(driver, {}).get("isolation") or workspace.environment.minimum_isolation


def offered(driver: str) -> str:
    """The most that a host offers now with this driver: an environment that asks for nothing else keeps to that."""
    levels = [p[driver].get("isolation") for p in _said() if driver in p and p[driver].get("available")]
    known = [level for level in levels if level in LEVELS]
    return max(known, key=LEVELS.index, default=ISOLATION.get(driver, "none"))


def too_little(driver: str, offered: str, minimum: str) -> str:
    return f"This environment wants isolation {minimum} at least, and {driver} offers {offered}."


def available() -> list[str]:
    """The drivers that a new workspace can be made with now."""
    said = _said()
    able = {name for probes in said for name, probe in probes.items() if probe.get("available")}
    return ["sandbox", *(name for name in ISOLATION if name in able - {"sandbox", "folder"})]


def _said() -> list[dict]:
    """What each host that was heard of lately says of its drivers."""
    runners = Runner.objects.filter(heartbeat_at__gt=clock.now() - SILENT).order_by("host")
    return list(runners.values_list("capabilities", flat=True))


def why_not(driver: str) -> str:
    """Why no host can use this driver now, in words; "" when one can."""
    probes = [probes[driver] for probes in _said() if driver in probes]
    if any(probe.get("available") for probe in probes):
        return ""
    said = [probe[part] for probe in probes for part in ("reason", "what_to_do") if probe.get(part)]
    return " ".join(said) or "No runner has said that it can use it."
