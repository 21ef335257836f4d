"""Control groups of a Run: cgroup v2 where its controllers are delegated to us, v1 where it is writable.

The groups of Runs lie in a `handrail` group below this process's own group or below an ancestor that we may write to,
so that the limits of that group apply to them too.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from .base import Limits

CONTROLLER = {"memory": "memory", "cpus": "cpu", "pids": "pids"}
CPU_PERIOD = 100_000  # microseconds


@dataclass(frozen=True)
class Hierarchy:
    """A cgroup folder in which groups can be made, and the limits that they enforce."""

    version: int
    base: Path
    limits: frozenset[str]


def hierarchies() -> list[Hierarchy]:
    """Return the hierarchies this process may use, empty if none is writable; create the `handrail` groups in them."""
    found = []
    own = _own_groups()
    for mount, root, kind, options in _mounts():
        if kind == "cgroup2":
            found += _version_2(mount, _group_folder(mount, root, own.get("", "/")))
        else:
            limits = frozenset(limit for limit, name in CONTROLLER.items() if name in options)
            if limits:
                controller = CONTROLLER[min(limits)]
                found += _version_1(_group_folder(mount, root, own.get(controller, "/")), limits)
    taken: set[str] = set()
    usable = []
    for hierarchy in found:
        limits = hierarchy.limits - taken
        if limits:
            usable.append(Hierarchy(hierarchy.version, hierarchy.base, limits))
            taken |= limits
    return usable


def create(run_id: str, limits: Limits) -> tuple[list[str], frozenset[str], str | None]:
    """Make a Run's groups; return the folders to join, the names of the active limits, and the OOM counter's file."""
    groups, in_force, oom_file = [], set(), None
    for hierarchy in hierarchies():
        group = hierarchy.base / run_id
        group.mkdir(exist_ok=True)
        groups.append(str(group))
        for limit in hierarchy.limits:
            value = getattr(limits, limit)
            if value is not None:
                _set(group, hierarchy.version, limit, value)
                in_force.add(limit)
        if "memory" in hierarchy.limits:
            oom_file = str(group / ("memory.events" if hierarchy.version == 2 else "memory.oom_control"))
    return groups, frozenset(in_force), oom_file


def remove(groups) -> bool:
    """Remove a Run's groups; return False if one still has processes."""
    for group in groups:
        try:
            os.rmdir(group)
        except FileNotFoundError:
            pass
        except OSError:
            return False
    return True


def oom_kills(oom_file: str | None) -> int:
    """Return how many processes of the Run the OOM killer has killed so far."""
    if oom_file is None:
        return 0
    try:
        lines = Path(oom_file).read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def oom_file_of(pid: int) -> str | None:
    """Return the OOM counter's file of the group a process is in, for groups made by others (a container engine)."""
    own = _own_groups(pid)
    for mount, root, kind, options in _mounts():
        if kind == "cgroup2":
            group, name = _group_folder(mount, root, own.get("", "/")), "memory.events"
        elif "memory" in options:
            group, name = _group_folder(mount, root, own.get("memory", "/")), "memory.oom_control"
        else:
            continue
        if group != mount and (group / name).is_file():
            return str(group / name)
    return None


def _set(group: Path, version: int, limit: str, value: float) -> None:
    """Write one limit of a group: memory (bytes), cpus (1.5 = one and a half) or pids."""
    if limit == "memory":
        (group / ("memory.max" if version == 2 else "memory.limit_in_bytes")).write_text(str(int(value)))
        # Without a swap limit, a program that fills its memory continues in swap and slows the whole host down.
        swap = group / ("memory.swap.max" if version == 2 else "memory.memsw.limit_in_bytes")
        if swap.exists():
            swap.write_text("0" if version == 2 else str(int(value)))
    elif limit == "cpus":
        quota = max(1000, int(value * CPU_PERIOD))
        if version == 2:
            (group / "cpu.max").write_text(f"{quota} {CPU_PERIOD}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(CPU_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
    else:
        (group / "pids.max").write_text(str(int(value)))


def _version_1(own: Path, limits: frozenset[str]) -> list[Hierarchy]:
    """Return the hierarchy in a v1 group, or nothing if it is not writable."""
    base = own / "handrail"
    try:
        base.mkdir(exist_ok=True)
    except OSError:
        return []
    return [Hierarchy(1, base, limits)] if os.access(base / "cgroup.procs", os.W_OK) else []


def _version_2(mount: Path, own: Path) -> list[Hierarchy]:
    """Return the hierarchy in the highest writable v2 group with controllers that we need, or nothing."""
    # A group with processes of its own cannot enable controllers for children ("no internal processes" rule), so ours
    # is made in the highest group that we may write to: the root for root, the delegated one for a user's service.
    above = [own, *own.parents]
    candidates = [group for group in above[: above.index(mount) + 1] if os.access(group / "cgroup.procs", os.W_OK)]
    for group in reversed(candidates):
        base = group / "handrail"
        try:
            names = set((group / "cgroup.controllers").read_text().split()) & set(CONTROLLER.values())
            if not names:
                continue
            enable = " ".join(f"+{name}" for name in sorted(names))
            (group / "cgroup.subtree_control").write_text(enable)
            base.mkdir(exist_ok=True)
            (base / "cgroup.subtree_control").write_text(enable)
        except OSError:
            continue
        return [Hierarchy(2, base, frozenset(limit for limit, name in CONTROLLER.items() if name in names))]
    return []


def _own_groups(pid: int | str = "self") -> dict[str, str]:
    """Return {controller: path of the group}; cgroup v2 has the empty name."""
    groups = {}
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        groups.update(dict.fromkeys(controllers.split(","), path))
    return groups


def _mounts() -> list[tuple[Path, str, str, set[str]]]:
    """Return (mount point, root within the file system, type, options) of each mounted cgroup hierarchy."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _source, options = right.split(" ")[:3]
        if kind in ("cgroup", "cgroup2"):
            fields = left.split(" ")
            found.append((Path(fields[4]), fields[3], kind, set(options.split(","))))
    return found


def _group_folder(mount: Path, root: str, path: str) -> Path:
    """Return the folder of the group `path`; the mount point itself if a container hides the path to it."""
    inside = os.path.relpath(path, root) if path.startswith(root) else "."
    folder = mount / inside
    return folder if ".." not in folder.parts and folder.is_dir() else mount
