"""Workspaces in containers of a Docker engine on this host: one container for each Run, under our own init.

The engine creates, starts, kills, removes and commits containers. Commands and terminals go directly to the init over
its socket, so that they neither wait for the engine nor end with it. Images are pulled by digest alone, from registries
that the operator named.
"""

import asyncio
import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import time
from collections.abc import Mapping, Set
from dataclasses import replace
from functools import partial
from pathlib import Path

from docker import APIClient
from docker.errors import APIError, NotFound

from dashboard.files.locks import is_locked
from workspaces.envelope import landlock

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
from ..local import START_S, LocalDriver, lead_of, listen
from ..processes import boot_id, start_time, this_host
from ..sandbox.driver import own
from . import bundle, container
from .engine import INSTALLATION, LOST, RUN, WORKSPACE, Engine, EngineLost, runs
from .images import Images

GIVE_BACK_S = 300.0
PAUSED_BY_DOCKER = (
    "Somebody paused its container (`docker pause`), so its programs stand still. "
    "`docker unpause {}` lets them continue."
)
KILLED = 128 + signal.SIGKILL  # the exit status of a container whose first process was killed
OWN_KERNEL = {"runsc": "runsc (gVisor)", "kata": "Kata Containers"}  # {part of a runtime's program: display name}


class DockerDriver(LocalDriver):
    name = "docker"
    unit = "container"
    capabilities = TABLE[name]

    def __init__(self, home, runtime, options=None):
        super().__init__(home, runtime, options)
        address = self.options.get("address") or "unix:///var/run/docker.sock"
        self.engine = Engine(address, self.home / "docker")
        self.images = Images(self.engine, tuple(self.options.get("pull_from") or ()))
        self.oci_runtime = self.options.get("runtime") or None

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
                    raise DriverError(_why_init_failed(client, made))
            except APIError as error:
                raise DriverError(self._explain_start(error)) from error
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
        raise DriverError(_why_init_failed(client, container))

    def _description(self, client: APIClient, spec: RunSpec, image: dict, shown: Path, info: dict) -> dict:
        """Return the arguments of create_container()."""
        place = bundle.find_or_make(self.home / "docker")
        host = container.host_settings(spec, place, shown, info)
        return container.settings(spec, image) | {
            "name": self.engine.name_of(spec.run_id),
            "labels": {INSTALLATION: self.engine.installation, RUN: spec.run_id, WORKSPACE: spec.workspace_id},
            "host_config": client.create_host_config(**host, runtime=self.oci_runtime),
            "use_config_proxy": False,
        }

    def _explain_start(self, error: APIError) -> str:
        """Return a sentence for an error of the engine, with a hint at its likely cause."""
        said = str(error.explanation or error)
        if "bind source path does not exist" in said:
            said += ". The engine must run on this host and see the same folders as Handrail"
        elif self.oci_runtime and "runtime" in said:
            said += f". The runtime comes from HANDRAIL_DOCKER_RUNTIME ({self.oci_runtime})"
        return f"The container could not be started: {said}."

    # Life and end

    def _alive(self, record: RunRecord) -> bool:
        if record.host != this_host():
            raise DriverError(f"This Run belongs to the host {record.host}; only that host can tell.")
        if record.boot_id != boot_id():
            return False
        if is_locked(self._folder(record.run_id) / "lock"):
            return True
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
        try:
            with self.engine.talk() as client:
                found = self.engine.find(client, record.run_id)
                if found is None or not runs(found):
                    return
                if found["State"].get("Paused"):
                    client.unpause(found["Id"])  # a paused container cannot be killed
                with contextlib.suppress(NotFound):
                    client.kill(found["Id"])
        except EngineLost:
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
        reach = (
            "let Handrail's user reach its socket (group docker, which is as good as root), or name another socket in "
            "HANDRAIL_DOCKER_HOST."
        )
        install = f"Install Docker on this host (Debian: `apt install docker.io`) and {reach}"
        if not self.engine.address.startswith("unix://"):
            reason = f"{self.engine.address} is no socket of this host, and containers are shown folders of this host."
            return Probe(False, reason, install)
        try:
            with self.engine.talk(timeout=10) as client:
                info = client.info()
                has_base = bool(client.images("handrail/base"))
            bundle.find_or_make(self.home / "docker")
            self.sweep()
        except EngineLost as error:
            if "Permission denied" in str(error):
                return Probe(False, str(error), f"{reach[0].upper()}{reach[1:]}")
            is_installed = shutil.which("docker") or shutil.which("dockerd")
            start = "Start it: `systemctl start docker`, or name another socket in HANDRAIL_DOCKER_HOST."
            return Probe(False, str(error), start if is_installed else install)
        except DriverError as error:
            return Probe(False, str(error), install)
        reason, what_to_do = self._unfit(info)
        if reason:
            return Probe(False, reason, what_to_do)
        limits = frozenset(limit for limit, key in container.SUPPORTED.items() if info.get(key))
        notes = [f"Docker {info.get('ServerVersion')}, runtime {self.oci_runtime or info.get('DefaultRuntime')}."]
        if missing := [name for name in ("memory", "cpus", "pids") if name not in limits]:
            notes.append(f"Limits for {', '.join(missing)} cannot be enforced by this engine.")
        if not has_base:
            notes.append("There is no handrail/base image yet; `make images` builds it.")
        # Neither a user namespace nor a mount is allowed in a container, so programs cannot get views of their own.
        abilities = {"landlock": landlock.abi(), "seccomp": True, "mount_view": False}
        return Probe(True, notes=tuple(notes), limits=limits, envelope=abilities)

    def _unfit(self, info: dict) -> tuple[str, str]:
        """Return (reason, what to do) if this engine cannot provide what the driver promises, else ("", "")."""
        if info.get("OSType") != "linux":
            return "This engine runs no Linux containers.", "Use a Docker engine on Linux."
        if container.has(info, "rootless"):
            return (
                "This engine is rootless: a workspace's files would belong to users of its own.",
                "Use the host's ordinary engine, or the sandbox, which needs no root.",
            )
        if not container.has(info, "seccomp") or container.has(info, "seccomp,profile=unconfined"):
            return (
                "This engine starts containers without a seccomp filter.",
                "Start it with its built-in profile, on a kernel that has seccomp.",
            )
        if self.oci_runtime and self.oci_runtime not in info.get("Runtimes", {}):
            known = ", ".join(sorted(info.get("Runtimes", {})))
            return (
                f"This engine has no runtime {self.oci_runtime!r}; it has {known}.",
                "Register it in the engine's daemon.json, or set HANDRAIL_DOCKER_RUNTIME to another, or to nothing.",
            )
        return _own_kernel(info.get("Runtimes", {}).get(self.oci_runtime or info.get("DefaultRuntime"), {}))


def _own_kernel(runtime: dict) -> tuple[str, str]:
    """Return (reason, what to do) if the runtime has a kernel of its own, else ("", "").

    It is recognized by its program, since the engine's configuration can give it any name.
    """
    program = f"{Path(runtime.get('path', '')).name} {runtime.get('runtimeType', '')}"
    name = next((words for part, words in OWN_KERNEL.items() if part in program), "")
    if not name:
        return "", ""
    return (
        f"{name} runs programs on a kernel of its own, through which the first process of a workspace cannot be handed "
        "its socket.",
        "Set HANDRAIL_DOCKER_RUNTIME to runc, crun, or nothing. For a kernel of their own, workspaces have the driver "
        "microvm.",
    )


def _why_init_failed(client: APIClient, container: str) -> str:
    """Return a sentence on why the container's init did not come up."""
    log = client.logs(container, tail=20).decode(errors="replace").strip()
    state = client.inspect_container(container)["State"]
    said = state.get("Error") or (log.splitlines() or [f"exit {state.get('ExitCode')}, and it said nothing"])[-1]
    return f"The container's init process did not start: {said[:300]}"


def _peer(caller: socket.socket) -> dict:
    """Return {pid, start_time} of the process at the other end of a connection, from SO_PEERCRED."""
    pid, _uid, _gid = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if pid == 0:  # we run in a container ourselves, and the init is outside our pid namespace
        return {"pid": None, "start_time": None}
    return {"pid": pid, "start_time": start_time(pid)}


def _oom_file(pid: int | None) -> str | None:
    return cgroups.oom_file_of(pid) if pid else None


DRIVER = DockerDriver
