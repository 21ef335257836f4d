"""Workspaces in microVMs: a kernel of their own under QEMU, and a pause that keeps what runs.

Beside what local.py keeps for a Run:

IMAGES/templates/             guests that have booted and belong to nobody, from which new Runs start
RUNTIME/RUN_ID.qmp, .tree     QEMU's monitor, and the stream on which the guest serves its tree
RUNTIME/RUN_ID.ports/         sockets where what the guest's programs reach at 127.0.0.1:3128 and :80 comes out
FOLDER/.handrail-microvm/     the disk of a folder that a RunSpec names, and the memory of a paused guest
HOME/runs/RUN_ID/upper        in a set-up: the disk that takes what it installs outside /workspace
HOME/images/layers/           what set-ups have installed, for the Runs that follow
"""

import asyncio
import contextlib
import hashlib
import io
import marshal
import os
import py_compile
import re
import shutil
import socket
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from ..base import Address, Capabilities, DriverError, Owner, Probe, RunSpec
from ..local import HERE as DRIVERS
from ..local import listen
from ..sandbox import AGENT_ENV, UID, find_python
from . import disks, machine, memory
from .guesttree import GuestTree, forget
from .image import HERE, Image, find_image
from .layers import make_upper
from .pausing import FILLING, Source, Unfilled, at_work
from .roots import Roots

DISK = 8 * disks.GIB
HOME_DISK = 4 * disks.GIB
GIVE_BACK_S = 300.0
PORTS = {"3128": "proxy", "80": "internal"}
HOSTS = "127.0.0.1 localhost {name}\n::1 localhost\n127.0.0.1 handrail.internal\n"
WHAT_TO_DO = (
    "Install QEMU and e2fsprogs (Debian: `apt install qemu-system-x86 e2fsprogs`), then build the image with "
    "`make images` (which needs mmdebstrap and busybox-static)."
)


class MicroVMDriver(Roots):
    name = "microvm"
    capabilities = Capabilities(
        isolation="microvm", freeze=True, memory=True, network=True, limits=True, guest_files=True, images=True
    )
    start_s: ClassVar[float] = 180.0
    hello_s: ClassVar[float] = 20.0

    # Verbs

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._probe)

    async def prepare(self, spec: RunSpec) -> None:
        await asyncio.to_thread(self._prepare, spec)

    async def resume(self, spec: RunSpec) -> Owner:
        return await asyncio.to_thread(self._start, spec, True)

    async def quiet(self, owner: Owner, *, grace_s: float = 5.0) -> None:
        await self._ask(owner, "quiet", timeout_s=grace_s + 15.0, grace_s=grace_s)

    # Before a start

    def _probe(self) -> Probe:
        try:
            qemu = machine.find_qemu()
            image = find_image(self.images)
            find_python()
            if shutil.which("mke2fs", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") is None:
                raise DriverError("mke2fs was not found.")
            accel, why = machine.find_accel(qemu, image, self.images)
        except (DriverError, OSError) as error:
            return Probe(False, str(error), WHAT_TO_DO, isolation="microvm-emulated")
        notes = [f"QEMU {qemu.version}, kernel {image.kernel}, image {image.version}"]
        if accel == "tcg":
            notes.append(f"Guests are emulated, slower and without the isolation of a real machine: {why}.")
        limits = frozenset({"memory", "pids", "disk", "cpus"})
        isolation = "microvm" if accel == "kvm" else "microvm-emulated"
        return Probe(True, notes=tuple(notes), limits=limits, isolation=isolation)

    def _prepare(self, spec: RunSpec) -> None:
        self._check(spec)
        for folder, size in ((spec.workspace, spec.limits.disk or DISK), (spec.home, HOME_DISK)):
            disks.prepare(folder, size, inside=inside(), outside=spec.uid)

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        if spec.home is None or not spec.home.is_dir():
            raise DriverError("A microVM needs a folder for the agent's home.")

    # Starting

    def _address(self, spec: RunSpec) -> Address:
        who = {"USER": "root", "LOGNAME": "root"} if spec.phase == "setup" else {}
        env = AGENT_ENV | {"SHELL": "/bin/bash"} | who | dict(spec.env)
        oom_file = self._folder(spec.run_id) / "oom"
        oom_file.write_text("oom_kill 0\n")
        kept = str(disks.memory_of(spec.workspace))
        where = {"cwd": "/workspace", "shell": "/bin/bash", "memory_file": kept}
        return Address(socket="", oom_file=str(oom_file), env=env, **where)

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset) -> frozenset:
        asked = {name for name in ("memory", "pids", "disk") if getattr(spec.limits, name) is not None}
        whole = spec.limits.cpus is not None and float(spec.limits.cpus).is_integer()
        return frozenset(asked | ({"cpus"} if whole or ("cpus" in by_cgroups and spec.limits.cpus) else set()))

    def _start(self, spec: RunSpec, resume: bool = False, template: bool = False) -> Owner:
        self._layer_disk(spec.image)  # before anything is made for it
        if resume and (why := self._why_no_memory(spec)):
            raise memory.Unfit(why)
        source = Source(self._key, disks.memory_of(spec.workspace)) if resume else None
        if not resume and not template:
            source = self._find_template(spec)
        if (known := self._read(spec.run_id)) is not None:
            self._alive(known)  # a guest that waits for a runner which is gone would be waited for in vain
        at_work.add(spec.run_id)
        try:
            return super()._start(spec, source=source, template=template)
        except Unfilled:
            # A template that QEMU does not take is worth nothing; the guest boots instead.
            shutil.rmtree(source.path.parent, ignore_errors=True)
            return super()._start(spec, source=None, template=False)
        finally:
            at_work.discard(spec.run_id)

    def _command(
        self, spec: RunSpec, folder: Path, init_args: list[str], source: Source | None = None, template: bool = False
    ) -> dict:
        if not disks.disk_of(spec.workspace).exists() or not disks.disk_of(spec.home).exists():
            raise DriverError("The workspace has no disk yet; it must be prepared first.")
        qemu, image = machine.find_qemu(), find_image(self.images)
        shape = self._shape(spec, qemu, image)
        if source is None or source.is_template:
            self._disks_will_change(spec)
        if source is not None:
            (folder / FILLING).write_text("template" if source.is_template else "memory")
        with contextlib.ExitStack() as undo:
            fds = self._open(spec, folder, image, undo)
            guest = {
                "op": "configure",
                "hostname": hostname(spec.key),
                "machine_id": machine_id(spec),
                "uid": inside(),
                "pids": spec.limits.pids,
                "hosts": HOSTS.format(name=hostname(spec.key)),
                "disks": {"workspace": "/workspace", "home": "/home/agent"},
                "ports": PORTS,
                "layer": "layer" in fds,
                "setup": "upper" in fds,
            }
            config = {
                "qemu": machine.command_line(
                    qemu, shape, fds, incoming=source is not None, disks=["workspace", "home"]
                ),
                "keep": [fd for name, fd in fds.items() if name not in ("first", "bridge", "config")],
                "ports": fds["ports"],
                "oom": fds["oom"],
                "guest": None if template else guest,
            }
            (folder / "config").write_bytes(marshal.dumps(config, 2))
            undo.pop_all()
        program, prefix = find_python()
        stage = {"python": str(prefix)} if prefix is not None and os.getuid() == 0 else {}
        if stage:
            program = program.replace(str(prefix), "/tmp/python", 1)
        first = [program, "-I", "-S", f"/proc/self/fd/{fds['first']}", str(fds["bridge"])]
        return {
            "argv": [*first, *init_args, str(fds["config"])],
            "env": {},
            "cwd": "/",
            "stage": stage,
            "keep": list(fds.values()),
            "groups": machine.kvm_groups() if shape.accel == "kvm" and os.getuid() == 0 else [],
        }

    def _open(self, spec: RunSpec, folder: Path, image: Image, undo: contextlib.ExitStack) -> dict[str, int]:
        """What QEMU and the bridge get as descriptors: the workspace's user could reach none of it by a path."""
        fds = {}

        def take(name: str, fd: int) -> None:
            fds[name] = fd
            undo.callback(os.close, fd)

        write_bridge(folder / "bridge")
        readable(folder / "first", (HERE / "first.py").read_bytes())
        ports = self._ports(spec.run_id)
        ports.mkdir(mode=0o711, exist_ok=True)
        ports.chmod(0o711)
        (folder / "config").touch(mode=0o600)
        layer, upper = self._layer_disk(spec.image), folder / "upper"
        if spec.phase == "setup":
            make_upper(upper, spec.uid)
        for name, path, flags in (
            *([("layer", layer, os.O_RDONLY)] if layer is not None else ()),
            *([("upper", upper, os.O_RDWR)] if spec.phase == "setup" else ()),
            ("first", folder / "first", os.O_RDONLY),
            ("bridge", folder / "bridge", os.O_RDONLY),
            ("config", folder / "config", os.O_RDONLY),
            ("ports", ports, os.O_PATH | os.O_DIRECTORY),
            ("oom", folder / "oom", os.O_WRONLY),
            ("kernel", image.vmlinuz, os.O_RDONLY),
            ("initrd", image.initrd, os.O_RDONLY),
            ("root", image.root, os.O_RDONLY),
            ("workspace", disks.disk_of(spec.workspace), os.O_RDWR),
            ("home", disks.disk_of(spec.home), os.O_RDWR),
        ):
            take(name, os.open(path, flags | os.O_CLOEXEC))
        for name in ("qmp", "tree"):
            take(name, listen(self._socket(spec.run_id, name)).detach())
        return fds

    def _patience(self, owner: Owner) -> float:
        # An emulated guest shuts down slowly; that of a set-up gives every file to the agent's user before it does.
        return GIVE_BACK_S if owner.phase == "setup" else 15.0

    def _explain(self, log: str) -> str:
        said = [line for line in log.splitlines() if line.startswith(("the guest says:", "handrail:", "qemu"))]
        return super()._explain("\n".join(said[-1:]) or log)

    # Files

    def tree(self, owner: Owner, *, cache: Path | None = None) -> GuestTree:
        port = self._socket(owner.run_id, "tree")
        return GuestTree(port, owner.address.socket, name=owner.workspace_id, cache=cache)

    # The network

    async def listeners(self, owner: Owner) -> list[socket.socket]:
        return await asyncio.to_thread(self._listeners, owner)

    def _listeners(self, owner: Owner) -> list[socket.socket]:
        """The bridge connects to these, for each connection that a program of the guest makes; nobody else may."""
        made = []
        try:
            for name in PORTS.values():
                path = self._ports(owner.run_id) / name
                made.append(listen(path))
                if os.getuid() == 0:
                    os.chown(path, owner.uid, owner.uid)
        except OSError as error:
            for listener in made:
                listener.close()
            raise DriverError(f"The guest's way out could not be made: {error.strerror}.") from error
        return made

    # The end

    def _forget(self, owner: Owner) -> None:
        forget(self._socket(owner.run_id, "tree"))
        for name in ("qmp", "tree"):
            self._socket(owner.run_id, name).unlink(missing_ok=True)
        shutil.rmtree(self._ports(owner.run_id), ignore_errors=True)
        super()._forget(owner)

    def _ports(self, run_id: str) -> Path:
        return self.runtime / f"{run_id}.ports"


def inside() -> int:
    """The agent's user id in the guest: files on the disk have it."""
    return UID if os.getuid() == 0 else os.getuid()


def hostname(key: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", key).strip("-")[:63] or "workspace"


def machine_id(spec: RunSpec) -> str:
    """Stable for a workspace, and never that of the one it was forked from."""
    disk = disks.identity(spec.workspace)["id"]
    return hashlib.sha256(f"machine-id {spec.workspace_id} {disk}".encode()).hexdigest()[:32]


def write_bridge(path: Path) -> None:
    """The bridge as one file that any user may read."""
    readable(path, _bridge())


@lru_cache(maxsize=1)
def _bridge() -> bytes:
    """An archive of its modules, compiled for a Python like ours and as they are for any other."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive, tempfile.TemporaryDirectory() as place:
        for source in (HERE / "bridge.py", HERE / "streams.py", DRIVERS / "init.py"):
            compiled = os.path.join(place, source.stem)
            mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
            py_compile.compile(str(source), compiled, source.name, doraise=True, invalidation_mode=mode)
            archive.write(compiled, f"{source.stem}.pyc")
            archive.write(source, source.name)
    return made.getvalue()


def readable(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o444)
