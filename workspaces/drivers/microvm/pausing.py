"""The memory of a guest, kept at a pause and given back at a resume; what a runner left that died over either."""

import asyncio
import contextlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..base import DriverError, Limits, Owner, RunSpec
from ..initclient import InitClient, InitGone, InitRefused
from ..local import LocalDriver, _wait_free
from . import disks, machine, memory
from .image import Image, find_image

MEMORY = 512 << 20
PAUSING, FILLING = "pausing", "filling"  # marks in a Run's folder

at_work: set[str] = set()  # Runs that this process pauses or fills now


@dataclass(frozen=True)
class Source:
    """Memory in a file, and the file of its key."""

    key: Path
    path: Path
    is_template: bool = False


class Unfilled(DriverError):
    """A template could not be used."""


class Pausing(LocalDriver):
    # Verbs

    async def pause(self, owner: Owner, spec: RunSpec) -> None:
        await asyncio.to_thread(self._pause, owner, spec)

    async def why_no_memory(self, spec: RunSpec) -> str:
        return await asyncio.to_thread(self._why_no_memory, spec)

    async def discard_memory(self, spec: RunSpec) -> bool:
        return await asyncio.to_thread(memory.discard, disks.memory_of(spec.workspace))

    # What a memory belongs to

    @property
    def images(self) -> Path:
        return Path(self.options.get("images") or self.home / "images" / "microvm")

    @property
    def _key(self) -> Path:
        return self.home / "keys" / "memory"

    def _socket(self, run_id: str, name: str) -> Path:
        return self.runtime / f"{run_id}.{name}"

    def _host_limits(self, spec: RunSpec) -> Limits:
        # The guest holds its own memory and process limits; QEMU needs room beside the guest's memory.
        return Limits(memory=(spec.limits.memory or MEMORY) + machine.OVERHEAD, cpus=spec.limits.cpus)

    def _shape(self, spec: RunSpec, qemu: machine.Qemu, image: Image) -> machine.Shape:
        accel, _why = machine.find_accel(qemu, image, self.images)
        return machine.shape(qemu, image, accel, spec.limits.memory or MEMORY, spec.limits.cpus)

    def _belongs(self, spec: RunSpec, owner: Owner | None = None) -> dict:
        """What its memory fits: that of a Run which is up, or what the spec asks for."""
        shape = self._shape(spec, machine.find_qemu(), find_image(self.images))
        found = [disks.identity(folder) for folder in (spec.workspace, spec.home)]
        root = {"layer": self._layer(spec)} if owner is None else self._runs_on(owner)
        return asdict(shape) | {"disks": found, "generation": spec.generation} | root

    def _why_no_memory(self, spec: RunSpec) -> str:
        try:
            return memory.why_unfit(memory.head_of(disks.memory_of(spec.workspace))["belongs"], self._belongs(spec))
        except (DriverError, OSError) as error:
            return str(error)

    def _disks_will_change(self, spec: RunSpec) -> None:
        memory.discard(disks.memory_of(spec.workspace))
        for folder in (spec.workspace, spec.home):
            disks.next_generation(folder)

    def _layer(self, spec: RunSpec) -> str:
        """The digest of the layer that it starts on; "" for the image alone. ImageMissing when neither is here."""
        raise NotImplementedError

    def _runs_on(self, owner: Owner) -> dict:
        """What of that is the Run's own: a workspace may name another root by now, for its next start."""
        raise NotImplementedError

    # Pause

    def _pause(self, owner: Owner, spec: RunSpec) -> None:
        if not self._alive(owner):
            raise DriverError("The Run has ended; there is no memory to keep.")
        belongs = self._belongs(spec, owner)
        mark = self._folder(owner.run_id) / PAUSING
        at_work.add(owner.run_id)
        try:
            mark.touch()
            self._keep(owner, Source(self._key, disks.memory_of(spec.workspace)), belongs)
            mark.unlink()
        finally:
            at_work.discard(owner.run_id)

    def _keep(self, owner: Owner, target: Source, belongs: dict) -> None:
        # The bridge itself answers to `hold` and `go`: the words of the init are not waited for.
        with InitClient(owner.address.socket, timeout_s=60, greeted=False) as client:
            try:
                asyncio.run(self._keep_it(owner, target, belongs, client))
            except BaseException:
                with contextlib.suppress(InitGone, InitRefused):
                    client.request("go", timeout_s=10)
                raise
        if not _wait_free(self._folder(owner.run_id) / "lock", 10.0):
            self._kill(owner)
            _wait_free(self._folder(owner.run_id) / "lock", 5.0)

    async def _keep_it(self, owner: Owner, target: Source, belongs: dict, client: InitClient) -> None:
        def hold() -> None:
            try:
                client.request("hold")
            except InitRefused as refused:
                raise DriverError(f"The guest does not make ready for a pause: {refused}") from refused

        def write(fd: int) -> memory.Kept:
            return memory.write(target.key, target.path, fd, belongs, run=owner.began or owner.run_id)

        held = asyncio.create_task(asyncio.to_thread(hold))
        try:
            async with qmp().monitor(self._socket(owner.run_id, "qmp")) as monitor:
                try:
                    await qmp().save(monitor, write, held)
                    memory.commit(target.path)
                except BaseException:
                    memory.discard(target.path)
                    await monitor.execute("cont")
                    raise
                self._write(replace(self._read(owner.run_id) or owner, stopping=True))
                await monitor.execute("quit")
        finally:
            await asyncio.gather(held, return_exceptions=True)  # before anybody else speaks over the same connection

    # Resume

    def _began(self, source: Source | None = None, template: bool = False) -> str:
        return "" if source is None or source.is_template else memory.head_of(source.path)["run"]

    def _launched(self, owner: Owner, spec: RunSpec, source: Source | None = None, template: bool = False) -> None:
        """Give a guest that waits for it the memory that was kept, and let it go on."""
        if source is None:
            return

        async def fill(pieces) -> None:
            async with qmp().monitor(self._socket(spec.run_id, "qmp")) as client:
                await qmp().load(client, pieces)
                if not source.is_template:
                    # From here on it is used up, whatever happens: two guests never go on from one memory.
                    await asyncio.to_thread(self._disks_will_change, spec)
                await client.execute("cont")

        try:
            with memory.read_ahead(source.key, source.path) as pieces:  # while QEMU comes up
                asyncio.run(fill(pieces))
        except DriverError as error:
            raise (Unfilled(str(error)) if source.is_template else error) from error
        (self._folder(spec.run_id) / FILLING).unlink()

    # What is found

    def _alive(self, owner: Owner) -> bool:
        alive = super()._alive(owner)
        if not alive or owner.run_id in at_work:
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


def qmp():
    """QEMU's protocol, loaded when a guest is paused or resumed: an installation without microVMs needs none."""
    from . import qmp as module

    return module
