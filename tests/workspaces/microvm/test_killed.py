"""kill -9 of QEMU and of the runner at each step of a pause and of a resume.

HANDRAIL_TEST_ROUNDS steps of each, taken by chance; all of them from 10 on. Whatever dies: the disk is sound, what was
written is there, and programs go on wherever their memory is whole.
"""

import json
import os
import pickle
import random
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.support import CHECKOUT
from tests.support.waiting import until
from tests.workspaces.microvm.steps import PAUSE, RESUME, at
from tests.workspaces.microvm.test_guest import children
from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import InitClient

ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "2"))


def chosen(steps):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    return sorted(random.Random(seed).sample(steps, min(len(steps), ROUNDS)), key=steps.index)


class Counting:
    """A guest in which a counter goes up as long as its programs have their memory."""

    def __init__(self, guest):
        self.guest = guest
        self.begin()

    def begin(self):
        self.guest.sh("echo kept > file; sync")
        loop = "n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; sleep 0.3; done"
        self.guest.leave(loop)
        self.before = until(lambda: self.guest.sh("cat /tmp/count 2>/dev/null || echo 0").strip() != "0") and 0

    def count(self) -> int:
        return int(self.guest.sh("cat /tmp/count"))

    def goes_on(self):
        now = self.count()
        assert now >= self.before
        self.before = until(lambda: (found := self.count()) > now and found)

    def comes_back(self):
        """After its Run has ended: from its memory if that is there and fits, else it boots."""
        guest = self.guest
        guest.check_disk_as_it_lies()
        why = guest.do.why_no_memory(guest.spec)
        if why:
            assert guest.memory.exists() is False, why
            guest.start()
            assert guest.sh("cat file") == "kept\n"
            self.begin()
        else:
            guest.resume()
            self.goes_on()
        assert guest.memory.exists() is False
        return why


@pytest.fixture(scope="module")
def counting(guest_of_module):
    return Counting(guest_of_module)


# The runner

RUNNER = """
import asyncio, os, pickle, signal, sys
from tests.workspaces.microvm.steps import at
from workspaces.drivers.microvm.driver import MicroVMDriver
step, verb, host, arguments = pickle.load(sys.stdin.buffer)
driver = MicroVMDriver(*host)
with at(step, lambda: os.kill(os.getpid(), signal.SIGKILL)):
    asyncio.run(getattr(driver, verb)(*arguments))
"""


def runner_dies(guest, step, verb, *arguments):
    host = (guest.driver.home, guest.driver.runtime, guest.driver.options)
    asked = pickle.dumps((step, verb, host, arguments))
    done = subprocess.run([sys.executable, "-c", RUNNER], input=asked, capture_output=True, cwd=CHECKOUT)
    assert done.returncode == -signal.SIGKILL, (step, done.stderr.decode()[-2000:])
    guest.adopt()


def test_a_runner_killed_at_any_step_of_a_pause_leaves_a_guest_or_its_memory(counting):
    guest = counting.guest
    for step in chosen(PAUSE):
        print(step)
        counting.goes_on()
        runner_dies(guest, step, "pause", guest.owner, replace(guest.spec, env={}))
        if guest.do.alive(guest.owner):
            assert [path.name for path in guest.memory.parent.iterdir() if path.name.startswith("memory")] == []
            counting.goes_on()
            continue
        assert step == PAUSE[-1]
        guest.do.clear(guest.owner)
        assert counting.comes_back() == ""


def test_a_runner_killed_at_any_step_of_a_resume_costs_no_memory(counting):
    guest = counting.guest
    for step in chosen(RESUME):
        print(step)
        counting.goes_on()
        guest.pause()
        spec = guest.next_spec(env={})
        runner_dies(guest, step, "resume", spec)
        [owner] = guest.do.records()
        if guest.do.alive(owner):
            assert step in RESUME[RESUME.index("_disks_will_change: for folder in") :]
            guest.owner = owner
            with InitClient(owner.address.socket, timeout_s=60):
                counting.goes_on()
            assert guest.memory.exists() is False
            continue
        guest.do.clear(owner)
        assert counting.comes_back() == ""


# QEMU


def qemu_dies(guest):
    bridge = json.loads((guest.driver.home / "runs" / guest.spec.run_id / "record.json").read_text())["pid"]
    [qemu] = until(lambda: children(bridge))  # the memory is read while it comes up
    os.kill(qemu, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{qemu}"))


def test_qemu_killed_at_any_step_of_a_pause_costs_at_most_its_memory(counting):
    guest = counting.guest
    for step in chosen(PAUSE[:-1]):
        print(step)
        counting.goes_on()
        with at(step, lambda: qemu_dies(guest)), pytest.raises(DriverError):
            guest.do.pause(guest.owner, guest.spec)
        until(lambda: not guest.do.alive(guest.owner))
        guest.do.clear(guest.owner)
        kept = PAUSE.index(step) > PAUSE.index("_keep_it: memory.commit(target.path)")
        assert guest.memory.exists() or not kept
        counting.comes_back()


def test_qemu_killed_at_any_step_of_a_resume_costs_at_most_its_memory(counting):
    guest = counting.guest
    for step in chosen(RESUME[2:]):
        print(step)
        counting.goes_on()
        guest.pause()
        with at(step, lambda: qemu_dies(guest)):
            try:
                guest.resume()
            except DriverError:
                assert guest.do.records() == []
            else:  # it was up already
                assert step == RESUME[-1]
                until(lambda: not guest.do.alive(guest.owner))
                guest.do.clear(guest.owner)
        used_up = RESUME.index(step) >= RESUME.index("fill: await asyncio.to_thread(self._disks_will_change, spec)")
        assert guest.memory.exists() is not used_up
        assert bool(counting.comes_back()) is used_up
