"""Save a guest's memory at a pause and load it at a resume; recover from a runner that died during either."""

import asyncio
import contextlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from workspaces.drivers.default_limits import GUEST_MEMORY

from ..base import Checkpoint, DriverError, Limits, RunRecord, RunSpec
from ..init_client import InitClient, InitGone, InitRefused
from ..local import LocalDriver, _wait_free
from . import checkpoints, disks, machine, memory
from .image import Image, find_image

PAUSING, FILLING = "pausing", "filling"  # marker files in a Run's folder

at_work: set[str] = set()  # ids of the Runs that this process is pausing or starting


@dataclass(frozen=True)
class Source:
    """A memory image, and the file with its key."""

    key: Path
    path: Path
    is_template: bool = False


class Unfilled(DriverError):
    """A template could not be loaded."""


class Pausing(LocalDriver):
    """Pause and resume with memory, for LocalDriver Runs whose init is a guest's bridge."""

    # Verbs

    async def pause(self, record: RunRecord, spec: RunSpec) -> None:
        await asyncio.to_thread(self._pause, record, spec)

    async def why_no_memory(self, spec: RunSpec) -> str:
        return await asyncio.to_thread(self._why_no_memory, spec)

    async def discard_memory(self, spec: RunSpec) -> bool:
        return await asyncio.to_thread(memory.discard, disks.memory_of(spec.workspace))

    async def checkpoint_bytes(self, spec: RunSpec) -> int:
        return await asyncio.to_thread(checkpoints.size_of, _folders(spec))

    async def keep_checkpoint(self, spec: RunSpec, place: Path) -> Checkpoint:
        if why := await self.why_no_memory(spec):
            raise DriverError(why)
        return await asyncio.to_thread(checkpoints.copy_out, _folders(spec), place)

    async def put_checkpoint(self, spec: RunSpec, place: Path) -> None:
        await asyncio.to_thread(checkpoints.copy_in, place, _folders(spec))

    # What a memory image fits

    @property
    def images(self) -> Path:
        return Path(self.options.get("images") or self.home / "images" / "microvm")

    @property
    def _key(self) -> Path:
        return self.home / "keys" / "memory"

    def _socket(self, run_id: str, name: str) -> Path:
        return self.runtime / f"{run_id}.{name}"

    def _host_limits(self, spec: RunSpec) -> Limits:
        # The guest enforces its own memory and process limits; QEMU needs memory besides the guest's. A whole number of
        # CPUs is what the guest has, and QEMU's own work comes on top; only a fraction needs a quota.
        cpus = spec.limits.cpus if (spec.limits.cpus or 0) % 1 else None
        return Limits(memory=(spec.limits.memory or GUEST_MEMORY) + machine.OVERHEAD, cpus=cpus, pids=None)

    def _shape(self, spec: RunSpec, qemu: machine.Qemu, image: Image) -> machine.Shape:
        accel, _why = machine.find_accel(qemu, image, self.images)
        return machine.shape(qemu, image, accel, spec.limits.memory or GUEST_MEMORY, spec.limits.cpus)

    def _belongs(self, spec: RunSpec, record: RunRecord | None = None) -> dict:
        """Return what a memory image must fit: the memory of a running Run, or else a start with `spec`."""
        shape = self._shape(spec, machine.find_qemu(), find_image(self.images))
        found = [disks.identity(folder) for folder in (spec.workspace, spec.home)]
        root = {"layer": self._layer(spec)} if record is None else self._runs_on(record)
        return asdict(shape) | {"disks": found, "generation": spec.generation} | root

    def _why_no_memory(self, spec: RunSpec) -> str:
        try:
            return memory.why_unfit(memory.head_of(disks.memory_of(spec.workspace))["belongs"], self._belongs(spec))
        except (DriverError, OSError) as error:
            return str(error)

    def _disks_will_change(self, spec: RunSpec) -> None:
        """Invalidate saved memory before anything can write to the disks."""
        memory.discard(disks.memory_of(spec.workspace))
        for folder in (spec.workspace, spec.home):
            disks.next_generation(folder)

    def _layer(self, spec: RunSpec) -> str:
        """Return the digest of the layer to start on, "" for the image alone; ImageMissing if neither is here."""
        raise NotImplementedError

    def _runs_on(self, record: RunRecord) -> dict:
        """Return the fields of `_belongs` for the running root; the spec may name another one for the next start."""
        raise NotImplementedError

    # Pause

    def _pause(self, record: RunRecord, spec: RunSpec) -> None:
        if not self._alive(record):
            raise DriverError("The Run has ended; there is no memory to keep.")
        belongs = self._belongs(spec, record)
        mark = self._folder(record.run_id) / PAUSING
        at_work.add(record.run_id)
        try:
            mark.touch()
            self._keep(record, Source(self._key, disks.memory_of(spec.workspace)), belongs)
            mark.unlink()
        finally:
            at_work.discard(record.run_id)

    def _keep(self, record: RunRecord, target: Source, belongs: dict) -> None:
        """Save a guest's memory to `target` and end the guest; on an error continue it."""
        # The bridge answers `hold` and `go` itself, so do not wait for the init's hello.
        with InitClient(record.address.socket, timeout_s=60, greeted=False) as client:
            try:
                asyncio.run(self._keep_it(record, target, belongs, client))
            except BaseException:
                with contextlib.suppress(InitGone, InitRefused):
                    client.request("go", timeout_s=10)
                raise
        if not _wait_free(self._folder(record.run_id) / "lock", 10.0):
            self._kill(record)
            _wait_free(self._folder(record.run_id) / "lock", 5.0)

    async def _keep_it(self, record: RunRecord, target: Source, belongs: dict, client: InitClient) -> None:
        def hold() -> None:
            try:
                client.request("hold")
            except InitRefused as refused:
                raise DriverError(f"The guest does not make ready for a pause: {refused}") from refused

        def write(fd: int) -> memory.Kept:
            return memory.write(target.key, target.path, fd, belongs, run=record.began or record.run_id)

        held = asyncio.create_task(asyncio.to_thread(hold))
        try:
            async with qmp().monitor(self._socket(record.run_id, "qmp")) as monitor:
                try:
                    await qmp().save(monitor, write, held)
                    memory.commit(target.path)
                except BaseException:
                    memory.discard(target.path)
                    await monitor.execute("cont")
                    raise
                self._write(replace(self._read(record.run_id) or record, stopping=True))
                await monitor.execute("quit")
        finally:
            await asyncio.gather(held, return_exceptions=True)  # before the next request on the same connection

    # Resume

    def _began(self, source: Source | None = None, template: bool = False) -> str:
        return "" if source is None or source.is_template else memory.head_of(source.path)["run"]

    def _launched(self, record: RunRecord, spec: RunSpec, source: Source | None = None, template: bool = False) -> None:
        """Load the memory image into the waiting guest and continue it."""
        if source is None:
            return

        async def fill(pieces) -> None:
            async with qmp().monitor(self._socket(spec.run_id, "qmp")) as client:
                await qmp().load(client, pieces)
                if not source.is_template:
                    # Delete the memory image before the guest runs: no two guests may continue from one.
                    await asyncio.to_thread(self._disks_will_change, spec)
                await client.execute("cont")

        try:
            with memory.read_ahead(source.key, source.path) as pieces:  # reads while QEMU comes up
                asyncio.run(fill(pieces))
        except DriverError as error:
            raise (Unfilled(str(error)) if source.is_template else error) from error
        (self._folder(spec.run_id) / FILLING).unlink()

    # Recovery

    def _alive(self, record: RunRecord) -> bool:
        alive = super()._alive(record)
        if not alive or record.run_id in at_work:
            return alive
        try:
            return self._settle(record)
        except DriverError:
            # QEMU also does not answer while it and the bridge are exiting.
            if _wait_free(self._folder(record.run_id) / "lock", 5.0):
                return False
            raise

    def _settle(self, record: RunRecord) -> bool:
        """Finish or undo what a dead runner was doing with the guest's memory; return whether the guest is up."""
        if (self._folder(record.run_id) / PAUSING).exists():
            self._go_on(record)
        mark = self._folder(record.run_id) / FILLING
        if not mark.exists():
            return True
        if mark.read_text() == "memory" and not disks.memory_of(Path(record.tree)).exists():
            self._tell_to_go_on(record)  # its memory was loaded completely
            mark.unlink()
            return True
        self._kill(record)  # none of its programs has run yet
        return not _wait_free(self._folder(record.run_id) / "lock", 5.0)

    def _go_on(self, record: RunRecord) -> None:
        """Undo a pause during which the runner died: delete the saved memory and continue the guest."""
        self._tell_to_go_on(record)
        with InitClient(record.address.socket, timeout_s=60) as client:
            client.request("go")
        (self._folder(record.run_id) / PAUSING).unlink(missing_ok=True)

    def _tell_to_go_on(self, record: RunRecord) -> None:
        """Delete the saved memory and continue the stopped guest through QMP."""

        async def go_on() -> None:
            async with qmp().monitor(self._socket(record.run_id, "qmp")) as client:
                # Only once QEMU answers: the memory of a QEMU that is gone is still valid.
                memory.discard(disks.memory_of(Path(record.tree)))
                await client.execute("cont")

        asyncio.run(go_on())


def _folders(spec: RunSpec) -> dict[str, Path]:
    """Return the folders that have a disk each, by the name of the disk."""
    return {"workspace": spec.workspace, "home": spec.home}


def qmp():
    """Import the module `qmp` at the first pause or resume: an installation without microVMs never needs it."""
    from . import qmp as module

    return module
