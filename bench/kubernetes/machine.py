"""What a cluster takes of the machine that it runs on: network namespaces, control groups, mounts, processes."""

import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from workspaces.drivers.processes import start_time

CGROUPS = Path("/sys/fs/cgroup")
CNI_RESULTS = Path("/var/lib/cni/results")
POD_LOGS = Path("/var/log/containers")  # where a kubelet links the logs of its pods, whatever its folder is
PODS = "pods"  # the bridge of a node's pods
SLOTS = 31  # clusters side by side
ENDS_S = 20  # within which what was killed has gone, also on a machine that has much to do
HELPERS = (b"containerd-shim", b"runsc", b"runc", b"mount", b"umount")  # what containerd and a kubelet start


def lacks() -> str:
    """Say in one line why no cluster can be started here; "" if one can."""
    if os.geteuid() != 0:
        return "only root can start a node"
    if not Path("/usr/lib/cni/bridge").exists():
        return "the network plug-ins are not installed: containernetworking-plugins"
    missing = [name for name in ("ip", "iptables", "nsenter", "mount") if shutil.which(name) is None]
    return f"{' and '.join(missing)} cannot be found" if missing else ""


def ip(*words: str, check: bool = True) -> bool:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise RuntimeError(f"`ip {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.returncode == 0


def take_slot() -> int:
    """Return the number of this cluster on this machine. Its bridge `hrkNUMBER` is the proof that it is taken."""
    for slot in range(SLOTS):
        if ip("link", "add", f"hrk{slot}", "type", "bridge", check=False):
            ip("address", "add", f"{address(slot)}/24", "dev", f"hrk{slot}")
            ip("link", "set", f"hrk{slot}", "up")
            return slot
    raise RuntimeError(f"{SLOTS} clusters run on this machine already, or no bridge can be made")


def address(slot: int, node: int = 254) -> str:
    """Return the address of a node, counted from 1; without one, of the control plane."""
    return f"10.77.{slot}.{node}"


def pods_of(slot: int, node: int) -> str:
    return f"10.78.{slot * 8 + node}.0/24"


def make_namespace(slot: int, node: int) -> str:
    """Make a node's network namespace with a cable to the bridge, and return its name."""
    name = f"hrk{slot}-{node}"
    ip("netns", "add", name)
    ip("link", "add", f"hrk{slot}n{node}", "type", "veth", "peer", "name", "eth0", "netns", name)
    ip("link", "set", f"hrk{slot}n{node}", "master", f"hrk{slot}", "up")
    for words in (
        ("link", "set", "lo", "up"),
        ("address", "add", f"{address(slot, node)}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("route", "add", "default", "via", address(slot)),
    ):
        ip("-n", name, *words)
    ip("route", "replace", pods_of(slot, node), "via", address(slot, node))
    subprocess.run([*inside(name), "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
    return name


def inside(namespace: str) -> list[str]:
    """Return what comes before a command that runs in a namespace. `ip netns exec` would hide the control groups."""
    return ["nsenter", f"--net=/run/netns/{namespace}"] if namespace else []


def set_wall(namespace: str, *, up: bool) -> None:
    """Let no pod of a node open a connection, or let each; what others open to it passes.

    It stands in for a network plug-in that enforces NetworkPolicies, for a policy of which every pod is the subject.
    """
    for chain in ("FORWARD", "INPUT"):
        for rule in (["-j", "DROP"], ["-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "ACCEPT"]):
            command = [*inside(namespace), "iptables", "--wait", "-I" if up else "-D", chain, "-i", PODS, *rule]
            subprocess.run(command, check=up, capture_output=True)


def set_cable(slot: int, node: int, *, up: bool) -> None:
    ip("link", "set", f"hrk{slot}n{node}", "up" if up else "down")


def remove_network(slot: int, nodes: dict[int, str]) -> None:
    """Remove the network namespaces of nodes, by their numbers, with their cables, and the bridge."""
    for number, name in nodes.items():
        ip("link", "delete", f"hrk{slot}n{number}", check=False)  # the kernel takes down what is in a namespace later
        ip("netns", "delete", name, check=False)
    ip("link", "delete", f"hrk{slot}", check=False)


def make_cgroup(name: str) -> None:
    """Make a node's control group, below which its kubelet makes those of pods."""
    if (CGROUPS / "cgroup.controllers").exists():
        controllers = " ".join(f"+{each}" for each in (CGROUPS / "cgroup.controllers").read_text().split())
        (CGROUPS / name).mkdir(exist_ok=True)
        for folder in (CGROUPS, CGROUPS / name):
            (folder / "cgroup.subtree_control").write_text(controllers)
        return
    for controller in CGROUPS.iterdir():
        group = controller / name
        if not (controller / "cgroup.procs").exists():
            continue
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, and then nothing can be put into it
            if (group / setting).exists():
                (group / setting).write_text((controller / setting).read_text())


def _groups(name: str) -> list[Path]:
    """Return all groups of a node, the inner ones first."""
    roots = [CGROUPS / name, *(controller / name for controller in CGROUPS.iterdir())]
    below = [Path(folder) for root in roots if root.is_dir() for folder, _, _ in os.walk(root)]
    return sorted(below, key=lambda folder: len(folder.parts), reverse=True)


def end_cgroup(name: str) -> None:
    """Kill what runs in a node's pods, and remove their control groups."""
    deadline = time.monotonic() + ENDS_S
    while (left := pids_in(name)) and time.monotonic() < deadline:
        for pid in left:
            kill(pid)
        time.sleep(0.1)
    for folder in _groups(name):
        while not _is_removed(folder) and time.monotonic() < deadline + ENDS_S:
            time.sleep(0.02)  # the kernel still takes down what was in it


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError as error:
        return error.errno == errno.ENOENT
    return True


def pids_in(name: str) -> set[int]:
    found = set()
    for folder in _groups(name):
        try:
            found |= {int(pid) for pid in (folder / "cgroup.procs").read_text().split()}
        except OSError:
            continue  # it has just gone
    return found


def end_runtimes(folder: Path) -> None:
    """Kill what `runtimes_in` finds, and wait until it has gone: what is killed still writes for a moment."""
    deadline = time.monotonic() + ENDS_S
    while (left := runtimes_in(folder)) and time.monotonic() < deadline:
        for pid in left:
            kill(pid)
            reap(pid)
        time.sleep(0.02)


def runtimes_in(folder: Path) -> set[int]:
    """Return the processes of runtimes, and those that mount, whose command line names something in the folder."""
    found = set()
    for entry in Path("/proc").iterdir():
        try:
            command = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue  # it has just ended
        name = os.path.basename(command.partition(b"\0")[0])
        if name.startswith(HELPERS) and f"{folder}/".encode() in command:
            found.add(int(entry.name))
    return found


def kill(pid: int, sent: int = signal.SIGKILL) -> None:
    try:
        os.kill(pid, sent)
    except ProcessLookupError:
        pass


def end(pid: int, began: int, within: float = 10.0) -> None:
    """End a process, if it is still the one that began then."""
    if start_time(pid) != began:
        return
    kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + within
    while start_time(pid) == began:
        if time.monotonic() > deadline:
            kill(pid)
        reap(pid)
        time.sleep(0.05)


def reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # another process has started it


def unmount_below(folder: Path) -> None:
    mounted = [re.sub(r"\\040", " ", line.split()[1]) for line in Path("/proc/mounts").read_text().splitlines()]
    for point in sorted((point for point in mounted if point.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


def remove_traces(folder: Path, networks: list[str]) -> None:
    """Remove what kubelets and network plug-ins keep outside the cluster's folder."""
    for network in networks:
        for result in CNI_RESULTS.glob(f"{network}-*"):
            result.unlink(missing_ok=True)
    for link in logs_of(folder):
        link.unlink(missing_ok=True)


def logs_of(folder: Path) -> list[Path]:
    """Return the links to logs of a cluster's pods. The kubelets of other clusters remove theirs at any time."""
    found = []
    for link in POD_LOGS.glob("*"):
        with contextlib.suppress(OSError):
            found += [link] if os.readlink(link).startswith(f"{folder}/") else []
    return found
