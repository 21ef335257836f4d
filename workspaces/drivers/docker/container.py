"""What a container of ours is: who runs in it, what it sees, what it may and how much."""

from collections.abc import Iterator
from pathlib import Path

from ..base import RunSpec
from ..sandbox import AGENT_ENV, ETC, hostname_of, write_etc
from . import bundle

AT = "/.handrail"  # where it sees our bundle
# What apt-get and dpkg need to install packages, as root of the container alone.
SETUP_CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETFCAP", "SETGID", "SETUID"]
SHARED_MEMORY = 512 << 20
SUPPORTED = {"memory": "MemoryLimit", "cpus": "CpuCfsQuota", "pids": "PidsLimit"}  # limit → its field in `docker info`


def settings(spec: RunSpec, image: dict, place: Path) -> dict:
    """What is said to the engine about the first process; `place` is the bundle."""
    init = [*bundle.command(place, AT), "--door", f"{AT}/run/door"]
    if spec.phase == "setup":
        init += ["--give-back", str(spec.uid), str(spec.uid)]
    brought = {entry.partition("=")[0] for entry in image["Config"].get("Env") or ()}
    return {
        "image": image["Id"],
        "entrypoint": init,
        "command": [],
        # A name alone takes a variable away: the init gets nothing that the image sets (LD_PRELOAD), and with this
        # locale it loads none of the image's.
        "environment": [*sorted(brought - {"LC_ALL"}), "LC_ALL=C"],
        "user": "0:0" if spec.phase == "setup" else f"{spec.uid}:{spec.uid}",
        "hostname": hostname_of(spec.key),
        "working_dir": "/workspace",
        "stop_timeout": 1,  # when the engine ends it, its init heeds no signal but SIGKILL
        "healthcheck": {"test": ["NONE"]},  # it would start programs behind our init's back
    }


def host_settings(spec: RunSpec, place: Path, shown: Path, info: dict) -> dict:
    """What holds it: mounts, rights, limits. `info` is what the engine says of itself."""
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
        # Files on the host belong to the workspace's uid, so that uid must mean the same in the container.
        "userns_mode": "host" if has(info, "userns") else None,
        "mem_limit": limits.memory,
        # No swap on top: a program that fills its memory would go on in it, slowly, and take the host with it.
        "memswap_limit": limits.memory if info.get("SwapLimit") else None,
        "nano_cpus": int(limits.cpus * 1e9) if limits.cpus else None,
        "pids_limit": limits.pids,
    }


def environment(spec: RunSpec, image: dict) -> dict[str, str]:
    """What every program has: the image's own, then the agent's; the way to the image's tools stays."""
    brought = dict(entry.split("=", 1) for entry in image["Config"].get("Env") or () if "=" in entry)
    path = brought.get("PATH") or AGENT_ENV["PATH"]
    local = "/home/agent/.local/bin"
    who = {"USER": "root", "LOGNAME": "root"} if spec.phase == "setup" else {}
    return brought | AGENT_ENV | {"PATH": path if local in path else f"{local}:{path}"} | who | dict(spec.env)


def write_files(folder: Path, spec: RunSpec) -> None:
    """The files of /etc that are shown in it."""
    agent = f"agent:x:{spec.uid}:{spec.uid}:agent:/home/agent:/bin/sh"
    passwd = "".join(
        f"{agent}\n" if line.startswith("agent:") else line for line in ETC["passwd"].splitlines(keepends=True)
    )
    group = ETC["group"].replace("agent:x:1000:", f"agent:x:{spec.uid}:")
    write_etc(folder, hostname_of(spec.key), {"passwd": passwd, "group": group, "resolv.conf": ETC["resolv.conf"]})


def has(info: dict, option: str) -> bool:
    """Does the engine name this security option?"""
    return any(entry.startswith(f"name={option}") for entry in info.get("SecurityOptions") or ())


def limits_in_force(info: dict, spec: RunSpec) -> frozenset[str]:
    asked = {name for name in SUPPORTED if getattr(spec.limits, name) is not None}
    return frozenset(name for name in asked if info.get(SUPPORTED[name]))


def _mounts(spec: RunSpec, place: Path, shown: Path) -> Iterator[dict]:
    yield _bind(spec.workspace, "/workspace")
    yield _bind(spec.home, "/home/agent")
    yield _bind(place, AT, read_only=True)
    yield _bind(shown, f"{AT}/run", read_only=True)
    # A set-up that installs packages makes users, so it keeps the image's own lists of them.
    names = ("hosts", "resolv.conf") if spec.phase == "setup" else ("hosts", "resolv.conf", "passwd", "group")
    for name in names:
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
