"""Real Runs for tests: folders, a user, and verbs that block."""

import asyncio
import atexit
import functools
import itertools
import os
import shutil
import tempfile
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.waiting import until
from workspaces.drivers.base import ImageMissing, Limits, RunRecord, RunSpec, get_driver, get_driver_class
from workspaces.drivers.capabilities import Capabilities
from workspaces.drivers.docker import bundle
from workspaces.drivers.init_client import InitClient
from workspaces.store.guest.scan import listings

NOBODY, GUEST_UID = 65534, 1000
POD_NAMESPACE = "HANDRAIL_TEST_POD_NAMESPACE"  # set by `begin`, for the processes that a test starts
# What drivers are told on this host; the engine of the tests is a private one.
OPTIONS = {
    "docker": {"address": os.environ.get("HANDRAIL_TEST_DOCKER_HOST") or os.environ.get("DOCKER_HOST", "")},
    "microvm": {"images": os.environ.get("HANDRAIL_TEST_MICROVM_IMAGES", "")},
    "kubernetes": {"at": os.environ.get(POD_NAMESPACE, "")},
}
# Drivers that tests know under one more name, with the options above and these: {name: (driver, options)}.
VARIANTS = {
    "gvisor": ("docker", {"runtime": "runsc"}),
    "gvisor_pod": ("kubernetes", {}),
    "pod_of_host_users": ("kubernetes", {}),  # on nodes that have no user namespaces for pods
}
for variant, (driver, options) in VARIANTS.items():
    OPTIONS[variant] = OPTIONS[driver] | options
RUNTIME_CLASSES = {"gvisor_pod": "gvisor"}  # of the Runs of a variant; the others have the default
SAME_CANARIES = {"gvisor_pod": "kubernetes"}  # one probe sends canaries of all runtime classes
IMAGES = {"docker": os.environ.get("HANDRAIL_TEST_DOCKER_IMAGE", "handrail/test:bookworm")}
IMAGES["gvisor"] = IMAGES["docker"]
NO_LIMITS = Limits()
numbers = itertools.count(1)


def driver_name_of(name: str) -> str:
    return VARIANTS[name][0] if name in VARIANTS else name


def capabilities_of(name: str) -> Capabilities:
    """What tests may expect: programs in gVisor are no processes of this host, as those of a pod are not."""
    found = get_driver_class(driver_name_of(name)).capabilities
    return replace(found, elsewhere=True) if name == "gvisor" else found


def image_of(name: str) -> str:
    return IMAGES.get(name) or get_driver_class(driver_name_of(name)).default_image


class Running:
    """One Run of one driver, and what a test does to it."""

    def __init__(self, name: str, ground: Path, *, limits: Limits = NO_LIMITS, env=None, image=None, **fields):
        self.name = name
        self.ground = ground
        self.tree = ground / f"tree-{next(numbers)}"
        self.home = ground / f"home-{next(numbers)}"
        for folder in (self.tree, self.home):
            folder.mkdir(mode=0o755)
        self.driver = driver_of(name, ground)
        self.spec = RunSpec(
            run_id=f"run-{os.getpid()}-{next(numbers)}",
            workspace_id="1",
            key="payments fix",
            workspace=self.tree,
            home=None if name == "folder" else self.home,
            limits=limits,
            env=env or {},
            image=self.do.find_image(image or image_of(name)) if self.driver.capabilities.images else None,
            **{"uid": workload_uid(name), "runtime_class": RUNTIME_CLASSES.get(name, "")} | fields,
        )
        if name == "folder":
            os.chown(self.tree, self.spec.uid, -1)
        self.do.prepare(self.spec)
        self.do.warm(self.spec)
        self.owner: RunRecord = self.do.start(self.spec)
        self.file_uid = self.spec.uid  # whose the files of the tree are, for who looks at them
        if self.driver.capabilities.files_need_run:
            self.tree, self.file_uid = GuestPath(self), GUEST_UID if os.getuid() == 0 else os.getuid()

    @property
    def do(self):
        """The driver with verbs that block."""
        return Blocking(self.driver)

    def again(self):
        """The driver as a new runner process has it: nothing in memory."""
        return Blocking(driver_of(self.name, self.ground))

    def sh(self, command: str, *, env=None) -> tuple[str, int]:
        """Run a shell command; its output and status (minus a signal)."""
        with InitClient(self.owner.address.socket) as init:
            return finish(init, self.begin(init, command, env=env))

    def begin(self, init: InitClient, command: str, *, stdio="pipe", env=None, **fields):
        environment = dict(self.owner.address.env) | (env or {})
        argv = ["/bin/sh", "-c", command]
        return init.start(argv, env=environment, cwd=self.owner.address.cwd, stdio=stdio, **fields)

    def leave(self, command: str) -> int:
        """Start a program that stays when we are gone; its pid inside."""
        with InitClient(self.owner.address.socket) as init:
            started = self.begin(init, command, keep=True)
            os.close(started.fd)
            return started.pid

    @contextmanager
    def again_up(self):
        """One more Run of the same folders, now that this one has ended."""
        reader = copy(self)
        reader.spec = replace(self.spec, run_id=f"{self.spec.run_id}-again")
        reader.owner = self.do.start(reader.spec)
        yield reader
        reader.end()

    def names(self) -> list[bytes]:
        """What lies in the tree."""
        return self.tree.names() if isinstance(self.tree, GuestPath) else sorted(os.listdir(os.fsencode(self.tree)))

    def commands(self) -> list[str]:
        return [" ".join(process.argv) for process in self.do.processes(self.owner)]

    def end(self) -> None:
        for owner in self.do.records():
            if owner.run_id == self.spec.run_id:
                self.do.stop(owner, grace_s=0.0)
                self.do.clear(owner)


class GuestPath:
    """What tests ask of a tree that lies on a guest's disk; asked of its server, which no freeze stops."""

    def __init__(self, run: Running, name: str = ""):
        self.run, self.name = run, name

    def __truediv__(self, name: str) -> "GuestPath":
        return GuestPath(self.run, name)

    def listed(self) -> dict[bytes, os.stat_result]:
        with self.run.driver.tree(self.run.owner).opened() as live, live.talk({"do": "list"}) as answers:
            found = [listing for _said, data in answers for path, listing in listings(data) if path == b""]
        return {os.fsencode(entry.name): entry.found for entry in found[0].entries()}

    def stat(self):
        return self.listed()[self.name.encode()]

    def exists(self) -> bool:
        return self.name.encode() in self.listed()

    def read_text(self) -> str:
        if self.run.do.alive(self.run.owner):
            return self.run.sh(f"cat {self.name}")[0]
        with self.run.again_up() as reader:
            return reader.sh(f"cat {self.name}")[0]

    def names(self) -> list[bytes]:
        return sorted(self.listed())


@functools.cache
def _canaries(name: str) -> Path:
    """A folder for what canaries found for a driver of pods, taken away with this process."""
    folder = Path(tempfile.mkdtemp(prefix="canaries-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@functools.cache
def why_not(name: str, with_image: bool) -> str:
    """Why this host cannot run the driver's tests, asked once; "" when it can."""
    if (why := _why_not_at_all(SAME_CANARIES.get(name, name))) or not (with_image and name in IMAGES):
        return why
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        try:
            Blocking(driver_at(name, Path(folder), Path(folder))).find_image(IMAGES[name])
        except ImageMissing as missing:
            return str(missing)
    return ""


@functools.cache
def _why_not_at_all(name: str) -> str:
    """Why the driver does not work here; of a cluster its canaries say so, which are sent once."""
    with tempfile.TemporaryDirectory(prefix="probe-") as folder:
        if name == "gvisor":
            lend_bundle(Path(folder))
        driver = driver_at(name, Path(folder), Path(folder))
        if name == "pod_of_host_users":
            driver.prober.attempts = driver.prober.attempts[-1:]
        probe = Blocking(driver).probe()
        if driver_name_of(name) == "kubernetes" and probe.available:
            shutil.copytree(Path(folder, "kubernetes"), _canaries(name), dirs_exist_ok=True)
    return "" if probe.available else f"{probe.reason} {probe.what_to_do}"


@functools.cache
def _bundle() -> tuple[tempfile.TemporaryDirectory, Path]:
    folder = tempfile.TemporaryDirectory(prefix="bundle-")
    os.chmod(folder.name, 0o755)
    return folder, bundle.find_or_make(Path(folder.name))


def lend_bundle(home: Path) -> None:
    """Give a test's home the bundle that is the same for all, so that it is not made for each."""
    _folder, place = _bundle()
    (home / "docker").mkdir(mode=0o700, exist_ok=True)
    if not (home / "docker" / place.name).exists():
        (home / "docker" / place.name).symlink_to(place)


def lend_canaries(home: Path, name: str = "kubernetes") -> None:
    """Give a test's home what the canaries found, which is the same for all, so that they are not sent for each."""
    folder = home / "kubernetes"
    if not folder.exists():
        shutil.copytree(_canaries(SAME_CANARIES.get(name, name)), folder)


class Blocking:
    def __init__(self, driver):
        self.driver = driver

    def __getattr__(self, verb):
        return lambda *args, **fields: asyncio.run(getattr(self.driver, verb)(*args, **fields))


def finish(init: InitClient, started) -> tuple[str, int]:
    """Read a program's output to its end and wait for it."""
    output = b""
    try:
        while chunk := os.read(started.fd, 1 << 16):
            output += chunk
    except OSError:
        pass  # a pty ends with EIO
    os.close(started.fd)
    until(lambda: (init.read_exits(), any(pid == started.pid for pid, _ in init.exits))[1])
    return output.decode(), next(status for pid, status in init.exits if pid == started.pid)


def workload_uid(name: str) -> int:
    if os.getuid() != 0:
        return os.getuid()
    return NOBODY if name == "folder" else 200_000 + next(numbers)


def driver_of(name: str, ground: Path):
    return driver_at(name, ground / "handrail", ground / "run")


def driver_at(name: str, home: Path, runtime: Path):
    return get_driver(driver_name_of(name), home, runtime, OPTIONS.get(name))


@pytest.fixture
def ground():
    """A folder that other users can reach, as a folder workspace of theirs must be; HANDRAIL_HOME in it is 0700."""
    path = Path(tempfile.mkdtemp(prefix="runs-"))
    path.chmod(0o755)
    (path / "handrail").mkdir(mode=0o700)
    (path / "run").mkdir(mode=0o700)
    yield path
    shutil.rmtree(path, ignore_errors=True)  # a host that has just ended still takes its socket away


@pytest.fixture
def begin(ground, require, request):
    """`begin("sandbox")`: a Run that is up, ended after the test."""
    made = []

    def start(name: str, **fields) -> Running:
        in_pods = driver_name_of(name) == "kubernetes"
        if in_pods:
            os.environ[POD_NAMESPACE] = request.getfixturevalue("pod_namespace")
            for each in ("kubernetes", name):
                OPTIONS[each]["at"] = os.environ[POD_NAMESPACE]
        if why := why_not(name, "image" not in fields):
            require("kubernetes" if in_pods else name, why)
        if driver_name_of(name) == "docker":
            lend_bundle(ground / "handrail")
        if in_pods:
            lend_canaries(ground / "handrail", name)
        made.append(Running(name, ground, **fields))
        return made[-1]

    yield start
    for running in made:
        running.end()


@pytest.fixture
def limited(begin, require):
    """`limited("memory", Limits(memory=…))`: a sandbox under a limit that this host can enforce."""

    def start(limit: str, limits: Limits) -> Running:
        running = begin("sandbox", limits=limits)
        if limit not in running.owner.limits:
            require("cgroups", f"no control group for {limit} can be written here")
        return running

    return start
