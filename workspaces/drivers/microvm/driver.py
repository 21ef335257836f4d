"""Workspaces in microVMs: a kernel of their own under QEMU, and a pause that saves the memory of programs.

Files beside those of local.py:

IMAGES/templates/             memory images of booted, unconfigured guests, from which new Runs start
RUNTIME/RUN_ID.qmp, .tree     sockets of QEMU's monitor, and of the stream on which the guest serves its tree
RUNTIME/RUN_ID.ports/         sockets for the guest programs' connections to 127.0.0.1:3128 and :80
FOLDER/.handrail-microvm/     the disk of a folder in a RunSpec, and the memory of a paused guest
HOME/runs/RUN_ID/upper        setup only: the disk for what setup installs outside /workspace
HOME/images/layers/           layers: what setup has installed, for later Runs
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import marshal
import os
import shutil
import socket
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from dashboard.files.atomic_write import replace_file
from workspaces.drivers.default_limits import GUEST_DISK
from workspaces.store.errors import StoreError

from .. import setup_root
from ..base import Address, DriverError, Probe, RunRecord, RunSpec
from ..capabilities import TABLE
from ..init_client import InitClient, InitGone, InitRefused
from ..local import listen
from ..program_archive import archive, init_modules, write_program
from ..remote.tree import GuestTree, forget
from ..sandbox.driver import AGENT_ENV, HOSTS, UID, find_python, hostname_of
from . import disks, machine, memory
from .image import HERE, REMOTE, Image, current_version, find_image
from .layers import make_upper
from .rootfs import Roots
from .suspend import FILLING, Source, Unfilled, at_work

HOME_DISK = 4 * disks.GIB
GIVE_BACK_S = 300.0
SHOW_S = 20.0
PORTS = {"3128": "proxy", "80": "internal"}
WHAT_TO_DO = (
    "Install QEMU and e2fsprogs (Debian: `apt install qemu-system-x86 e2fsprogs`), then build the image with "
    "`make images` (which needs mmdebstrap and busybox-static)."
)

logger = logging.getLogger("handrail.runner")


class MicroVMDriver(Roots):
    name = "microvm"
    unit = "virtual machine"
    capabilities = TABLE[name]
    start_s: ClassVar[float] = 180.0
    hello_s: ClassVar[float] = 20.0

    # Verbs

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._probe)

    async def prepare(self, spec: RunSpec) -> None:
        await asyncio.to_thread(self._prepare, spec)

    async def resume(self, spec: RunSpec) -> RunRecord:
        return await asyncio.to_thread(self._start, spec, True)

    async def end_programs(self, record: RunRecord, *, grace_s: float = 5.0) -> None:
        await self._ask(record, "quiet", timeout_s=grace_s + 15.0, grace_s=grace_s)

    # Before a start

    def mark_of_host(self) -> str:
        return f"{current_version(self.images)} {self._abilities().exists()}"

    def _abilities(self) -> Path:
        """Return the file that keeps what programs of the current image can be held to an envelope by."""
        return self.images / "current" / "abilities.json"

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
        try:
            abilities = json.loads(self._abilities().read_text())
        except (OSError, ValueError):
            abilities = {}  # known once a guest has been up
        return Probe(True, notes=tuple(notes), limits=limits, isolation=isolation, envelope=abilities)

    def _prepare(self, spec: RunSpec) -> None:
        self._check(spec)
        for folder, size in ((spec.workspace, spec.limits.disk or GUEST_DISK), (spec.home, HOME_DISK)):
            disks.prepare(folder, size, inside=inside(), outside=spec.uid)

    def lacks_files(self, spec: RunSpec) -> bool:
        return super().lacks_files(spec) or not disks.has_files(spec.workspace)

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        if spec.home is None or not spec.home.is_dir():
            raise DriverError("A microVM needs a folder for the agent's home.")

    # Starting

    def _address(self, spec: RunSpec) -> Address:
        env = AGENT_ENV | {"SHELL": "/bin/bash"} | setup_root.variables(spec)
        oom_file = self._folder(spec.run_id) / "oom"
        oom_file.write_text("oom_kill 0\n")
        kept = str(disks.memory_of(spec.workspace))
        where = {"cwd": "/workspace", "shell": "/bin/bash", "memory_file": kept}
        return Address(socket="", oom_file=str(oom_file), env=env, **where)

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset) -> frozenset:
        asked = {name for name in ("memory", "pids", "disk") if getattr(spec.limits, name) is not None}
        whole = spec.limits.cpus is not None and float(spec.limits.cpus).is_integer()
        return frozenset(asked | ({"cpus"} if whole or ("cpus" in by_cgroups and spec.limits.cpus) else set()))

    def _start(self, spec: RunSpec, resume: bool = False, template: bool = False) -> RunRecord:
        self._layer_disk(spec.image)  # raises ImageMissing before anything is made
        if resume and (why := self._why_no_memory(spec)):
            raise memory.Unfit(why)
        source = Source(self._key, disks.memory_of(spec.workspace)) if resume else None
        if not resume and not template:
            source = self._find_template(spec)
        if (known := self._read(spec.run_id)) is not None:
            self._alive(known)  # settles a guest whose runner died during a pause or resume
        at_work.add(spec.run_id)
        try:
            record = super()._start(spec, source=source, template=template)
        except Unfilled:
            # QEMU rejected the template: delete it and boot the guest instead.
            shutil.rmtree(source.path.parent, ignore_errors=True)
            record = super()._start(spec, source=None, template=False)
        finally:
            at_work.discard(spec.run_id)
        if resume and spec.manifest is not None:
            self.show_manifest(spec.run_id, spec.manifest)  # the memory has that of before the pause
        if not template:
            self._learn_abilities(record)
        return record

    def _learn_abilities(self, record: RunRecord) -> None:
        """Ask the first guest of an image what its kernel can hold programs by, for `probe`."""
        if self._abilities().exists():
            return
        with contextlib.suppress(InitGone, InitRefused, OSError), InitClient(record.address.socket) as init:
            replace_file(self._abilities(), json.dumps(init.request("abilities")["abilities"]).encode(), durable=False)

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
            config = {
                "qemu": machine.command_line(
                    qemu, shape, fds, incoming=source is not None, disks=["workspace", "home"]
                ),
                "keep": [fd for name, fd in fds.items() if name not in ("first", "bridge", "config")],
                "ports": fds["ports"],
                "oom": fds["oom"],
                "guest": None if template else _configure_message(spec, fds),
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
        """Return {name: descriptor} of what QEMU and the bridge need: the workspace's user cannot reach the paths."""
        fds = {}

        def take(name: str, fd: int) -> None:
            fds[name] = fd
            undo.callback(os.close, fd)

        write_bridge(folder / "bridge")
        write_program(folder / "first", (HERE / "bootstrap.py").read_bytes())
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

    def _extra_grace_s(self, record: RunRecord) -> float:
        # An emulated guest shuts down slowly; a setup guest also chowns every file to the agent's user first.
        return GIVE_BACK_S if record.phase == "setup" else 15.0

    def _explain(self, log: str) -> str:
        said = [line for line in log.splitlines() if line.startswith(("the guest says:", "handrail:", "qemu"))]
        return super()._explain("\n".join(said[-1:]) or log)

    # Files

    def tree(self, record: RunRecord, *, cache: Path | None = None) -> GuestTree:
        port = self._socket(record.run_id, "tree")
        return GuestTree(port, record.address.socket, name=record.workspace_id, cache=cache)

    def tree_at_rest(self, folder: Path, *, cache: Path | None = None, home: Path | None = None) -> None:
        return None

    def file_owner(self, uid: int | None) -> None:
        return None  # files of a guest belong to users of its own

    def tcp_tables(self, record: RunRecord) -> list[str]:
        try:
            with self.tree(record).files() as files:
                return files.sockets()
        except (DriverError, StoreError, OSError):
            return []  # the guest is shutting down or gone

    def show_manifest(self, run_id: str, content: bytes) -> None:
        record = self._read(run_id)
        if record is None:
            return
        try:
            with InitClient(record.address.socket, timeout_s=SHOW_S) as init:
                init.request("show_manifest", content=content.decode())
        except InitRefused as refused:
            logger.warning(
                "The guest of run %s is of an older version and shows no newer manifest: %s", run_id, refused
            )
        except InitGone as gone:
            logger.warning("The guest of run %s does not show the newer manifest: %s", run_id, gone)

    # The network

    async def listeners(self, record: RunRecord) -> list[socket.socket]:
        return await asyncio.to_thread(self._listeners, record)

    async def dial(self, record: RunRecord, port: int) -> socket.socket:
        return await asyncio.to_thread(self._dial, record, port)

    def _dial(self, record: RunRecord, port: int) -> socket.socket:
        try:
            with InitClient(record.address.socket) as init:
                return init.dial(port)
        except DriverError as error:  # nothing listens there, or the guest is ending
            raise ConnectionRefusedError(str(error)) from error

    def _listeners(self, record: RunRecord) -> list[socket.socket]:
        """Make the sockets that the bridge connects to for each connection of a guest program; no other user may."""
        made = []
        try:
            for name in PORTS.values():
                path = self._ports(record.run_id) / name
                made.append(listen(path))
                if os.getuid() == 0:
                    os.chown(path, record.uid, record.uid)
        except OSError as error:
            for listener in made:
                listener.close()
            raise DriverError(f"The guest's network could not be set up: {error.strerror}.") from error
        return made

    # The end

    def _forget(self, record: RunRecord) -> None:
        forget(self._socket(record.run_id, "tree"))
        for name in ("qmp", "tree"):
            self._socket(record.run_id, name).unlink(missing_ok=True)
        shutil.rmtree(self._ports(record.run_id), ignore_errors=True)
        super()._forget(record)

    def _ports(self, run_id: str) -> Path:
        return self.runtime / f"{run_id}.ports"


def inside() -> int:
    """Return the agent's user id in the guest, which owns the files on its disks."""
    return UID if os.getuid() == 0 else os.getuid()


def machine_id(spec: RunSpec) -> str:
    """Return the machine-id: stable for a workspace, and different in its forks."""
    disk = disks.identity(spec.workspace)["id"]
    return hashlib.sha256(f"machine-id {spec.workspace_id} {disk}".encode()).hexdigest()[:32]


def write_bridge(path: Path) -> None:
    write_program(path, _bridge())


@lru_cache(maxsize=1)
def _bridge() -> bytes:
    modules = {
        "bridge.py": HERE / "bridge.py",
        "base_bridge.py": REMOTE / "base_bridge.py",
        "mux.py": REMOTE / "mux.py",
    }
    return archive(modules | init_modules())


def _configure_message(spec: RunSpec, fds: dict[str, int]) -> dict:
    """Return the first message to the agent in the guest."""
    return {
        "op": "configure",
        "hostname": hostname_of(spec.key),
        "machine_id": machine_id(spec),
        "uid": inside(),
        "pids": spec.limits.pids,
        "hosts": HOSTS.format(name=hostname_of(spec.key)),
        "disks": {"workspace": "/workspace", "home": "/home/agent"},
        "ports": PORTS,
        "layer": "layer" in fds,
        "setup": "upper" in fds,
        "system_files": {path: content.decode() for path, content in spec.system_files.items()},
        "manifest": None if spec.manifest is None else spec.manifest.decode(),
    }


DRIVER = MicroVMDriver
