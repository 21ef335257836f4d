"""Workspaces in containers of a Docker engine on this host: one container for each Run, under our own init.

The engine is asked to create, start, kill, remove and commit; commands and terminals go straight to the init over its
socket, so that they neither wait for the engine nor end with it. Nothing here ever fetches an image.
"""

import asyncio
import contextlib
import os
import select
import socket
import struct
import tarfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import requests
from docker import APIClient
from docker.constants import DEFAULT_DOCKER_API_VERSION
from docker.errors import APIError, DockerException, NotFound

from . import bundle, cgroups, container, dockerfile
from .base import (
    Address,
    Capabilities,
    DriverError,
    ImageMissing,
    Layer,
    Look,
    Owner,
    Probe,
    RunSpec,
    boot_id,
    start_time,
    this_host,
)
from .local import START_S, LocalDriver, held, listen
from .sandbox import own

INSTALLATION, RUN, WORKSPACE, LAYER, TOUCHES = (
    f"handrail.{name}" for name in ("installation", "run", "workspace", "layer", "touches-workspace")
)
LAYERS, BUILDS = "handrail/setup", "handrail/build"  # names of images that we make
GIVE_BACK_S = 300.0
ENGINE_S = 60.0
BUILD_S = 3600.0
LOST = "The Docker engine at {} does not answer ({})."
NOT_THERE = (
    "There is no image {0!r} on this Docker engine, and Handrail fetches none by itself. `docker pull` or `docker "
    "load` it there; `make images` makes handrail/base:bookworm."
)


class EngineLost(DriverError):
    """The engine does not answer, so nobody can tell."""


class DockerDriver(LocalDriver):
    name = "docker"
    capabilities = Capabilities(
        isolation="container", freeze=True, memory=False, network=True, limits=True, images=True
    )

    def __init__(self, home, runtime, options=None):
        super().__init__(home, runtime, options)
        self.address = self.options.get("address") or "unix:///var/run/docker.sock"
        self.oci_runtime = self.options.get("runtime") or None
        self._api_version = None

    # Verbs

    async def probe(self) -> Probe:
        return await asyncio.to_thread(self._probe)

    async def prepare(self, spec: RunSpec) -> None:
        await asyncio.to_thread(self._prepare, spec)

    async def find_image(self, reference: str) -> str:
        return (await asyncio.to_thread(self._image, reference))["Id"]

    async def build_image(self, context: Path, name: str) -> str:
        return await asyncio.to_thread(self._build, context, name)

    async def find_layer(self, name: str) -> Layer | None:
        return await asyncio.to_thread(self._find_layer, name)

    async def keep_layer(self, owner: Owner, layer: Layer, *, look: Look | None = None) -> Layer:
        return await asyncio.to_thread(self._keep_layer, owner, layer, look)

    # The engine

    @contextlib.contextmanager
    def engine(self, timeout: float = ENGINE_S) -> Iterator[APIClient]:
        """A conversation with the engine; what goes wrong in it is a DriverError with words."""
        client = None
        try:
            self._knock()
            if self._api_version is None:
                self._api_version = self._ask_version()
            client = APIClient(base_url=self.address, version=self._api_version, timeout=timeout)
            yield client
        except (requests.exceptions.RequestException, ConnectionError) as error:
            self._api_version = None  # the one that comes back may be another
            raise EngineLost(LOST.format(self.address, _cause(error))) from error
        except APIError as error:
            raise DriverError(f"The Docker engine refused: {error.explanation or error}") from error
        except DockerException as error:
            raise DriverError(f"The Docker engine at {self.address} cannot be used: {error}") from error
        finally:
            if client is not None:
                client.close()

    def _knock(self) -> None:
        """Find out by ourselves whether anybody listens: the SDK leaves its socket open when nobody does."""
        with socket.socket(socket.AF_UNIX) as trial:
            trial.settimeout(5)
            try:
                trial.connect(self.address.removeprefix("unix://"))
            except OSError as error:
                raise EngineLost(LOST.format(self.address, error.strerror or error)) from error

    def _ask_version(self) -> str:
        with contextlib.closing(
            APIClient(base_url=self.address, version=DEFAULT_DOCKER_API_VERSION, timeout=5)
        ) as client:
            theirs = client.version(api_version=False)["ApiVersion"]
        return min(theirs, DEFAULT_DOCKER_API_VERSION, key=lambda version: [int(n) for n in version.split(".")])

    @property
    def _installation(self) -> str:
        """A name of this HANDRAIL_HOME, by which containers and layers are known to be its own."""
        path = self.home / "docker" / "installation"
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            fresh = path.with_name(f"installation.{uuid.uuid4().hex}")
            fresh.write_text(uuid.uuid4().hex)
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)  # whoever is first
            fresh.unlink()
        return path.read_text()

    def _container_name(self, run_id: str) -> str:
        return f"handrail-{self._installation[:12]}-{run_id}"

    def _container(self, client: APIClient, run_id: str) -> dict | None:
        """The container of a Run, as the engine describes it; None only when the engine says that there is none."""
        try:
            found = client.inspect_container(self._container_name(run_id))
        except NotFound:
            return None
        labels = found["Config"]["Labels"] or {}
        if (labels.get(INSTALLATION), labels.get(RUN)) != (self._installation, run_id):
            raise DriverError(f"The container {found['Name'].lstrip('/')} is not Handrail's; it is left alone.")
        return found

    def _remove_container(self, client: APIClient, run_id: str) -> None:
        found = self._container(client, run_id)
        if found is not None:
            with contextlib.suppress(NotFound):
                client.remove_container(found["Id"], force=True, v=True)

    # Images

    def _image(self, reference: str | None) -> dict:
        if not reference:
            raise DriverError("This environment names no image.")
        with self.engine() as client:
            return self._inspect_image(client, reference)

    def _inspect_image(self, client: APIClient, reference: str) -> dict:
        try:
            return client.inspect_image(reference)
        except NotFound as error:
            raise ImageMissing(NOT_THERE.format(reference)) from error

    def _build(self, context: Path, name: str) -> str:
        bases = dockerfile.bases(context)
        tag = f"{BUILDS}:{name}"
        with self.engine(BUILD_S) as client:
            for base in bases:
                self._inspect_image(client, base)
            said, wrong = [], None
            # No network: what a build needs lies in its folder.
            steps = client.build(
                path=str(context),
                tag=tag,
                rm=True,
                forcerm=True,
                pull=False,
                network_mode="none",
                labels={INSTALLATION: self._installation},
                decode=True,
                use_config_proxy=False,
            )
            for step in steps:  # to the end, also after an error: what is not read keeps its connection
                said.append(step.get("stream", ""))
                wrong = wrong or step.get("error")
            if wrong:
                raise DriverError(f"The image could not be built: {wrong}\n{''.join(said)[-1500:]}")
            return client.inspect_image(tag)["Id"]

    def _find_layer(self, name: str) -> Layer | None:
        with self.engine() as client:
            try:
                found = client.inspect_image(f"{LAYERS}:{name}")
            except NotFound:
                return None
        labels = found["Config"].get("Labels") or {}
        if (labels.get(INSTALLATION), labels.get(LAYER)) != (self._installation, name):
            return None
        return Layer(name, found["Id"], labels.get(TOUCHES) != "no")

    def _keep_layer(self, owner: Owner, layer: Layer, look: Look | None) -> Layer:
        if self._alive(owner):
            raise DriverError("The set-up still runs; stop it first.")
        with self.engine(BUILD_S) as client:
            found = self._container(client, owner.run_id)
            if found is None:
                raise DriverError("The container of the set-up is gone, and what it installed with it.")
            if look is not None:
                _show_changes(client, found["Id"], look)
            base = client.inspect_image(found["Image"])["Config"]
            labels = (base.get("Labels") or {}) | {
                INSTALLATION: self._installation,
                LAYER: layer.name,
                TOUCHES: "yes" if layer.touched_workspace else "no",
                RUN: "",
                WORKSPACE: "",
            }
            # The image's own settings again: those of the container are how our init was started in it.
            conf = {key: base.get(key) for key in ("Env", "Cmd", "Entrypoint", "WorkingDir", "User")}
            if not any(entry.startswith("LC_ALL") for entry in conf["Env"] or ()):
                conf["Env"] = [*(conf["Env"] or ()), "LC_ALL"]  # a name alone: not that of the init
            made = client.commit(found["Id"], LAYERS, layer.name, conf=conf | {"Labels": labels})
        return replace(layer, digest=made["Id"])

    # Start

    def _prepare(self, spec: RunSpec) -> None:
        self._check(spec)
        for folder in (spec.workspace, spec.home):
            own(folder, spec.uid)

    def _check(self, spec: RunSpec) -> None:
        super()._check(spec)
        if spec.home is None or not spec.home.is_dir():
            raise DriverError("A container needs a folder for the agent's home.")

    def _launch(self, spec: RunSpec, folder: Path, lock: int) -> Owner:
        image = self._image(spec.image)
        owner = Owner(
            driver=self.name,
            run_id=spec.run_id,
            workspace_id=spec.workspace_id,
            host=this_host(),
            boot_id=boot_id(),
            uid=spec.uid,
            address=Address(str(self.runtime / spec.run_id), env=container.environment(spec, image)),
            tree=str(spec.workspace),
            phase=spec.phase,
            image=image["Id"],
        )
        self._write(owner)
        try:
            return self._bring_up(spec, owner, image, folder, lock)
        except EngineLost:
            raise  # nobody can tell what there is now; the record stays for whoever asks again
        except DriverError:
            self._forget(owner)
            raise

    def _bring_up(self, spec: RunSpec, owner: Owner, image: dict, folder: Path, lock: int) -> Owner:
        shown = folder / "etc"
        container.write_files(shown, spec)
        # The init of a container cannot inherit descriptors. It fetches them at this door, which is gone before
        # anything of the workspace can run.
        door = shown / "door"
        with listen(Path(owner.address.socket)) as listener, listen(door) as waiting, self.engine() as client:
            if os.getuid() == 0:
                os.chown(door, 0 if spec.phase == "setup" else spec.uid, -1)
            self._remove_container(client, spec.run_id)  # what a start has left that was interrupted
            limits = client.info()
            made = client.create_container(**self._description(client, spec, image, shown, limits))["Id"]
            try:
                client.start(made)
                caller = self._answer_door(client, made, waiting)
                door.unlink()
                with caller:
                    owner = replace(owner, **_peer(caller), limits=container.limits_in_force(limits, spec))
                    owner = replace(owner, address=replace(owner.address, oom_file=_oom_file(owner.pid)))
                    self._write(owner)
                    socket.send_fds(caller, [b"."], [listener.fileno(), lock])
                listener.close()
                hello = self._hello(owner, lambda: _runs(client.inspect_container(made)))
                if hello is None:
                    raise DriverError(_said(client, made))
            except APIError as error:
                raise DriverError(self._explain_start(error)) from error
            finally:
                door.unlink(missing_ok=True)
        env = {**owner.address.env, "SHELL": hello["shell"]}
        owner = replace(owner, address=replace(owner.address, shell=hello["shell"], env=env))
        self._write(owner)
        return owner

    def _answer_door(self, client: APIClient, container: str, door: socket.socket) -> socket.socket:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if select.select([door], [], [], 0.25)[0]:
                return door.accept()[0]
            if not _runs(client.inspect_container(container)):
                break
        raise DriverError(_said(client, container))

    def _description(self, client: APIClient, spec: RunSpec, image: dict, shown: Path, info: dict) -> dict:
        place = bundle.find_or_make(self.home / "docker")
        host = container.host_settings(spec, place, shown, info)
        return container.settings(spec, image, place) | {
            "name": self._container_name(spec.run_id),
            "labels": {INSTALLATION: self._installation, RUN: spec.run_id, WORKSPACE: spec.workspace_id},
            "host_config": client.create_host_config(**host, runtime=self.oci_runtime),
            "use_config_proxy": False,
        }

    def _explain_start(self, error: APIError) -> str:
        said = str(error.explanation or error)
        if "bind source path does not exist" in said:
            said += ". The engine must run on this host and see the same folders as Handrail"
        elif self.oci_runtime and "runtime" in said:
            said += f". The runtime comes from HANDRAIL_DOCKER_RUNTIME ({self.oci_runtime})"
        return f"The container could not be started: {said}."

    # Life and end

    def _alive(self, owner: Owner) -> bool:
        if owner.host != this_host():
            raise DriverError(f"This Run belongs to the host {owner.host}; only that host can tell.")
        if owner.boot_id != boot_id():
            return False
        if held(self._folder(owner.run_id) / "lock"):
            return True
        # Its init holds no lock. Only the engine knows whether one is about to start.
        with self.engine() as client:
            found = self._container(client, owner.run_id)
        known = self._read(owner.run_id) or owner
        return known.pid is None and found is not None and _runs(found)

    def _why(self, owner: Owner) -> str:
        with self.engine() as client:
            _wait_for_end(client, self._container(client, owner.run_id))
            found = self._container(client, owner.run_id)
        if found is None:
            return "its container was removed by somebody else"
        state = found["State"]
        if state.get("OOMKilled") or cgroups.oom_kills(owner.address.oom_file):
            return "out of memory"
        if state.get("Error"):
            return f"its container ended: {state['Error']}"
        return "its first process was killed or crashed"

    def _patience(self, owner: Owner) -> float:
        # The init of a set-up gives every file to the workspace's user before it ends.
        return GIVE_BACK_S if owner.phase == "setup" else super()._patience(owner)

    def _stop(self, owner: Owner, grace_s: float) -> None:
        super()._stop(owner, grace_s)
        with contextlib.suppress(EngineLost), self.engine() as client:
            _wait_for_end(client, self._container(client, owner.run_id))

    def _kill(self, owner: Owner) -> None:
        try:
            with self.engine() as client:
                found = self._container(client, owner.run_id)
                if found is None or not _runs(found):
                    return
                if found["State"].get("Paused"):
                    client.unpause(found["Id"])  # a paused one cannot be killed
                with contextlib.suppress(NotFound):
                    client.kill(found["Id"])
        except EngineLost:
            # The init is the first process of a pid namespace: everything goes with it.
            known = owner.pid and owner.start_time
            if not known or os.getuid() != 0 or start_time(owner.pid) != owner.start_time:
                raise
            os.kill(owner.pid, 9)

    def _forget(self, owner: Owner) -> None:
        with self.engine() as client:
            self._remove_container(client, owner.run_id)
        super()._forget(owner)

    def sweep(self) -> list[str]:
        """Remove containers of ours that no record knows any more; their names."""
        removed = []
        with self.engine() as client:
            labels = {"label": f"{INSTALLATION}={self._installation}"}
            for found in client.containers(all=True, filters=labels):
                run_id = found["Labels"].get(RUN)
                # One that is just being made has its record first, so whatever has none is left over.
                if run_id and self._read(run_id) is None and f"/{self._container_name(run_id)}" in found["Names"]:
                    self._remove_container(client, run_id)
                    removed.append(found["Names"][0].lstrip("/"))
        return removed

    # This host

    def _probe(self) -> Probe:
        install = (
            "Install Docker on this host (Debian: `apt install docker.io`) and let Handrail's user reach its socket "
            "(group docker, which is as good as root), or name another socket in HANDRAIL_DOCKER_HOST."
        )
        if not self.address.startswith("unix://"):
            reason = f"{self.address} is no socket of this host, and containers are shown folders of this host."
            return Probe(False, reason, install)
        try:
            with self.engine(timeout=10) as client:
                info = client.info()
                has_base = bool(client.images("handrail/base"))
            bundle.find_or_make(self.home / "docker")
            self.sweep()
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
            notes.append("There is no handrail/base image yet; `make images` makes it.")
        return Probe(True, notes=tuple(notes), limits=limits)

    def _unfit(self, info: dict) -> tuple[str, str]:
        """What this engine lacks for what this driver promises, and the way out."""
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
        return "", ""


def _runs(container: dict) -> bool:
    return container["State"]["Status"] in ("running", "paused", "restarting")


def _wait_for_end(client: APIClient, container: dict | None) -> None:
    """The engine notes a moment later than we that a first process has ended."""
    if container is not None and _runs(container):
        with contextlib.suppress(NotFound, requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError):
            client.wait(container["Id"], timeout=5)


def _said(client: APIClient, container: str) -> str:
    """A sentence for a container whose init did not come up."""
    log = client.logs(container, tail=20).decode(errors="replace").strip()
    state = client.inspect_container(container)["State"]
    said = state.get("Error") or (log.splitlines() or [f"exit {state.get('ExitCode')}, and it said nothing"])[-1]
    return f"The container's first process did not come up: {said[:300]}"


def _cause(error: BaseException) -> str:
    """The innermost reason, without the object that it happened to."""
    while (deeper := error.__cause__ or error.__context__) is not None:
        error = deeper
    return getattr(error, "strerror", None) or str(error)[:200]


def _peer(caller: socket.socket) -> dict:
    pid, _uid, _gid = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    if pid == 0:  # we are in a container ourselves, and it is not in our pid namespace
        return {"pid": None, "start_time": None}
    return {"pid": pid, "start_time": start_time(pid)}


def _oom_file(pid: int | None) -> str | None:
    return cgroups.oom_file_of(pid) if pid else None


def _show_changes(client: APIClient, container: str, look: Look) -> None:
    """Show `look` every file that the container has beside its image's."""
    changed = {entry["Path"].lstrip("/") for entry in client.diff(container) or () if entry["Kind"] in (0, 1)}
    with _Stream(client.export(container)) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            if member.isfile() and member.name.lstrip("./") in changed:
                look("/" + member.name.lstrip("./"), archive.extractfile(member))


class _Stream:
    """Chunks as a file that can be read."""

    def __init__(self, chunks):
        self.chunks = chunks
        self.rest = b""

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *_) -> None:
        for _ in self.chunks:  # to the end, so that the connection is free
            pass

    def read(self, size: int) -> bytes:
        while len(self.rest) < size and (chunk := next(self.chunks, b"")):
            self.rest += chunk
        found, self.rest = self.rest[:size], self.rest[size:]
        return found
