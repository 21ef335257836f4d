"""Presets of new environments: six situations, each with settings that fit it and that the form can change."""

from dataclasses import dataclass, field

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

HOUR, DAY = 3600, 24 * 3600
GB = 1024**3


@dataclass(frozen=True)
class Preset:
    """A situation: `fields` are columns of an environment; `drivers` are those that fit, the best one first."""

    name: str
    title: Promise
    sentence: Promise
    drivers: tuple[str, ...]
    fields: dict = field(default_factory=dict)

    def fields_with(self, available: list[str]) -> dict:
        """Return its fields with the best driver that is available; the isolation stays the form's default."""
        driver = next((name for name in self.drivers if name in available), "sandbox")
        return self.fields | {"driver": driver}


PRESETS = (
    Preset(
        "review",
        gettext_lazy("Throw-away review"),
        gettext_lazy(
            "Look at a branch and run its tests, without network. Ephemeral: after 5 idle minutes it stops, the "
            "changes are kept as a patch and a snapshot, and the files leave the host."
        ),
        ("sandbox", "docker"),
        {
            "idle_seconds": 300,
            "stop_seconds": HOUR,
            "ephemeral": True,
            "limits": {"memory_bytes": 4 * GB, "disk_bytes": 10 * GB},
        },
    ),
    Preset(
        "long-task",
        gettext_lazy("Long task"),
        gettext_lazy("Days of work by an agent. Pauses after half an hour, stops after a week, and has room to build."),
        ("docker", "sandbox"),
        {"idle_seconds": 1800, "stop_seconds": 7 * DAY, "limits": {"memory_bytes": 8 * GB, "disk_bytes": 50 * GB}},
    ),
    Preset(
        "risky-upgrade",
        gettext_lazy("Risky upgrade"),
        gettext_lazy("Upgrade a framework or system package. Has a kernel of its own where the host offers it."),
        ("microvm", "docker", "sandbox"),
        {"idle_seconds": 1800, "stop_seconds": 2 * DAY, "limits": {"memory_bytes": 8 * GB, "disk_bytes": 50 * GB}},
    ),
    Preset(
        "service",
        gettext_lazy("Service that runs"),
        gettext_lazy("A server that restarts when it fails; name it under Services. Pauses after a day without use."),
        ("docker", "microvm", "sandbox"),
        {"idle_seconds": DAY, "limits": {"memory_bytes": 2 * GB, "disk_bytes": 10 * GB}},
    ),
    Preset(
        "demo",
        gettext_lazy("Shared demo"),
        gettext_lazy("People look at something that runs. Small limits, no network, paused after an hour."),
        ("docker", "microvm", "sandbox"),
        {
            "idle_seconds": HOUR,
            "stop_seconds": DAY,
            "limits": {"memory_bytes": 2 * GB, "cpus": 1.0, "disk_bytes": 5 * GB},
        },
    ),
    Preset(
        "airtight",
        gettext_lazy("Airtight"),
        gettext_lazy("Code that nobody trusts. The strongest isolation here, no network in any phase, and no secrets."),
        ("microvm", "docker", "sandbox"),
        {
            "idle_seconds": 300,
            "stop_seconds": HOUR,
            "limits": {"memory_bytes": 2 * GB, "pids": 512, "disk_bytes": 5 * GB},
        },
    ),
)
BY_NAME = {preset.name: preset for preset in PRESETS}
