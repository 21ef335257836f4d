"""A program in a pod whose host is lost: the shim of the next host records all of it, and has its end."""

import asyncio
import json
import os
import re
import signal
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.waiting import until
from tests.workspaces.shim.a_pod import Pod
from workspaces.drivers.init_client import InitClient
from workspaces.shim import client
from workspaces.shim.pool import REDACTION
from workspaces.shim.record import Handed, ShimSpec
from workspaces.shim.recording import Gap, Resized

COUNT = "n=0; while [ $n -lt 40 ]; do n=$((n+1)); echo line $n; [ -e go ] || sleep 0.02; done; exit 7"
WAIT = "while [ ! -e go ]; do sleep 0.02; done"
ALL = "".join(f"line {n}\n" for n in range(1, 41)).encode()
NO_SECRETS = Handed()
SECRET = Handed(hidden=(("TOKEN", "swordfish-of-the-sea"),), packages=REDACTION)


@pytest.fixture
def pod(tmp_path):
    """`pod(cap=…)`: one that keeps so many bytes of each program."""
    made = []

    def make(cap=1 << 20) -> Pod:
        made.append(Pod(tmp_path, cap))
        return made[-1]

    yield make
    for one in made:
        one.end()


class Shims:
    """The shims that hosts have for one program."""

    def __init__(self, pod, command: str, *, handed=NO_SECRETS, **fields):
        self.pod, self.handed = pod, handed
        spec = ShimSpec.shell(command, pod.led(), kept_as="the program", **fields)
        self.first = self.newest = pod.ground / "shim-1"
        asyncio.run(client.start(self.first, spec, handed))
        self.spec = replace(spec, began_at=datetime.now(UTC).isoformat())

    def go_on(self, **fields):
        """Lose the host, and adopt the program on another; return how it is with it there."""
        self.pod.lose_host()
        self.newest = self.pod.ground / f"shim-{self.pod.hosts + 1}"
        spec = replace(self.spec, address=self.pod.led(), **fields)
        return asyncio.run(client.start(self.newest, spec, self.handed))

    def printed(self, folder=None) -> bytes:
        return b"".join(part.data for part in collect(folder or self.newest) if not isinstance(part, (Gap, Resized)))

    def ended(self):
        return asyncio.run(client.wait(self.newest, 20)).exit

    def go(self):
        (self.pod.ground / "go").touch()


def collect(folder, **how):
    async def parts():
        return [part async for part in client.attach(folder, follow=False, **how)]

    return asyncio.run(parts())


def test_a_command_goes_on_and_its_recording_is_whole(pod):
    shims = Shims(pod(), COUNT)
    until(lambda: shims.printed().count(b"\n") > 3)
    found = shims.go_on()
    assert found.state == "running"
    assert asyncio.run(client.wait(shims.first, 5)).exit.reason == "lost"
    shims.go()
    end = shims.ended()
    assert (end.reason, end.exit_status, end.output_bytes, end.truncated) == ("exited", 7, len(ALL), False)
    assert shims.printed() == ALL


def test_it_goes_on_a_second_time(pod):
    shims = Shims(pod(), COUNT)
    until(lambda: shims.printed().count(b"\n") > 1)
    shims.go_on()
    shims.go_on()
    shims.go()
    assert (shims.ended().exit_status, shims.printed()) == (7, ALL)


def test_what_ended_while_nobody_led_it_is_there_with_its_end(pod):
    here = pod()
    shims = Shims(here, f"{WAIT}; echo done; exit 3")
    here.lose_host()
    shims.go()
    until(lambda: not _children(here))
    shims.go_on()
    end = shims.ended()
    assert (end.reason, end.exit_status, shims.printed()) == ("exited", 3, b"done\n")


def _children(pod) -> str:
    with open(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children") as file:
        return file.read().strip()


def test_a_program_that_prints_much_waits_for_the_next_host_and_loses_nothing(pod):
    shims = Shims(pod(cap=8 << 20), f"seq 1 300000; {WAIT}; echo end")
    until(lambda: len(shims.printed()) > 1 << 17)
    shims.go_on()
    shims.go()
    assert shims.ended().reason == "exited"
    assert shims.printed() == "".join(f"{n}\n" for n in range(1, 300001)).encode() + b"end\n"


def test_beyond_the_cap_the_recording_says_how_much_is_missing_at_its_beginning(pod):
    shims = Shims(pod(cap=10_000), f"seq 1 10000; {WAIT}; echo end")
    until(lambda: shims.printed().endswith(b"\n10000\n"))
    whole = shims.printed()
    shims.go_on()
    shims.go()
    end = shims.ended()
    first, *rest = collect(shims.newest)
    assert first == Gap(0, len(whole) - 10_000)
    assert b"".join(part.data for part in rest) == whole[-10_000:] + b"end\n"
    assert (end.truncated, end.output_bytes) == (True, len(whole) + 4)


def test_values_are_masked_in_all_of_it(pod):
    shims = Shims(pod(), f"echo a swordfish-of-the-sea; {WAIT}; echo a swordfish-of-the-sea again", handed=SECRET)
    until(lambda: shims.printed() == b"a [secret TOKEN]\n")
    shims.go_on()
    shims.go()
    assert shims.ended().reason == "exited"
    assert shims.printed() == b"a [secret TOKEN]\na [secret TOKEN] again\n"


@pytest.mark.parametrize("cap", range(90, 110, 3))
def test_a_value_whose_beginning_is_not_kept_is_not_shown_in_part(pod, cap):
    text = "swordfish-of-the-sea " + "x" * 80 + " swordfish-of-the-sea end"
    shims = Shims(pod(cap=cap), f"printf '%s' '{text}'; {WAIT}", handed=SECRET)
    until(lambda: shims.printed().endswith(b"end"))
    shims.go_on()
    shims.go()
    shims.ended()
    found = shims.printed()
    assert re.fullmatch(rb"x* ?(\[secret TOKEN\])? ?end", found), found


def test_a_terminal_goes_on_with_its_sizes_and_takes_what_is_typed(pod):
    shims = Shims(pod(), "stty -echo; echo one; read a; stty size; read b; echo got $b", pty=True, cols=100, rows=30)
    until(lambda: shims.printed() == b"one\r\n")
    asyncio.run(client.resize(shims.first, 120, 40))
    until(lambda: collect(shims.first, sizes=True)[-1] == Resized(5, 120, 40))
    asyncio.run(client.send_input(shims.first, b"1\r"))
    until(lambda: shims.printed() == b"one\r\n40 120\r\n")
    shims.go_on()
    parts = collect(shims.newest, sizes=True)
    assert [part for part in parts if isinstance(part, Resized)] == [Resized(0, 100, 30), Resized(5, 120, 40)]
    asyncio.run(client.send_input(shims.newest, b"2\r"))
    assert shims.ended().exit_status == 0
    assert shims.printed() == b"one\r\n40 120\r\ngot 2\r\n"


def test_nothing_that_was_typed_before_is_typed_again_nor_is_a_reply(pod):
    shims = Shims(pod(), "stty -echo; echo ready; while read a; do echo got $a; done", pty=True)
    until(lambda: shims.printed() == b"ready\r\n")

    async def type_at(folder, data, at):
        typist = client.Typist(folder)
        joined = await typist.join("page")
        arrived = await typist.type(data, joined["typed"] if at is None else at)
        typist.close()
        return joined, arrived

    assert asyncio.run(type_at(shims.first, b"1\r", 0))[1] == 2
    until(lambda: shims.printed().endswith(b"got 1\r\n"))
    shims.go_on()
    joined, arrived = asyncio.run(type_at(shims.newest, b"2\r", None))
    assert joined["typed"] > 1 << 30
    assert joined["live_from"] == len(b"ready\r\ngot 1\r\n")
    assert arrived == joined["typed"] + 2
    asyncio.run(type_at(shims.newest, b"1\r", 0))
    until(lambda: shims.printed().endswith(b"got 2\r\n"))
    assert shims.printed() == b"ready\r\ngot 1\r\ngot 2\r\n"


def test_its_time_limit_counts_from_its_beginning(pod):
    shims = Shims(pod(), "echo on; sleep 600", timeout_s=600)
    until(lambda: shims.printed() == b"on\n")
    shims.go_on(began_at=(datetime.now(UTC) - timedelta(seconds=601)).isoformat())
    end = shims.ended()
    assert (end.reason, end.signal) == ("timeout", signal.SIGTERM)
    assert end.seconds > 600


def test_a_program_that_is_not_kept_or_was_ended_is_not_adopted(pod):
    here = pod()
    shims = Shims(here, "sleep 600")
    found = shims.go_on(kept_as="another")
    assert found.exit.reason == "lost"
    assert (shims.printed(), found.exit.truncated) == (b"", False)
    here.abandon(replace(shims.spec.address, socket=str(here.ground / "host-2"), lead=("workspace", 2)))
    until(lambda: not _children(here))
    assert shims.go_on().exit.reason == "lost"


def test_one_that_was_adopted_is_not_ended_with_the_others(pod):
    here = pod()
    shims = Shims(here, COUNT)
    shims.go_on()
    here.abandon(replace(shims.spec.address, socket=str(here.ground / "host-2"), lead=("workspace", 2)))
    shims.go()
    assert (shims.ended().exit_status, shims.printed()) == (7, ALL)


def test_a_shim_that_ends_leaves_nothing_to_adopt(pod):
    shims = Shims(pod(), "echo done")
    found = asyncio.run(client.wait(shims.first, 10))
    assert found.exit.reason == "exited"
    until(lambda: not os.path.exists(f"/proc/{json.loads((shims.first / 'shim.json').read_text())['pid']}"))
    with InitClient(shims.spec.address.socket) as init:
        init.request("processes")  # the pod has heard by now that the shim is gone
    end = shims.go_on().exit
    assert (end.reason, end.output_bytes) == ("lost", 0)
