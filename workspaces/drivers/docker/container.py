"""The settings of a Run's container: user, environment, mounts, capabilities and limits."""

import os
from collections.abc import Iterator
from pathlib import Path

from .. import manifest, setup_root
from ..base import RunSpec
from ..init.spawn import SPARE_PROCESSES
from ..sandbox.driver import AGENT_ENV, ETC, hostname_of, system_folders, write_etc, write_system_files
from . import bundle
from .bundle import AT

# What apt-get and dpkg need to install packages as the container's root.
SETUP_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETFCAP", "SETGID", "SETUID"]
SHARED_MEMORY = 512 << 20
CANARY_MEMORY = 512 << 20
# Every dynamic loader reads it, the bundle's too. An empty one is mounted: the image's could load a library into our
# init.
PRELOAD = "ld.so.preload"
SUPPORTED = {"memory": "MemoryLimit", "cpus": "CpuCfsQuota", "pids": "PidsLimit"}  # limit → its field in `docker info`


def settings(spec: RunSpec, image: dict, *, keeper: bool = False) -> dict:
    """Return the create_container() arguments for the first process: our init, or in gVisor the keeper with it."""
    init = [*bundle.command(AT, "keeper.pyz"), "keep"] if keeper else [*bundle.command(AT), "--door", f"{AT}/run/door"]
    if spec.phase == "setup":
        init += ["--give-back", str(spec.uid), str(spec.uid)]
    elif spec.system_files:
        # If the image had a symlink at the mount point, the mount would land behind it, perhaps in a folder that the
        # agent can move away.
        init += ["--no-links", *(f"/etc/{name}" for name in system_folders(spec))]
    if not keeper and (limit := own_limit(spec)) is not None:
        init += ["--max-processes", str(limit)]
    brought = {entry.partition("=")[0] for entry in image["Config"].get("Env") or ()}
    return {
        "image": image["Id"],
        "entrypoint": init,
        "command": [],
        # A name without a value unsets a variable, so that the init gets nothing the image sets (LD_PRELOAD). With
        # LC_ALL=C it loads no locale of the image.
        "environment": [*sorted(brought - {"LC_ALL"}), "LC_ALL=C"],
        "user": "0:0" if spec.phase == "setup" else f"{spec.uid}:{spec.uid}",
        "hostname": hostname_of(spec.key),
        "working_dir": "/workspace",
        "stop_timeout": 1,  # if the engine stops it: the init ignores every signal but SIGKILL
        "healthcheck": {"test": ["NONE"]},  # the engine would start processes without our init
    }


def in_gvisor(spec: RunSpec, host: dict, once: Path) -> dict:
    """Return `host_settings` for a container in gVisor. `once`: the folder of the key of its keeper."""
    # The engine's limit would count threads of gVisor itself, which ends when it cannot start one. The keeper listens
    # to 127.0.0.1:80 for the programs.
    changed = {"pids_limit": None, "sysctls": {"net.ipv4.ip_unprivileged_port_start": "0"}}
    return host | changed | {"mounts": [*host["mounts"], _bind(once, f"{AT}/once", read_only=True)]}


def canary_settings(place: Path) -> dict:
    """Return the create_host_config() arguments of a canary: as a workspace's, but for its folders and its root."""
    return {
        "mounts": [_bind(place, AT, read_only=True)],
        "tmpfs": {"/tmp": "rw,exec,nosuid,nodev,mode=1777"},
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "mem_limit": CANARY_MEMORY,
        "restart_policy": {"Name": "no"},
    }


def first_uid(spec: RunSpec) -> int:
    """Return the user of the first process."""
    return 0 if spec.phase == "setup" else spec.uid


def host_settings(spec: RunSpec, place: Path, shown: Path, info: dict) -> dict:
    """Return the create_host_config() arguments: mounts, capabilities, limits. `info` is the engine's `docker info`."""
    limits, setup = spec.limits, spec.phase == "setup"
    return {
        "mounts": [*_mounts(spec, place, shown)],
        "tmpfs": _tmpfs(spec),
        "network_mode": "none",
        "read_only": not setup,
        "cap_drop": ["ALL"],
        "cap_add": SETUP_CAPABILITIES if setup else None,
        "security_opt": ["no-new-privileges"],
        "ipc_mode": "private",
        "shm_size": min(SHARED_MEMORY, limits.memory or SHARED_MEMORY),
        "ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
        "log_config": {"type": "json-file", "config": {"max-size": "1m", "max-file": "1"}},
        "restart_policy": {"Name": "no"},
        # No user namespace remapping: files on the host belong to the workspace's uid, which must be the same inside.
        "userns_mode": "host" if has(info, "userns") else None,
        "mem_limit": limits.memory if info.get(SUPPORTED["memory"]) else None,
        # No swap: a program that fills its memory would continue in swap and slow the whole host down.
        "memswap_limit": limits.memory if info.get("SwapLimit") else None,
        "nano_cpus": _nano_cpus(limits.cpus, info),
        "pids_limit": _pids_limit(spec) if info.get(SUPPORTED["pids"]) else None,
    }


def own_limit(spec: RunSpec) -> int | None:
    """Return the limit on processes that the init sets on programs, which leaves it a few of the container's.

    The kernel counts by user, here on the whole host: only root gives each workspace a user of its own.
    """
    return spec.limits.pids if os.geteuid() == 0 and spec.phase != "setup" else None


def _pids_limit(spec: RunSpec) -> int | None:
    reserve = 0 if own_limit(spec) is None else SPARE_PROCESSES
    return None if spec.limits.pids is None else spec.limits.pids + reserve


def _nano_cpus(cpus: float | None, info: dict) -> int | None:
    """Return the limit of processors in billionths; the engine refuses more than it has, and any it can't enforce."""
    if not cpus or not info.get(SUPPORTED["cpus"]):
        return None
    return int(min(cpus, info.get("NCPU") or cpus) * 1e9)


def environment(spec: RunSpec, image: dict) -> dict[str, str]:
    """Return the environment of every program: the image's, overridden by the agent's, but with the image's PATH."""
    brought = dict(entry.split("=", 1) for entry in image["Config"].get("Env") or () if "=" in entry)
    path = brought.get("PATH") or AGENT_ENV["PATH"]
    local = "/home/agent/.local/bin"
    found = path if local in path else f"{local}:{path}"
    return brought | AGENT_ENV | {"PATH": found} | setup_root.variables(spec)


def write_files(folder: Path, spec: RunSpec) -> None:
    """Write the files that are mounted into the container's /etc, and the manifest of its tree."""
    agent = f"agent:x:{spec.uid}:{spec.uid}:agent:/home/agent:/bin/sh"
    passwd = "".join(
        f"{agent}\n" if line.startswith("agent:") else line for line in ETC["passwd"].splitlines(keepends=True)
    )
    group = ETC["group"].replace("agent:x:1000:", f"agent:x:{spec.uid}:")
    shown = {"passwd": passwd, "group": group, "resolv.conf": ETC["resolv.conf"], PRELOAD: ""}
    write_etc(folder, hostname_of(spec.key), shown)
    write_system_files(folder, spec)
    manifest.write(folder, spec)


def has(info: dict, option: str) -> bool:
    """Return whether the engine reports this security option."""
    return any(entry.startswith(f"name={option}") for entry in info.get("SecurityOptions") or ())


def limits_in_force(info: dict, spec: RunSpec) -> frozenset[str]:
    """Return the requested limits that the engine supports."""
    asked = {name for name in SUPPORTED if getattr(spec.limits, name) is not None}
    return frozenset(name for name in asked if info.get(SUPPORTED[name]))


def _mounts(spec: RunSpec, place: Path, shown: Path) -> Iterator[dict]:
    yield _bind(spec.workspace, "/workspace")
    if (shown / manifest.NAME).exists():
        yield _bind(shown / manifest.NAME, f"/workspace/{manifest.PATH}", read_only=True)
    yield _bind(spec.home, "/home/agent")
    for name, folder in spec.agent_programs.items():
        yield _bind(folder, f"/opt/agents/{name}", read_only=True)
    yield _bind(place, AT, read_only=True)
    yield _bind(shown, f"{AT}/run", read_only=True)
    # Packages that setup installs may add users, so it keeps the image's own passwd and group.
    names = ("hosts", "resolv.conf") if spec.phase == "setup" else ("hosts", "resolv.conf", "passwd", "group")
    for name in (PRELOAD, *names, *system_folders(spec)):
        yield _bind(shown / name, f"/etc/{name}", read_only=True)


def _bind(source: Path, target: str, read_only: bool = False) -> dict:
    options = {"Propagation": "rprivate"}
    return {
        "Type": "bind",
        "Source": str(source.resolve()),
        "Target": target,
        "ReadOnly": read_only,
        "BindOptions": options,
    }


def _tmpfs(spec: RunSpec) -> dict[str, str]:
    size = f",size={spec.limits.memory}" if spec.limits.memory else ""
    for_all = dict.fromkeys(("/tmp", "/var/tmp"), f"rw,exec,nosuid,nodev,mode=1777{size}")
    return for_all | {"/run": f"rw,nosuid,nodev,mode=755{size}"}
