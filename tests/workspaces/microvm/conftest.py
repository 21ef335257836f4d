"""Real guests under QEMU. They start from a warm template that the session makes once, as in production."""

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.workspaces.drivers.runs import Blocking, finish
from workspaces.drivers.base import Limits, RunSpec
from workspaces.drivers.init_client import InitClient
from workspaces.drivers.microvm import disks
from workspaces.drivers.microvm.driver import MicroVMDriver

IMAGES = os.environ.get("HANDRAIL_TEST_MICROVM_IMAGES", "")
SMALL = Limits(memory=384 << 20, disk=1 << 30)


class Guest:
    """One workspace on one host, with the verbs of its driver that block."""

    def __init__(self, ground: Path, number: int, limits: Limits = SMALL, images: str = IMAGES):
        self.ground, self.number, self.runs = ground, number, 0
        self.driver = MicroVMDriver(ground / "handrail", ground / "run", {"images": images})
        self.do = Blocking(self.driver)
        self.owner = None
        uid = 200_100 + number if os.getuid() == 0 else os.getuid()
        folders = [ground / f"{name}-{number}" for name in ("tree", "home")]
        for folder in folders:
            folder.mkdir()
        self.spec = RunSpec("", f"workspace-{number}", "payments fix", *folders, uid=uid, limits=limits)

    @property
    def disk(self) -> Path:
        return disks.disk_of(self.spec.workspace)

    @property
    def memory(self) -> Path:
        return disks.memory_of(self.spec.workspace)

    def next_spec(self, **changes) -> RunSpec:
        self.runs += 1
        self.spec = replace(self.spec, run_id=f"vm-{os.getpid()}-{self.number}-{self.runs}", **changes)
        return self.spec

    def start(self, **changes):
        spec = self.next_spec(**changes)
        self.do.prepare(spec)
        self.owner = self.do.start(spec)
        return self

    def pause(self):
        self.do.pause(self.owner, self.spec)
        self.do.clear(self.owner)

    def resume(self):
        self.owner = self.do.resume(self.next_spec())

    def sh(self, command: str) -> str:
        """The output of a command that must succeed."""
        with InitClient(self.owner.address.socket, timeout_s=60) as init:
            env, cwd = dict(self.owner.address.env), self.owner.address.cwd
            output, status = finish(init, init.start(["/bin/sh", "-c", command], env=env, cwd=cwd, stdio="pipe"))
        assert status == 0, output
        return output

    def leave(self, command: str):
        with InitClient(self.owner.address.socket, timeout_s=60) as init:
            env, cwd = dict(self.owner.address.env), self.owner.address.cwd
            os.close(init.start(["/bin/sh", "-c", command], env=env, cwd=cwd, stdio="pipe", keep=True).fd)

    def tree(self):
        return self.driver.tree(self.owner, cache=self.ground / f"cache-{self.number}")

    def stop(self):
        self.do.stop(self.owner, grace_s=0.0)
        self.do.clear(self.owner)

    def check_disk(self):
        """The file systems of the disks, which nothing uses now, are in order."""
        for folder in (self.spec.workspace, self.spec.home):
            e2fsck("-n", disks.disk_of(folder))

    def check_disk_as_it_lies(self):
        """The same after a pause or a crash: in order once its journal was replayed. The disk is left as it is."""
        for folder in (self.spec.workspace, self.spec.home):
            with tempfile.TemporaryDirectory(dir=self.ground) as place:
                copy = Path(place, "disk")
                subprocess.run(["cp", "--sparse=always", disks.disk_of(folder), copy], check=True)
                e2fsck("-p", copy, also=1)  # it says 1 when there was something to replay
                e2fsck("-n", copy)

    def adopt(self):
        """As a runner that starts now has it: nothing in memory."""
        self.driver = MicroVMDriver(self.driver.home, self.driver.runtime, self.driver.options)
        self.do = Blocking(self.driver)

    def end(self):
        for owner in self.do.records():
            self.do.stop(owner, grace_s=0.0)
            self.do.clear(owner)


def e2fsck(how: str, disk: Path, also: int = 0) -> None:
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    done = subprocess.run(["e2fsck", "-f", how, disk], capture_output=True, text=True, env={"PATH": path})
    assert done.returncode in (0, also), done.stdout + done.stderr


@pytest.fixture(scope="session")
def host(require):
    """Folders of a host whose guests start from a template; its path."""
    ground = Path(tempfile.mkdtemp(prefix="guests-"))
    ground.chmod(0o755)
    for name in ("handrail", "run"):
        (ground / name).mkdir(mode=0o700)
    probe = asyncio.run(MicroVMDriver(ground / "handrail", ground / "run", {"images": IMAGES}).probe())
    if not probe.available:
        shutil.rmtree(ground)
        require("microvm", f"{probe.reason} {probe.what_to_do}")
    yield ground
    shutil.rmtree(ground, ignore_errors=True)


@contextmanager
def made_on(host):
    made = []

    def make(limits: Limits = SMALL, images: str = IMAGES) -> Guest:
        number = time.monotonic_ns() % 1_000_000 * 100 + len(made)
        guest = Guest(host, number, limits, images)
        made.append(guest)
        return guest

    yield make
    for guest in made:
        guest.end()


def warmed(guest: Guest) -> Guest:
    guest.do.prepare(guest.spec)
    guest.do.warm(guest.spec)
    return guest.start()


@pytest.fixture
def guests(host):
    """`guests()`: one more workspace, not started; ended after the test."""
    with made_on(host) as make:
        yield make


@pytest.fixture
def guest(guests) -> Guest:
    """One that is up."""
    return warmed(guests())


@pytest.fixture(scope="module")
def guest_of_module(host) -> Guest:
    with made_on(host) as make:
        yield warmed(make())


@pytest.fixture
def standing(guest_of_module) -> Guest:
    """One for all tests of a module which mind nothing that others left in it; up again if one left it dead."""
    if not guest_of_module.do.alive(guest_of_module.owner):
        guest_of_module.do.clear(guest_of_module.owner)
        guest_of_module.start()
    return guest_of_module
