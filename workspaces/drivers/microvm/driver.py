"""Workspaces in microVMs: a kernel of their own under QEMU, and a pause that keeps what runs.

Beside what local.py keeps for a Run:

IMAGES/templates/             guests that have booted and belong to nobody, from which new Runs start
RUNTIME/RUN_ID.qmp, .tree     QEMU's monitor, and the stream on which the guest serves its tree
RUNTIME/RUN_ID.ports/         sockets where what the guest's programs reach at 127.0.0.1:3128 and :80 comes out
FOLDER/.handrail-microvm/     the disk of a folder that a RunSpec names, and the memory of a paused guest
"""

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import socket
import tempfile
import zipfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

from ..base import Address, Capabilities, DriverError, Limits, Owner, Probe, RunSpec
from ..initclient import InitClient, InitGone, InitRefused
from ..local import HERE as DRIVERS
from ..local import LocalDriver, _wait_free, listen
from ..sandbox import AGENT_ENV, UID, find_python
from . import disks, machine, memory
from .guesttree import GuestTree, forget
from .image import HERE, Image, find_image

MEMORY = 512 << 20
DISK = 8 * disks.GIB
HOME_DISK = 4 * disks.GIB
PAUSING, FILLING = "pausing", "filling"  # marks in a Run's folder
PORTS = {"3128": "proxy", "80": "internal"}
HOSTS = "127.0.0.1 localhost {name}\n::1 localhost\n127.0.0.1 handrail.internal\n"
WHAT_TO_DO = (
    "Install QEMU and e2fsprogs (Debian: `apt install qemu-system-x86 e2fsprogs`), then build the image with "
    "`make images` (which needs mmdebstrap and busybox-static)."
)


_at_work: set[str] = set()  # Runs that this process pauses or fills now


@dataclass(frozen=True)
class Source:
    """Memory in a file, and the file of its key."""

    key: Path
    path: Path
    is_template: bool = False


class Unfilled(DriverError):
    """A template could not be used."""


class MicroVMDriver(LocalDriver):
    name = "microvm"
    capabilities = Capabilities(
        isolation="microvm", freeze=True, memory=True, network=True, limits=True, guest_files=True
    )
    start_s: ClassVar[float] = 180.0

    @property
    def images(self) -> Path:
        return Path(self.options.get("images") or self.home / "images" / "microvm")

    # Verbs

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._probe)

    async def prepare(self, spec: RunSpec) -> None:
        await asyncio.to_thread(self._prepare, spec)

    async def pause(self, owner: Owner, spec: RunSpec) -> None:
        await asyncio.to_thread(self._pause, owner, spec)

    async def resume(self, spec: RunSpec) -> Owner:
        return await asyncio.to_thread(self._start, spec, True)

    async def warm(self, spec: RunSpec) -> bool:
        return await asyncio.to_thread(self._warm, spec)

    async def quiet(self, owner: Owner, *, grace_s: float = 5.0) -> None:
        await self._ask(owner, "quiet", timeout_s=grace_s + 15.0, grace_s=grace_s)

    async def why_no_memory(self, spec: RunSpec) -> str:
        return await asyncio.to_thread(self._why_no_memory, spec)

    async def discard_memory(self, spec: RunSpec) -> bool:
        return await asyncio.to_thread(memory.discard, disks.memory_of(spec.workspace))

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
        env = AGENT_ENV | {"SHELL": "/bin/bash"} | dict(spec.env)
        oom_file = self._folder(spec.run_id) / "oom"
        oom_file.write_text("oom_kill 0\n")
        return Address(socket="", oom_file=str(oom_file), env=env, cwd="/workspace", shell="/bin/bash")

    def _host_limits(self, spec: RunSpec) -> Limits:
        # The guest holds its own memory and process limits; QEMU needs room beside the guest's memory.
        return Limits(memory=(spec.limits.memory or MEMORY) + machine.OVERHEAD, cpus=spec.limits.cpus)

    def _limits_in_force(self, spec: RunSpec, by_cgroups: frozenset) -> frozenset:
        asked = {name for name in ("memory", "pids", "disk") if getattr(spec.limits, name) is not None}
        whole = spec.limits.cpus is not None and float(spec.limits.cpus).is_integer()
        return frozenset(asked | ({"cpus"} if whole or ("cpus" in by_cgroups and spec.limits.cpus) else set()))

    def _shape(self, spec: RunSpec, qemu: machine.Qemu, image: Image) -> machine.Shape:
        accel, _why = machine.find_accel(qemu, image, self.images)
        return machine.shape(qemu, image, accel, spec.limits.memory or MEMORY, spec.limits.cpus)

    def _start(self, spec: RunSpec, resume: bool = False, template: bool = False) -> Owner:
        if resume and (why := self._why_no_memory(spec)):
            raise memory.Unfit(why)
        source = Source(self._key, disks.memory_of(spec.workspace)) if resume else None
        if not resume and not template:
            source = self._find_template(spec)
        if (known := self._read(spec.run_id)) is not None:
            self._alive(known)  # a guest that waits for a runner which is gone would be waited for in vain
        _at_work.add(spec.run_id)
        try:
            return super()._start(spec, source=source, template=template)
        except Unfilled:
            # A template that QEMU does not take is worth nothing; the guest boots instead.
            shutil.rmtree(source.path.parent, ignore_errors=True)
            return super()._start(spec, source=None, template=False)
        finally:
            _at_work.discard(spec.run_id)

    def _command(
        self, spec: RunSpec, folder: Path, init_args: list[str], source: "Source | None" = None, template: bool = False
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
            }
            config = {
                "qemu": machine.command_line(
                    qemu, shape, fds, incoming=source is not None, disks=["workspace", "home"]
                ),
                "keep": [fd for name, fd in fds.items() if name not in ("bridge", "config")],
                "ports": fds["ports"],
                "oom": fds["oom"],
                "guest": None if template else guest,
            }
            (folder / "config").write_text(json.dumps(config))
            undo.pop_all()
        program, prefix = find_python()
        stage = {"python": str(prefix)} if prefix is not None and os.getuid() == 0 else {}
        if stage:
            program = program.replace(str(prefix), "/tmp/python", 1)
        bridge = [program, "-I", "-S", f"/proc/self/fd/{fds['bridge']}"]
        return {
            "argv": [*bridge, *init_args, str(fds["config"])],
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
        ports = self._ports(spec.run_id)
        ports.mkdir(mode=0o711, exist_ok=True)
        ports.chmod(0o711)
        (folder / "config").touch(mode=0o600)
        for name, path, flags in (
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

    def _image(self, spec: RunSpec) -> str:
        image = find_image(self.images)
        return f"{image.version}@sha256:{image.root_digest}"

    def _launched(self, owner: Owner, spec: RunSpec, source: "Source | None" = None, template: bool = False) -> None:
        """Give a guest that waits for it the memory that was kept, and let it go on."""
        if source is None:
            return

        async def fill() -> None:
            async with qmp().monitor(self._socket(spec.run_id, "qmp")) as client:
                await qmp().load(client, memory.read(source.key, source.path))
                if not source.is_template:
                    # From here on it is used up, whatever happens: two guests never go on from one memory.
                    await asyncio.to_thread(self._disks_will_change, spec)
                await client.execute("cont")

        try:
            asyncio.run(fill())
        except DriverError as error:
            raise (Unfilled(str(error)) if source.is_template else error) from error
        (self._folder(spec.run_id) / FILLING).unlink()

    def _patience(self, owner: Owner) -> float:
        return 15.0  # an emulated guest shuts down slowly

    def _disks_will_change(self, spec: RunSpec) -> None:
        memory.discard(disks.memory_of(spec.workspace))
        for folder in (spec.workspace, spec.home):
            disks.next_generation(folder)

    def _explain(self, log: str) -> str:
        said = [line for line in log.splitlines() if line.startswith(("the guest says:", "handrail:", "qemu"))]
        return super()._explain("\n".join(said[-1:]) or log)

    # Memory

    @property
    def _key(self) -> Path:
        return self.home / "keys" / "memory"

    def _belongs(self, spec: RunSpec) -> dict:
        shape = self._shape(spec, machine.find_qemu(), find_image(self.images))
        found = [disks.identity(folder) for folder in (spec.workspace, spec.home)]
        return asdict(shape) | {"disks": found, "generation": spec.generation}

    def _why_no_memory(self, spec: RunSpec) -> str:
        try:
            return memory.why_unfit(memory.belongs_to(disks.memory_of(spec.workspace)), self._belongs(spec))
        except (DriverError, OSError) as error:
            return str(error)

    def _pause(self, owner: Owner, spec: RunSpec) -> None:
        if not self._alive(owner):
            raise DriverError("The Run has ended; there is no memory to keep.")
        belongs = self._belongs(spec)
        mark = self._folder(owner.run_id) / PAUSING
        _at_work.add(owner.run_id)
        try:
            mark.touch()
            self._keep(owner, Source(self._key, disks.memory_of(spec.workspace)), belongs)
            mark.unlink()
        finally:
            _at_work.discard(owner.run_id)

    def _alive(self, owner: Owner) -> bool:
        alive = super()._alive(owner)
        if not alive or owner.run_id in _at_work:
            return alive
        try:
            return self._settle(owner)
        except DriverError:
            # QEMU does not answer when it is about to be gone, and the bridge with it.
            if _wait_free(self._folder(owner.run_id) / "lock", 5.0):
                return False
            raise

    def _settle(self, owner: Owner) -> bool:
        """Is it up, after whatever a runner was doing with its memory when it died?"""
        if (self._folder(owner.run_id) / PAUSING).exists():
            self._go_on(owner)
        mark = self._folder(owner.run_id) / FILLING
        if not mark.exists():
            return True
        if mark.read_text() == "memory" and not disks.memory_of(Path(owner.tree)).exists():
            self._tell_to_go_on(owner)  # it had all of it
            mark.unlink()
            return True
        self._kill(owner)  # no program of it has moved
        return not _wait_free(self._folder(owner.run_id) / "lock", 5.0)

    def _go_on(self, owner: Owner) -> None:
        """A runner died while it paused this guest: whatever was kept of its memory goes, and it moves again."""

        self._tell_to_go_on(owner)
        with InitClient(owner.address.socket, timeout_s=60) as client:
            client.request("go")
        (self._folder(owner.run_id) / PAUSING).unlink(missing_ok=True)

    def _tell_to_go_on(self, owner: Owner) -> None:
        async def go_on() -> None:
            async with qmp().monitor(self._socket(owner.run_id, "qmp")) as client:
                memory.discard(disks.memory_of(Path(owner.tree)))  # here: of a QEMU that is gone it is still good
                await client.execute("cont")

        asyncio.run(go_on())

    def _keep(self, owner: Owner, target: "Source", belongs: dict) -> None:
        async def keep() -> None:
            async with qmp().monitor(self._socket(owner.run_id, "qmp")) as client:
                try:
                    await qmp().save(client, lambda fd: memory.write(target.key, target.path, fd, belongs))
                    memory.commit(target.path)
                except BaseException:
                    memory.discard(target.path)
                    await client.execute("cont")
                    raise
                self._write(replace(self._read(owner.run_id) or owner, stopping=True))
                await client.execute("quit")

        with InitClient(owner.address.socket, timeout_s=60) as client:
            try:
                client.request("hold")
            except InitRefused as refused:
                raise DriverError(f"The guest does not make ready for a pause: {refused}") from refused
            try:
                asyncio.run(keep())
            except BaseException:
                with contextlib.suppress(InitGone, InitRefused):
                    client.request("go", timeout_s=10)
                raise
        if not _wait_free(self._folder(owner.run_id) / "lock", 10.0):
            self._kill(owner)
            _wait_free(self._folder(owner.run_id) / "lock", 5.0)

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

    # Templates

    def _template(self, spec: RunSpec) -> "tuple[Path, dict]":
        shape = self._shape(spec, machine.find_qemu(), find_image(self.images))
        sizes = [disks.disk_of(folder).stat().st_size for folder in (spec.workspace, spec.home)]
        belongs = asdict(shape) | {"sizes": sizes}
        digest = hashlib.sha256(json.dumps(belongs, sort_keys=True).encode()).hexdigest()
        return self.images / "templates" / digest[:24] / "memory", belongs

    def _find_template(self, spec: RunSpec) -> "Source | None":
        try:
            path, _belongs = self._template(spec)
        except OSError:
            return None  # no disks: the start says so
        return Source(path.parent / "key", path, is_template=True) if path.exists() else None

    def _warm(self, spec: RunSpec) -> bool:
        """Boot a guest like that of `spec` with empty disks, and keep it as it is before it belongs to anybody."""
        path, belongs = self._template(spec)
        if path.exists():
            return False
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two runners may share the images
            if path.exists():
                return False
            self._forget_templates(belongs)
            self._make_template(spec, path, belongs)
        return True

    def _forget_templates(self, belongs: dict) -> None:
        """Remove those that nothing can use any more, since the image, the agent or QEMU has changed."""
        for other in (self.images / "templates").glob("*/memory"):
            try:
                known = memory.belongs_to(other)
            except DriverError:
                continue  # being made
            if any(known.get(name) != belongs[name] for name in ("qemu", "kernel", "root", "initrd")):
                shutil.rmtree(other.parent, ignore_errors=True)

    def _make_template(self, spec: RunSpec, path: Path, belongs: dict) -> None:
        run_id = f"template-{path.parent.name}"
        with tempfile.TemporaryDirectory(prefix="making-", dir=path.parent) as name:
            folders = [Path(name, part) for part in ("workspace", "home")]
            for folder, size in zip(folders, belongs["sizes"], strict=True):
                disks.make_empty(folder, size, spec.uid)
            empty = RunSpec(run_id, "", "template", *folders, uid=spec.uid, limits=spec.limits)
            for owner in self._owners():
                if owner.run_id == run_id:  # of a runner that died over it
                    self._stop(owner, 0.0)
                    self._clear(owner)
            owner = self._start(empty, template=True)
            try:
                self._keep(owner, Source(path.parent / "key", path), belongs)
            finally:
                self._kill(owner)
                _wait_free(self._folder(run_id) / "lock", 5.0)
                self._clear(owner)

    # The end

    def _forget(self, owner: Owner) -> None:
        forget(self._socket(owner.run_id, "tree"))
        for name in ("qmp", "tree"):
            self._socket(owner.run_id, name).unlink(missing_ok=True)
        shutil.rmtree(self._ports(owner.run_id), ignore_errors=True)
        super()._forget(owner)

    def _socket(self, run_id: str, name: str) -> Path:
        return self.runtime / f"{run_id}.{name}"

    def _ports(self, run_id: str) -> Path:
        return self.runtime / f"{run_id}.ports"


def qmp():
    """QEMU's protocol, loaded when a guest is paused or resumed: an installation without microVMs needs none."""
    from . import qmp as module

    return module


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
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(HERE / "bridge.py", "__main__.py")
        archive.write(HERE / "streams.py", "streams.py")
        archive.write(DRIVERS / "init.py", "init.py")
    path.chmod(0o444)
