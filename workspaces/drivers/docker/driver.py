"""Workspaces in containers of a Docker engine on this host: one container for each Run, under our own init.

The engine creates, starts, kills, removes and commits containers. Commands and terminals go directly to the init over
its socket, so that they neither wait for the engine nor end with it. Images are pulled by digest alone, from registries
that the operator named.
"""

import asyncio
import contextlib
import os
import select
import signal
import socket
import struct
import time
from collections.abc import Mapping, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from docker import APIClient
from docker.errors import APIError

from .. import cgroups
from ..base import (
    Address,
    Build,
    DriverError,
    EndReason,
    InspectFile,
    Layer,
    Probe,
    RunRecord,
    RunSpec,
)
from ..capabilities import TABLE
from ..local import START_S, lead_of, listen
from ..processes import boot_id, start_time, this_host
from ..sandbox.driver import own
from . import bundle, container, probing, runtimes
from .engine import INSTALLATION, LOST, RUN, WORKSPACE, Engine, EngineLost, runs, why_init_failed
from .images import Images
from .kept import Kept
from .runtimes import Canaries, Runtime

GIVE_BACK_S = 300.0
PAUSED_BY_DOCKER = (
    "Somebody paused its container (`docker pause`), so its programs stand still. "
    "`docker unpause {}` lets them continue."
)
KILLED = 128 + signal.SIGKILL  # the exit status of a container whose first process was killed


class DockerDriver(Kept):
    name = "docker"
    unit = "container"
    capabilities = TABLE[name]

    def __init__(self, home, runtime, options=None):
        super().__init__(home, runtime, options)
        address = self.options.get("address") or "unix:///var/run/docker.sock"
        self.engine = Engine(address, self.home / "docker")
        self.images = Images(self.engine, tuple(self.options.get("pull_from") or ()))
        self.oci_runtime = self.options.get("runtime") or None
        self.canaries = Canaries(self.engine, self.home / "docker")

    # Verbs

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._probe)

    def mark_of_host(self) -> str:
        return self.engine.silence(within=1.0)

    async def held_up(self) -> Mapping[str, str]:
        return await asyncio.to_thread(self._held_up)

    def _held_up(self) -> Mapping[str, str]:
        if silence := self.engine.silence():
            raise EngineLost(LOST.format(self.engine.address, silence))
        with self.engine.talk(timeout=10) as client:
            paused = self.engine.paused(client)
        return {run_id: PAUSED_BY_DOCKER.format(name) for run_id, name in paused.items()}

    async def prepare(self, spec: RunSpec) -> None:
        await asyncio.to_thread(self._prepare, spec)

    async def find_image(self, reference: str) -> str:
        return (await asyncio.to_thread(self.images.find, reference))["Id"]

    async def resolve_image(self, reference: str) -> str:
        return await asyncio.to_thread(self.images.resolve, reference)

    async def pull_image(self, reference: str, *, asked: bool = False) -> str:
        return await asyncio.to_thread(partial(self.images.pull, reference, asked=asked))

    async def build_image(self, build: Build, name: str) -> str:
        return await asyncio.to_thread(self.images.build, build, name)

    async def find_layer(self, name: str) -> Layer | None:
        return await asyncio.to_thread(self.images.find_layer, name)

    async def collect(self, in_use: Set[str], *, older_than_s: float, ages: Mapping[str, float] = {}) -> list[str]:
        return await asyncio.to_thread(self.images.collect, in_use, older_than_s, ages)

    async def keep_layer(self, record: RunRecord, layer: Layer, *, inspect: InspectFile | None = None) -> Layer:
        return await asyncio.to_thread(self._keep_layer, record, layer, inspect)

    def _keep_layer(self, record: RunRecord, layer: Layer, inspect: InspectFile | None) -> Layer:
        if self._alive(record):
            raise DriverError("The setup still runs; stop it first.")
        return self.images.keep_layer(record.run_id, layer, inspect)

    # Start

    def _prepare(self, spec: RunSpec) -> None:
        self._check(spec)
        for folder in (spec.workspace, spec.home):
            own(folder, spec.uid)

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        if spec.home is None or not spec.home.is_dir():
            raise DriverError("A container needs a folder for the agent's home.")

    def _launch(self, spec: RunSpec, folder: Path, lock: int) -> RunRecord:
        """Write the record, bring the container up and return the completed record; forget both on an error."""
        image = self.images.find(spec.image)
        if self._runtime_of(spec).kind:
            return self._launch_kept(spec, folder, lock)
        record = RunRecord(
            driver=self.name,
            run_id=spec.run_id,
            workspace_id=spec.workspace_id,
            host=this_host(),
            boot_id=boot_id(),
            uid=spec.uid,
            address=Address(
                str(self.runtime / spec.run_id), env=container.environment(spec, image), lead=lead_of(spec)
            ),
            tree=str(spec.workspace),
            phase=spec.phase,
            image=image["Id"],
            home=str(self.home),
        )
        self._write(record)
        try:
            return self._bring_up(spec, record, image, folder, lock)
        except EngineLost:
            raise  # the container's state is unknown; keep the record, so that a later call can find out
        except DriverError:
            self._forget(record)
            raise

    def _runtime_of(self, spec: RunSpec) -> Runtime:
        """Return the runtime of a Run; raise DriverError if the engine lacks it, or it cannot do what the Run needs."""
        with self.engine.talk() as client:
            info = client.info()
        found = runtimes.choose(info, self.oci_runtime, spec.runtime_class)
        if found.kind and spec.phase == "setup" and not self.canaries.facts(found, info).get("layers", True):
            raise DriverError(runtimes.NO_LAYERS.format(found.name))
        return found

    def _launch_kept(self, spec: RunSpec, folder: Path, lock: int) -> RunRecord:
        try:
            return super()._launch(spec, folder, lock)
        except EngineLost:
            raise  # the container's state is unknown; keep the record, so that a later call can find out
        except DriverError:
            if (record := self._read(spec.run_id)) is not None:
                self._kill(record)
                self._forget(record)
            raise

    def _create(self, client: APIClient, spec: RunSpec, image: dict, shown: Path, once: Path) -> str:
        return client.create_container(**self._description(client, spec, image, shown, client.info(), once))["Id"]

    def _start_created(self, client: APIClient, made: str, spec: RunSpec) -> None:
        try:
            client.start(made)
        except APIError as error:
            raise DriverError(self._explain_start(error, spec)) from error

    def _bring_up(self, spec: RunSpec, record: RunRecord, image: dict, folder: Path, lock: int) -> RunRecord:
        """Create and start the container, hand the socket and the lock to its init, and wait for the hello."""
        shown = folder / "etc"
        container.write_files(shown, spec)
        # A container's init cannot inherit descriptors. It receives them over this socket ("door"), which is removed
        # before any program of the workspace can run.
        door = shown / "door"
        with listen(Path(record.address.socket)) as listener, listen(door) as waiting, self.engine.talk() as client:
            if os.getuid() == 0:
                os.chown(door, 0 if spec.phase == "setup" else spec.uid, -1)
            self.engine.remove(client, spec.run_id)  # left by an interrupted start
            limits = client.info()
            made = client.create_container(**self._description(client, spec, image, shown, limits))["Id"]
            try:
                client.start(made)
                caller = self._answer_door(client, made, waiting)
                door.unlink()
                with caller:
                    record = replace(record, **_peer(caller), limits=container.limits_in_force(limits, spec))
                    record = replace(record, address=replace(record.address, oom_file=_oom_file(record.pid)))
                    self._write(record)
                    socket.send_fds(caller, [b"."], [listener.fileno(), lock])
                listener.close()
                hello = self._hello(record, lambda: runs(client.inspect_container(made)))
                if hello is None:
                    raise DriverError(why_init_failed(client, made))
            except APIError as error:
                raise DriverError(self._explain_start(error, spec)) from error
            finally:
                door.unlink(missing_ok=True)
        env = {**record.address.env, "SHELL": hello["shell"]}
        record = replace(record, address=replace(record.address, shell=hello["shell"], env=env))
        self._write(record)
        return record

    def _answer_door(self, client: APIClient, container: str, door: socket.socket) -> socket.socket:
        """Wait for the init's connection to the door; raise DriverError if the container ends before."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if select.select([door], [], [], 0.25)[0]:
                return door.accept()[0]
            if not runs(client.inspect_container(container)):
                break
        raise DriverError(why_init_failed(client, container))

    def _description(
        self, client: APIClient, spec: RunSpec, image: dict, shown: Path, info: dict, once: Path | None = None
    ) -> dict:
        """Return the arguments of create_container(); with `once` of a container that has a keeper."""
        place = bundle.find_or_make(self.home / "docker")
        host = container.host_settings(spec, place, shown, info)
        if once is not None:
            host = container.in_gvisor(spec, host, once)
        return container.settings(spec, image, keeper=once is not None) | {
            "name": self.engine.name_of(spec.run_id),
            "labels": {INSTALLATION: self.engine.installation, RUN: spec.run_id, WORKSPACE: spec.workspace_id},
            "host_config": client.create_host_config(**host, runtime=spec.runtime_class or self.oci_runtime),
            "use_config_proxy": False,
        }

    def _explain_start(self, error: APIError, spec: RunSpec) -> str:
        """Return a sentence for an error of the engine, with a hint at its likely cause."""
        said = str(error.explanation or error)
        if "bind source path does not exist" in said:
            said += ". The engine must run on this host and see the same folders as Handrail"
        elif spec.runtime_class and "runtime" in said:
            said += f". The environment names the runtime {spec.runtime_class}"
        elif self.oci_runtime and "runtime" in said:
            said += f". The runtime comes from HANDRAIL_DOCKER_RUNTIME ({self.oci_runtime})"
        return f"The container could not be started: {said}."

    # Life and end

    def _alive(self, record: RunRecord) -> bool:
        if self._is_kept(record):
            return self._lives_kept(record)
        if super()._alive(record):
            return True
        if record.boot_id != boot_id():
            return False
        # No init holds the lock. Only the engine knows whether one is about to start.
        with self.engine.talk() as client:
            found = self.engine.find(client, record.run_id)
        known = self._read(record.run_id) or record
        return known.pid is None and found is not None and runs(found)

    def _why(self, record: RunRecord) -> EndReason:
        with self.engine.talk() as client:
            self.engine.wait_for_end(client, record.run_id)
            found = self.engine.find(client, record.run_id)
        if found is None:
            return EndReason.REMOVED
        state = found["State"]
        if state.get("OOMKilled") or cgroups.oom_kills(record.address.oom_file):
            return EndReason.OUT_OF_MEMORY
        if state.get("Error"):
            raise DriverError(f"its container ended: {state['Error']}")
        return EndReason.CRASHED

    async def how_it_crashed(self, record: RunRecord) -> str:
        return await asyncio.to_thread(self._how_it_crashed, record)

    def _how_it_crashed(self, record: RunRecord) -> str:
        with self.engine.talk() as client:
            found = self.engine.find(client, record.run_id)
        was_killed = found is not None and found["State"].get("ExitCode") == KILLED
        return "The workspace's container was killed." if was_killed else ""

    def _extra_grace_s(self, record: RunRecord) -> float:
        # The init of a setup Run chowns every file to the workspace's user before it exits.
        return GIVE_BACK_S if record.phase == "setup" else super()._extra_grace_s(record)

    def _stop(self, record: RunRecord, grace_s: float) -> None:
        super()._stop(record, grace_s)
        with contextlib.suppress(EngineLost), self.engine.talk() as client:
            self.engine.wait_for_end(client, record.run_id)

    def _kill(self, record: RunRecord) -> None:
        if self._is_kept(record) and record.pid is not None:
            super()._kill(record)  # the bridge
        try:
            with self.engine.talk() as client:
                found = self.engine.find(client, record.run_id)
                if found is None or not runs(found):
                    return
                self.engine.kill(client, found)
        except EngineLost:
            if self._is_kept(record):
                if not self._kill_without_engine(record):
                    raise
                return
            # Kill the init directly. It is pid 1 of a pid namespace, so the kernel kills everything in it.
            known = record.pid and record.start_time
            if not known or os.getuid() != 0 or start_time(record.pid) != record.start_time:
                raise
            os.kill(record.pid, 9)

    def _forget(self, record: RunRecord) -> None:
        with self.engine.talk() as client:
            self.engine.remove(client, record.run_id)
        super()._forget(record)

    def sweep(self) -> list[str]:
        """Remove containers of ours that have no record; return their names."""
        removed = []
        with self.engine.talk() as client:
            labels = {"label": f"{INSTALLATION}={self.engine.installation}"}
            for found in client.containers(all=True, filters=labels):
                run_id = found["Labels"].get(RUN)
                # The record is written before the container is created, so one without a record is left over.
                if run_id and self._read(run_id) is None and f"/{self.engine.name_of(run_id)}" in found["Names"]:
                    self.engine.remove(client, run_id)
                    removed.append(found["Names"][0].lstrip("/"))
        return removed

    # This host

    def _probe(self) -> Probe:
        found = probing.probe(self.engine, self.canaries, self.oci_runtime)
        with contextlib.suppress(DriverError):
            self.sweep()
        return found

    # The network of a Run in gVisor is no namespace of this host

    async def listeners(self, record: RunRecord) -> list[socket.socket] | None:
        return await super().listeners(record) if self._is_kept(record) else None

    async def dial(self, record: RunRecord, port: int) -> socket.socket | None:
        return await super().dial(record, port) if self._is_kept(record) else None

    def tcp_tables(self, record: RunRecord) -> list[str]:
        return self._tables_of_kept(record) if self._is_kept(record) else super().tcp_tables(record)


def _peer(caller: socket.socket) -> dict:
    """Return {pid, start_time} of the process at the other end of a connection, from SO_PEERCRED."""
    pid, _uid, _gid = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if pid == 0:  # we run in a container ourselves, and the init is outside our pid namespace
        return {"pid": None, "start_time": None}
    return {"pid": pid, "start_time": start_time(pid)}


def _oom_file(pid: int | None) -> str | None:
    return cgroups.oom_file_of(pid) if pid else None


DRIVER = DockerDriver
