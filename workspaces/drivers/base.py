"""The contract between the runner and whatever runs a workspace: one page.

A driver keeps its state in files, so that a runner that starts tomorrow finds everything that yesterday's started: an
`Owner` record is on disk before the first process exists. Verbs are async, safe to repeat, and raise `DriverError` with
a message that can be shown to a person. They know nothing of the database.
"""

import importlib
import json
import os
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO, ClassVar

BUILT_IN = {
    "sandbox": "workspaces.drivers.sandbox.SandboxDriver",
    "folder": "workspaces.drivers.folder.FolderDriver",
    "docker": "workspaces.drivers.docker.driver.DockerDriver",
    "microvm": "workspaces.drivers.microvm.driver.MicroVMDriver",
}


class DriverError(Exception):
    """Something a backend refuses or cannot do; the message is a sentence for a person."""


class ImageMissing(DriverError):
    """The image is not here; nothing was fetched for it."""


@dataclass(frozen=True)
class Capabilities:
    """What a driver can do anywhere; what this host adds or lacks is in `Probe`."""

    isolation: str  # none | namespace | container | microvm | microvm-emulated
    freeze: bool  # all programs can be stopped and go on later
    memory: bool  # a pause can keep the memory of programs
    network: bool  # the network is cut off, or led through a proxy
    limits: bool  # memory, CPU and process limits, where the host lets us set them
    guest_files: bool = False  # /workspace is a disk of its own, reached through `tree(owner)` while it is up
    images: bool = False  # its root is an image, and what a set-up installs in it can be kept as a layer


@dataclass(frozen=True)
class Probe:
    """What this host can do now. `limits` names those that will hold: of memory, cpus, pids."""

    available: bool
    reason: str = ""  # why not, in words
    what_to_do: str = ""  # the way out, in words
    notes: tuple[str, ...] = ()  # what works less well than it could
    limits: frozenset[str] = frozenset()
    isolation: str = ""  # what it is here, where that is less than the driver's own word


@dataclass(frozen=True)
class Limits:
    """None means the host's own limit."""

    memory: int | None = None  # bytes
    cpus: float | None = None  # 1.5 = one and a half CPUs
    pids: int | None = None  # processes and threads
    disk: int | None = None  # bytes of a disk of its own, where the driver makes one


@dataclass(frozen=True)
class RunSpec:
    """What to start: one Run of one workspace. `workspace` and `home` are folders of this host that exist."""

    run_id: str
    workspace_id: str
    key: str  # the workspace's name; becomes the hostname
    workspace: Path
    home: Path | None = None  # None (folder only): the user's own home
    uid: int = field(default_factory=os.getuid)  # who the workload is on this host; never 0
    limits: Limits = Limits()
    env: Mapping[str, str] = field(default_factory=dict)  # for every process of the Run
    phase: str = "agent"  # setup | agent
    image: str | None = None  # what the root is made of, where a driver needs one
    generation: int = 0  # of the tree: kept memory of another generation is never used


@dataclass(frozen=True)
class Address:
    """How a host process reaches the init of a Run; travels as JSON."""

    socket: str  # path of the init's unix socket
    oom_file: str | None = None  # a cgroup file whose `oom_kill N` line counts out-of-memory kills
    env: Mapping[str, str] = field(default_factory=dict)  # what every process of the Run has
    cwd: str = "/workspace"  # the tree as the workload sees it
    shell: str = "/bin/sh"  # what runs a command line, as the workload sees it
    memory_file: str | None = None  # there when the Run is gone: its programs are kept, and may go on in another Run


@dataclass(frozen=True)
class Owner:
    """Who runs a Run: written before anything is started, complete (with pid) before anything runs."""

    driver: str
    run_id: str
    workspace_id: str
    host: str
    boot_id: str
    uid: int
    address: Address
    tree: str  # host path of the tree
    pid: int | None = None  # None: written, not yet started
    start_time: int | None = None  # of that pid, in clock ticks since boot
    cgroups: tuple[str, ...] = ()
    limits: frozenset[str] = frozenset()  # those in force
    stopping: bool = False  # somebody asked for the end: no crash
    phase: str = "agent"
    image: str | None = None  # digest of the image it runs on, with its version where there is one
    began: str = ""  # the Run in which its programs began, when they went on from kept memory

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"limits": sorted(self.limits)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Owner":
        data = json.loads(text)
        data["address"] = Address(**data["address"])
        data["cgroups"] = tuple(data["cgroups"])
        data["limits"] = frozenset(data["limits"])
        return cls(**data)


@dataclass(frozen=True)
class Process:
    """A program in a Run. `pid` counts as the workload counts; `open` are paths as the workload sees them."""

    pid: int
    ppid: int
    session: int
    state: str  # one letter, as in ps
    argv: tuple[str, ...]
    cwd: str = ""
    open: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layer:
    """What a set-up installed outside /workspace, as an image of its own."""

    name: str  # a hash of all that it was made from
    digest: str = ""
    touched_workspace: bool = True  # the script also changes /workspace, so it has work in each workspace


Look = Callable[[str, BinaryIO], None]  # the path of a file, and its content


class Driver:
    """One kind of backend. `home` is HANDRAIL_HOME (durable), `runtime` a folder for sockets; both exist.

    `options` are what the installation's settings say for this driver (HANDRAIL_DRIVERS).
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    default_image: ClassVar[str] = ""  # what `find_image` is asked for where an environment names none

    def __init__(self, home: Path, runtime: Path, options: Mapping[str, str] | None = None):
        self.home = Path(home)
        self.runtime = Path(runtime)
        self.options = dict(options or {})

    async def probe(self) -> Probe:
        """Can it work on this host? Never raises, and never offers less isolation than it promises."""
        raise NotImplementedError

    async def prepare(self, spec: RunSpec) -> None:
        """Make the folders of `spec` usable by its uid. Only before a start: nothing of the workspace may run."""
        raise NotImplementedError

    async def start(self, spec: RunSpec) -> Owner:
        """Bring the Run up; when it returns, its init answers. The same run_id again returns the same Run."""
        raise NotImplementedError

    async def owners(self) -> Sequence[Owner]:
        """Every record on this host, dead or alive: what a new runner adopts or clears."""
        raise NotImplementedError

    async def alive(self, owner: Owner) -> bool:
        """False only when proven gone; DriverError when this host cannot tell."""
        raise NotImplementedError

    async def end_reason(self, owner: Owner) -> str:
        """Why a Run that is gone ended, in words: stopped, out of memory, the host restarted, …"""
        raise NotImplementedError

    async def freeze(self, owner: Owner) -> None:
        """Return when no program of the Run moves any more; programs that start are refused until `thaw`."""
        raise NotImplementedError

    async def thaw(self, owner: Owner) -> None:
        """Let programs go on. One that was stopped before the freeze stays stopped."""
        raise NotImplementedError

    async def frozen(self, owner: Owner) -> bool:
        raise NotImplementedError

    # Memory, where `capabilities.memory`: it belongs to one pause and to the tree as it was then.

    async def pause(self, owner: Owner, spec: RunSpec) -> None:
        """Keep the memory of all that runs, and end the Run; on an error it goes on as if nothing had been asked."""
        raise DriverError("A pause keeps no memory in this kind of workspace.")

    async def why_no_memory(self, spec: RunSpec) -> str:
        """Why `resume` would refuse, in words; "" when there is a memory that fits."""
        return "A pause keeps no memory in this kind of workspace."

    async def resume(self, spec: RunSpec) -> Owner:
        """Bring the Run up as it was paused, and use the memory up. After an error `start` boots it."""
        raise DriverError("A pause keeps no memory in this kind of workspace.")

    async def warm(self, spec: RunSpec) -> bool:
        """Make later starts like this one quick, if the driver can and has not yet; True when it did something now."""
        return False

    async def discard_memory(self, spec: RunSpec) -> bool:
        """Forget kept memory (a start does so by itself); False when there was none."""
        return False

    async def processes(self, owner: Owner, *, open_files: bool = False) -> Sequence[Process]:
        """What runs in it, without our init; with `open_files` also the files of the tree that each holds open."""
        raise NotImplementedError

    async def stop(self, owner: Owner, *, grace_s: float = 5.0) -> None:
        """End every program (asked, then killed) and the Run itself; the record stays, for `end_reason`."""
        raise NotImplementedError

    async def clear(self, owner: Owner) -> None:
        """Forget a Run that is gone: its record, socket and cgroups."""
        raise NotImplementedError

    async def listeners(self, owner: Owner) -> list[socket.socket] | None:
        """Where what programs reach at 127.0.0.1:3128 and at :80 comes out: a listening socket for each, made anew.

        None: nowhere by itself; they are made in the network namespace of `owner.pid`.
        """
        return None

    # Files

    def tree(self, owner: Owner, *, cache: Path | None = None):
        """The files of a Run, for the store and one by one (`opened`, `files`, `recover`); the store's LocalTree here.

        Where `capabilities.guest_files` they can be reached while the Run is up, and only then; its
        `files("home")` are those of the agent's home.
        """
        from ..store import LocalTree  # only here: host processes read this module and must start quickly

        return LocalTree(owner.tree, cache=cache)

    async def quiet(self, owner: Owner, *, grace_s: float = 5.0) -> None:
        """End every program for good, and keep the Run up for its files. Only where `capabilities.guest_files`."""
        raise DriverError("This kind of workspace is stopped, not made quiet.")

    # Only where `capabilities.images`

    async def find_image(self, reference: str) -> str:
        """The digest of an image that is here: what `RunSpec.image` takes. Nothing is ever fetched for it."""
        raise DriverError("This kind of workspace has no image.")

    async def build_image(self, context: Path, name: str) -> str:
        """Build the Dockerfile of a folder without network; the digest of what came out, kept under `name`."""
        raise DriverError("Images for this kind of workspace cannot be built from a folder.")

    async def collect(self, in_use: Set[str], *, older_than_s: float) -> list[str]:
        """Remove old layers and built images of ours whose name and digest are not `in_use`; what was removed."""
        return []

    async def find_layer(self, name: str) -> Layer | None:
        """What `keep_layer` has kept under this name, if it is still here."""
        raise DriverError("This kind of workspace has no set-up layer.")

    async def keep_layer(self, owner: Owner, layer: Layer, *, look: Look | None = None) -> Layer:
        """Keep the root of a set-up Run that was stopped; `look` is shown each file of it and may raise DriverError.

        Where `capabilities.guest_files` the Run is quiet instead, for its files, and is stopped here.
        """
        raise DriverError("This kind of workspace has no set-up layer.")


def get_driver(name: str, home: Path, runtime: Path, options: Mapping[str, str] | None = None) -> Driver:
    """The driver of a built-in name (`sandbox`) or a dotted path (`package.module.Class`)."""
    return get_driver_class(name)(home, runtime, options)


def get_driver_class(name: str) -> type[Driver]:
    module, _, attribute = BUILT_IN.get(name, name).rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise DriverError(f"There is no driver named {name!r}.") from error


def this_host() -> str:
    return socket.gethostname()


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid: int) -> int | None:
    """Clock ticks after boot at which `pid` started: with the pid it names one process for good. None: no such pid."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    # A zombie is as gone as it gets: it only waits for its parent.
    return None if fields[0] in (b"Z", b"X") else int(fields[19])
