"""The driver contract: the interface between the runner and the backends that run workspaces.

A driver keeps its state in files, so that a restarted runner finds everything that the previous one started: the
`RunRecord` is on disk before the first process exists. Verbs are async and idempotent, and raise `DriverError` with
a message that can be shown to a person. Drivers do not access the database.
"""

import importlib
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, ClassVar

from workspaces.drivers.capabilities import TABLE, Capabilities
from workspaces.drivers.default_limits import PIDS
from workspaces.drivers.processes import tcp_tables_of


class DriverError(Exception):
    """A backend refused or failed; the message is a sentence for a person."""


class BackendLost(DriverError):
    """The service that a driver depends on, such as a container engine, does not answer."""


class OutOfReach(DriverError):
    """A Run lives on, as far as its backend knows, and cannot be reached now."""


class FilesGone(DriverError):
    """The files of a workspace are gone from this host; a resume brings back those of its newest snapshot."""


class ImageMissing(DriverError):
    """The image is not on this host."""


@dataclass(frozen=True)
class Probe:
    """What the driver can do on this host now. `limits` names those it enforces: memory, cpus, pids, disk."""

    available: bool
    reason: str = ""  # why it is unavailable, as a sentence
    what_to_do: str = ""  # how to fix that, as a sentence
    notes: tuple[str, ...] = ()  # versions found, and what works only in part
    limits: frozenset[str] = frozenset()
    isolation: str = ""  # the level on this host, where it can differ from `Capabilities.isolation`
    envelope: Mapping = field(default_factory=dict)  # as ring.probe() finds in a Run; empty: not known
    classes: Mapping[str, Mapping] = field(default_factory=dict)  # {runtime class: {isolation, envelope, limits}}


@dataclass(frozen=True)
class Limits:
    """Resource limits of a Run. None means the host's own limit; the driver `folder` enforces none."""

    memory: int | None = None  # bytes
    cpus: float | None = None  # 1.5 = one and a half CPUs
    pids: int | None = PIDS  # processes and threads
    disk: int | None = None  # size in bytes of the workspace's disk, where the driver makes one


@dataclass(frozen=True)
class Build:
    """An image to build from a folder of this host: a Dockerfile, relative to it, with arguments and a target stage."""

    context: Path
    dockerfile: str = "Dockerfile"
    args: Mapping[str, str] = field(default_factory=dict)
    target: str = ""


@dataclass(frozen=True)
class ShownSnapshot:
    """A snapshot that a Run shows: its tree in a store, mounted with `options` (of `workspaces.store mount`)."""

    store: str  # the address
    tree: str
    options: Sequence[str] = ()
    without: Set[bytes] = frozenset()  # paths that are left out
    keys: Sequence = field(default=(), repr=False)  # of an encrypted store (`store.sealing.Key`)


@dataclass(frozen=True)
class RunSpec:
    """What to start: one Run of one workspace. `workspace` and `home` are existing folders of this host."""

    run_id: str
    workspace_id: str
    key: str  # the workspace's name; becomes the hostname
    workspace: Path
    home: Path | None = None  # None (folder only): the user's own home
    uid: int = field(default_factory=os.getuid)  # the workload's user id on this host; never 0
    limits: Limits = Limits()
    env: Mapping[str, str] = field(default_factory=dict)  # environment of every process of the Run
    phase: str = "agent"  # setup | agent
    lead: int = 0  # epoch of the runner's lead of the workspace; 0: nobody leads it, as with a template
    image: str | None = None  # digest of the root's image or layer, where `capabilities.images`
    runtime_class: str = ""  # (with `runtime_classes`) the name of what runs the pod or the container; "": the usual
    team: str = ""  # (with `elsewhere`) slug of the team among whose pods it is; "": of none
    environment: str = ""  # (with `elsewhere`) id of the environment, for whose later Runs something may be kept ready
    storage: str = ""  # (with `elsewhere`) emptydir | pvc: where the files are while it is up; "": emptydir
    in_box: bool = False  # (folder only) run the programs in a box, where their calls can be held to envelopes
    shown_at: Path | None = None  # (with `in_box`) the path of `workspace` as its programs see it; None: its own
    code_host: Path | None = None  # (with `in_box`) what the box sees as `box.CODE_HOST`
    generation: int = 0  # generation of the tree; saved memory of another generation is never used
    # {FOLDER/NAME below /etc: content}, read-only for the workload. Its /etc/FOLDER holds nothing else, whatever the
    # image has there. Ignored by drivers that make no /etc.
    system_files: Mapping[str, bytes] = field(default_factory=dict)
    snapshots: Mapping[int, ShownSnapshot] = field(default_factory=dict)  # (with `capabilities.shows_snapshots`)
    agent_programs: Mapping[str, Path] = field(default_factory=dict)  # {NAME/VERSION below /opt/agents: host folder}
    # (with `capabilities.shows_manifest`) read-only at /workspace/.handrail/manifest.json, unless the tree has its own
    # file there. None: nothing is shown. b"": where files need a Run, an empty file until `show_manifest`.
    manifest: bytes | None = None


@dataclass(frozen=True)
class Address:
    """How a host process reaches the init of a Run; serialized as JSON."""

    socket: str  # path of the init's unix socket
    oom_file: str | None = None  # a file in cgroup format whose `oom_kill N` line counts out-of-memory kills
    env: Mapping[str, str] = field(default_factory=dict)  # environment of every process of the Run
    cwd: str = "/workspace"  # the tree as the workload sees it
    shell: str = "/bin/sh"  # the shell for command lines, as the workload sees it
    lead: Sequence = ()  # (workspace id, epoch) under which the Run was started; an init refuses a lower one for ever
    memory_file: str | None = None  # if it exists after the Run is gone, its programs can continue in another Run

    @classmethod
    def of(cls, data: Mapping) -> "Address":
        """Return the address from its JSON."""
        return cls(**{**data, "lead": tuple(data.get("lead", ()))})


@dataclass(frozen=True)
class RunRecord:
    """The record of a Run on this host: written before anything is started, with the pid before any program runs."""

    driver: str
    run_id: str
    workspace_id: str
    host: str
    boot_id: str
    uid: int
    address: Address
    tree: str  # host path of the tree
    pid: int | None = None  # None: not yet started
    start_time: int | None = None  # of that pid, in clock ticks since boot
    cgroups: tuple[str, ...] = ()
    limits: frozenset[str] = frozenset()  # names of the active limits
    stopping: bool = False  # a stop was requested, so the end is not a crash
    phase: str = "agent"
    image: str | None = None  # digest of the image it runs on, prefixed with its version if there is one
    began: str = ""  # the Run that started its programs, if they were resumed from saved memory
    home: str = ""  # the HANDRAIL_HOME that started it; detects a record copied into another one

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"limits": sorted(self.limits)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "RunRecord":
        data = json.loads(text)
        data["address"] = Address.of(data["address"])
        data["cgroups"] = tuple(data["cgroups"])
        data["limits"] = frozenset(data["limits"])
        return cls(**data)


@dataclass(frozen=True)
class Process:
    """A process in a Run. `pid` is in the workload's pid namespace; `open` holds paths as the workload sees them."""

    pid: int
    ppid: int
    session: int
    state: str  # the one-letter state code of ps
    argv: tuple[str, ...]
    cwd: str = ""
    open: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layer:
    """What setup installed outside /workspace, kept as an image."""

    name: str  # a hash of everything it was made from
    digest: str = ""
    touched_workspace: bool = True  # the script also changes /workspace, so it must run in each workspace


@dataclass(frozen=True)
class Checkpoint:
    """What `keep_checkpoint` has kept: its bytes on disk, and the Run that started the programs in its memory."""

    bytes: int
    began: str


InspectFile = Callable[[str, BinaryIO], None]  # (path, content) of a file; raises DriverError to reject it


class EndReason(StrEnum):
    """Why a Run ended."""

    STOPPED = "stopped"
    OUT_OF_MEMORY = "out_of_memory"
    HOST_RESTARTED = "host_restarted"
    CRASHED = "crashed"
    REMOVED = "removed"


class Driver:
    """Base class of backends. `home` is HANDRAIL_HOME (durable), `runtime` a folder for sockets; both exist.

    `options` are the installation's settings for this driver (HANDRAIL_DRIVERS).
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    default_image: ClassVar[str] = ""  # the reference for `find_image` if an environment names no image
    unit: ClassVar[str] = "first process"  # what ends with a Run, for messages

    def __init__(self, home: Path, runtime: Path, options: Mapping[str, str] | None = None):
        self.home = Path(home)
        self.runtime = Path(runtime)
        self.options = dict(options or {})

    async def probe(self) -> Probe:
        """Return whether and how well the driver works on this host.

        Never raises. If available, Runs get at least the isolation that it reports.
        """
        raise NotImplementedError

    def mark_of_host(self) -> str:
        """Return a fingerprint that changes when `probe` would return another result; in a second at most."""
        return ""

    async def held_up(self) -> Mapping[str, str]:
        """Return {run id: sentence} of the Runs whose programs somebody else stopped, without asking the Runs.

        BackendLost if the service that the driver depends on does not answer, so nothing can be started or ended.
        """
        return {}

    async def prepare(self, spec: RunSpec) -> None:
        """Make the folders of `spec` usable by its uid. Call it only before a start, while the workspace is down."""
        raise NotImplementedError

    async def start(self, spec: RunSpec) -> RunRecord:
        """Start the Run and return once its init answers. Repeated with the same run_id, return the same Run."""
        raise NotImplementedError

    async def records(self) -> Sequence[RunRecord]:
        """Return every record on this host, dead or alive, for a new runner to adopt or clear."""
        raise NotImplementedError

    async def alive(self, record: RunRecord) -> bool:
        """Return False only if the Run is proven gone; raise DriverError if this host cannot tell."""
        raise NotImplementedError

    def lives(self, record: RunRecord) -> bool:
        """Return True if this host sees at once that the Run lives; False says nothing."""
        return False

    async def end_reason(self, record: RunRecord) -> EndReason:
        """Return why a Run that is gone ended."""
        raise NotImplementedError

    async def how_it_crashed(self, record: RunRecord) -> str:
        """Return a sentence on a Run that ended with EndReason.CRASHED, if more is known than that."""
        return ""

    async def freeze(self, record: RunRecord) -> None:
        """Stop all programs of the Run and return once none runs; new ones are refused until `thaw`."""
        raise NotImplementedError

    async def thaw(self, record: RunRecord) -> None:
        """Continue all programs, except those that were already stopped before the freeze."""
        raise NotImplementedError

    async def frozen(self, record: RunRecord) -> bool:
        raise NotImplementedError

    def lacks_files(self, spec: RunSpec) -> bool:
        """Return whether the workspace's files are gone from this host: a start would make an empty place for them."""
        return not spec.workspace.is_dir()

    # Memory (only with `capabilities.memory`). A memory image is valid for one resume, with the tree as it was paused.

    async def pause(self, record: RunRecord, spec: RunSpec) -> None:
        """Save the memory of the Run and end it; on an error the Run continues unchanged."""
        raise DriverError("Pausing keeps no memory in this kind of workspace.")

    async def why_no_memory(self, spec: RunSpec) -> str:
        """Return why `resume` would refuse, as a sentence; "" if there is a memory that fits."""
        return "Pausing keeps no memory in this kind of workspace."

    async def resume(self, spec: RunSpec) -> RunRecord:
        """Start the Run from its saved memory, which is consumed. After an error, `start` boots it instead."""
        raise DriverError("Pausing keeps no memory in this kind of workspace.")

    async def warm(self, spec: RunSpec, *, is_new: bool = True) -> bool:
        """Make later starts with a spec like this faster, if the driver can; True if it did something now.

        `is_new`: the workspace was just made, so that the spec is what its environment says today.
        """
        return False

    async def discard_memory(self, spec: RunSpec) -> bool:
        """Delete saved memory (a start also does so); False if there was none."""
        return False

    # Another lead (only with `capabilities.elsewhere`): what runs on another machine outlives the host that started it.

    async def what_leads(self, record: RunRecord) -> str:
        """Return what another host needs to take over the Run. It is a secret."""
        raise DriverError("What runs in this kind of workspace ends with its host.")

    async def take_over(self, spec: RunSpec, needed: str) -> RunRecord:
        """Lead a living Run that another host started; `spec.lead` is higher than its lead's. Repeated, the same Run.

        It refuses the former lead from then on. Programs go on; those that the former host listened to wait for a shim
        of this one to adopt them, or for `end_unadopted`. DriverError if it is gone or cannot be reached. Also for a
        Run that this host started and no longer `leads`, whose record stays after an error.
        """
        raise DriverError("What runs in this kind of workspace ends with its host.")

    async def end_unadopted(self, record: RunRecord) -> None:
        """End the programs of the former lead that no shim of this host has adopted; those in the background go on."""
        raise DriverError("What runs in this kind of workspace ends with its host.")

    async def leads(self, record: RunRecord) -> bool:
        """Return whether this host is still connected to the Run; False after a restart that ended its connection."""
        return True

    async def let_go(self, record: RunRecord) -> None:
        """Forget a Run that another host has taken over, without touching it."""
        raise DriverError("What runs in this kind of workspace ends with its host.")

    async def remove_volumes(self, workspace_id: str, team: str, *, everywhere: bool) -> None:
        """Remove the volumes that a workspace of the team (its slug) has while it is down; nothing if it has none.

        `everywhere`: also those of other hosts, where it may not be up.
        """

    # Checkpoints (only with `capabilities.memory`): saved memory with the disks that it fits, for many resumes.

    async def checkpoint_bytes(self, spec: RunSpec) -> int:
        """Return the bytes on disk that `keep_checkpoint` would take."""
        raise DriverError("Pausing keeps no memory in this kind of workspace.")

    async def keep_checkpoint(self, spec: RunSpec, place: Path) -> Checkpoint:
        """Copy the saved memory and all files to the new folder `place`; the workspace is unchanged."""
        raise DriverError("Pausing keeps no memory in this kind of workspace.")

    async def put_checkpoint(self, spec: RunSpec, place: Path) -> None:
        """Replace all files and the saved memory of a workspace that is down; `resume` can then continue from it."""
        raise DriverError("Pausing keeps no memory in this kind of workspace.")

    async def processes(self, record: RunRecord, *, open_files: bool = False) -> Sequence[Process]:
        """Return the processes of the Run without its init; with `open_files` also the tree's files each holds open."""
        raise NotImplementedError

    async def tasks(self, record: RunRecord) -> int:
        """Return how many processes and threads the Run has, with its init; DriverError if it cannot tell."""
        raise DriverError("Processes are not counted in this kind of workspace.")

    async def stop(self, record: RunRecord, *, grace_s: float = 5.0) -> None:
        """End every program (SIGTERM, after the grace SIGKILL) and the Run; the record stays for `end_reason`."""
        raise NotImplementedError

    async def clear(self, record: RunRecord) -> None:
        """Delete the record, socket and cgroups of a Run that is gone."""
        raise NotImplementedError

    async def listeners(self, record: RunRecord) -> list[socket.socket] | None:
        """Make listening sockets on the host for the programs' connections to 127.0.0.1:3128 and to :80, in this order.

        None: the driver forwards no ports; the caller listens in the network namespace of `record.pid`.
        """
        return None

    async def dial(self, record: RunRecord, port: int) -> socket.socket | None:
        """Return a connection to a port on the loopback of the programs; ConnectionRefusedError if nothing answers.

        None: the driver makes none; the caller connects in the network namespace of `record.pid`.
        """
        return None

    # Files

    def tree(self, record: RunRecord, *, cache: Path | None = None):
        """Return the files of a Run as a tree of the store (`opened`, `files`, `recover`); by default a LocalTree.

        With `capabilities.files_need_run` they can be reached only while the Run is up; `files("home")` are those of
        the agent's home.
        """
        from workspaces.store import LocalTree  # deferred: host processes import this module and must start quickly

        return LocalTree(record.tree, cache=cache)

    def tree_at_rest(self, folder: Path, *, cache: Path | None = None, home: Path | None = None):
        """Return the files of a workspace as a tree of the store without a Run; None if they can't be reached so."""
        from workspaces.store import LocalTree

        return LocalTree(folder, cache=cache, home=home)

    def file_owner(self, uid: int | None) -> tuple[int, int] | None:
        """Return (uid, gid) for new files in a tree of the workspace's user `uid`; None: the owner of the tree's root.

        `uid` is None where all workspaces run as the user who runs Handrail.
        """
        return None if uid is None else (uid, uid)

    async def end_programs(self, record: RunRecord, *, grace_s: float = 5.0) -> None:
        """End every program and refuse new ones, so that `tree(record)` can be read; the Run may end with them.

        With `capabilities.files_need_run` it stays up.
        """
        await self.stop(record, grace_s=grace_s)

    def tcp_tables(self, record: RunRecord) -> list[str]:
        """Return the contents of /proc/net/tcp and tcp6 of the Run's network; none if it is that of the host."""
        # Without a network of its own the init's namespace is the host's, which an ordinary user may not find out.
        if record.pid is None or not self.capabilities.network:
            return []
        return tcp_tables_of(record.pid)

    def show_manifest(self, run_id: str, content: bytes) -> None:
        """Replace what programs of a Run read as `RunSpec.manifest`, if the Run shows one. Blocking."""

    # Images (only with `capabilities.images`)

    async def find_image(self, reference: str) -> str:
        """Return the digest of a local image for `RunSpec.image`. Never pulls; raise ImageMissing if it is not here."""
        raise DriverError("This kind of workspace has no image.")

    async def resolve_image(self, reference: str) -> str:
        """Return the reference with the digest that its registry gives its tag now. Raise DriverError."""
        raise DriverError("This kind of workspace pulls no image.")

    async def pull_image(self, reference: str, *, asked: bool = False) -> str:
        """Pull an image by its digest from a registry that the operator allowed, or a lead asked for it (`asked`).

        Return what `find_image` returns.
        """
        raise DriverError("This kind of workspace pulls no image.")

    async def build_image(self, build: Build, name: str) -> str:
        """Build a folder's image without network, keep it under `name` and return its digest."""
        raise DriverError("Images for this kind of workspace cannot be built from a folder.")

    async def collect(self, in_use: Set[str], *, older_than_s: float, ages: Mapping[str, float] = {}) -> list[str]:
        """Remove old layers and built images of ours with neither name nor digest `in_use`; return their names.

        `ages`: {name or digest: seconds} in place of `older_than_s` for some.
        """
        return []

    async def find_layer(self, name: str) -> Layer | None:
        """Return the layer that `keep_layer` kept under this name, or None."""
        raise DriverError("This kind of workspace has no setup layer.")

    async def keep_layer(self, record: RunRecord, layer: Layer, *, inspect: InspectFile | None = None) -> Layer:
        """Keep the root of a stopped setup Run as a layer. `inspect` is called for each installed file.

        With `capabilities.files_need_run` the Run must be up and its programs ended; it is stopped here.
        """
        raise DriverError("This kind of workspace has no setup layer.")


def get_driver(name: str, home: Path, runtime: Path, options: Mapping[str, str] | None = None) -> Driver:
    """Return the driver for a built-in name (`sandbox`) or a dotted path (`package.module.Class`).

    Environments take built-in names only; a dotted path is for code that brings a driver of its own.
    """
    return get_driver_class(name)(home, runtime, options)


def get_driver_class(name: str) -> type[Driver]:
    of_ours = f"workspaces.drivers.{name}.driver.DRIVER"
    module, _, attribute = (of_ours if name in TABLE else name).rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise DriverError(f"There is no driver named {name!r}.") from error
