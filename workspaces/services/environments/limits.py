"""What the limits of an environment are, which of them are defaults, and whether its hosts enforce them."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext, gettext_lazy

from dashboard.problems import invalid
from workspaces.drivers import capabilities
from workspaces.models import Environment, Runner
from workspaces.provisioning import limits

MIB = 1024**2
# name in `Environment.limits`: (name that drivers use, label, the smallest and the largest value)
LIMITS = {
    "memory_bytes": ("memory", gettext_lazy("Memory"), 64 * MIB, 1024**5),
    "cpus": ("cpus", gettext_lazy("Processors"), 0.1, 1024),
    "pids": ("pids", gettext_lazy("Processes and threads"), 16, 4_000_000),
    "disk_bytes": ("disk", gettext_lazy("Disk"), 16 * MIB, 1024**5),
}


@dataclass(frozen=True)
class Limit:
    """A limit in force; `value` is None if there is none. `words` say how it is enforced, or why it is not."""

    name: str
    label: Promise
    value: float | None
    is_default: bool
    is_enforced: bool
    words: str = ""

    @property
    def amount(self) -> str:
        """Return the value with its unit, "" if there is no limit."""
        return "" if self.value is None else amount(self.name, self.value)

    def as_json(self) -> dict:
        facts = {"value": self.value, "default": self.is_default, "enforced": self.is_enforced, "words": self.words}
        return {"name": self.name} | facts


def limits_of(environment: Environment, runners: list[Runner] | None = None) -> list[Limit]:
    """Return the limits in force of an environment. `runners`: the live ones, if they have been read already."""
    runners = list(Runner.objects.alive().order_by("host")) if runners is None else runners
    found = []
    for name, value in limits.in_force(environment).items():
        enforced, words = _enforcement(environment.driver, name, value, runners)
        is_default = not environment.limits.get(name)
        found.append(Limit(name, LIMITS[name][1], value, is_default, enforced, words))
    return found


def check_limits(wanted: dict):
    """Problem 422 for a limit that does not exist, or whose value is no number in its range."""
    for name, value in wanted.items():
        if name not in LIMITS:
            raise invalid(f"There is no limit {name!r}; there are: {', '.join(LIMITS)}.")
        _, label, least, most = LIMITS[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise invalid(f"{label}: a number from {amount(name, least)} to {amount(name, most)}.")
        if name != "cpus" and value != int(value):
            raise invalid(f"{label}: a whole number.")


def amount(name: str, value: float) -> str:
    return f"{value / MIB:,.0f} MB" if name.endswith("_bytes") else f"{value:,}"


def defaults_in_words(name: str) -> str:
    """Return what a workspace gets whose environment does not name this limit."""
    guests = capabilities.drivers_with(own_kernel=True)
    usual, guest = (limits.defaults(driver)[name] for driver in (capabilities.DEFAULT, guests[0]))
    values = {"usual": amount(name, usual) if usual else gettext("no limit"), "guest": amount(name, guest)}
    if usual == guest:
        return gettext("Empty: %(usual)s.") % values
    return gettext("Empty: %(usual)s; in a microVM %(guest)s.") % values


def _enforcement(driver: str, name: str, value: float | None, runners: list[Runner]) -> tuple[bool, str]:
    """Return (whether each host enforces it, a sentence on how it does or why it does not)."""
    if capabilities.of(driver).own_folder:
        return False, gettext("Not enforced: programs of a connected folder run as its user, without a sandbox.")
    if value is None:
        return False, gettext("No limit: the server's setting turns it off.")
    if name == "disk_bytes" and capabilities.of(driver).measured_disk:
        return True, gettext("Measured every ten seconds; programs are frozen above it.")
    able = [runner for runner in runners if runner.capabilities.get(driver, {}).get("available")]
    if not able:
        return False, gettext("Not known: no host that is up can run it.")
    held_by = LIMITS[name][0]
    hosts = [runner.host for runner in able if held_by not in runner.capabilities[driver].get("limits", [])]
    return not hosts, _why_not(driver, ", ".join(hosts)) if hosts else ""


def _why_not(driver: str, hosts: str) -> str:
    if backend := capabilities.of(driver).backend:
        return gettext("Not enforced on %(hosts)s: its %(backend)s can't.") % {"hosts": hosts, "backend": backend}
    return gettext(
        "Not enforced on %(hosts)s: Handrail can't write control groups there. Run it as a systemd service with "
        "Delegate=yes, or as root."
    ) % {"hosts": hosts}
