"""A terminal: typing, resizing, watching again, and its recording."""

import asyncio
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.support.waiting import until
from workspaces.drivers.base import DriverError
from workspaces.shim import client
from workspaces.shim.record import ShimSpec, read_spec, read_status, write_spec
from workspaces.shim.recording import Gap, asciicast


@pytest.fixture(params=("sandbox", "folder"))
def run(request, begin):
    return begin(request.param)


def test_what_is_typed_arrives_and_is_echoed(run):
    folder = open_terminal(run, "read line; echo got $line")
    type_into(folder, b"hello\r")
    found = asyncio.run(client.wait(folder, 10))
    assert printed(folder) == b"hello\r\ngot hello\r\n"
    assert (found.state, found.exit.reason, found.exit.exit_status) == ("exited", "exited", 0)


def test_a_terminal_has_the_requested_size_and_can_be_resized(run):
    folder = open_terminal(
        run, "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done", cols=100, rows=30
    )
    until(lambda: printed(folder, follow=False) == b"30 100\r\n")
    asyncio.run(client.resize(folder, 120, 40))
    asyncio.run(client.wait(folder, 10))
    assert printed(folder) == b"30 100\r\n40 120\r\n"


def test_a_shim_whose_folder_was_deleted_ends_with_its_program(begin):
    folder = open_terminal(begin("sandbox"), "sleep 1")
    shim = json.loads((folder / "shim.json").read_text())["pid"]
    shutil.rmtree(folder)
    until(lambda: not Path(f"/proc/{shim}").exists())


@pytest.mark.parametrize("size", [(0, 24), (80, 0), (1001, 24), (80, -1)])
def test_an_invalid_size_is_refused(begin, size):
    folder = open_terminal(begin("sandbox"), "read line")
    with pytest.raises(DriverError, match="1 to 1000 columns and rows"):
        asyncio.run(client.resize(folder, *size))
    assert read_status(folder).state == "running"


def test_a_command_takes_no_input(begin):
    run = begin("sandbox")
    folder = run.ground / "handrail" / "command"
    asyncio.run(client.start(folder, ShimSpec.shell("sleep 5", run.owner.address)))
    with pytest.raises(DriverError, match="takes no input"):
        type_into(folder, b"x")


def test_control_c_reaches_what_runs_in_the_foreground(run):
    folder = open_terminal(run, "sleep 79; echo never")
    until(lambda: any("sleep 79" in command for command in run.commands()))
    type_into(folder, b"\x03")
    found = asyncio.run(client.wait(folder, 10))
    assert found.exit.signal == signal.SIGINT or found.exit.exit_status == 130
    assert printed(folder) == b"^C"


def test_a_long_paste_into_a_program_that_is_slow_arrives_whole(begin):
    run = begin("sandbox")
    folder = open_terminal(run, "stty raw -echo; echo ready; sleep 0.5; head -c 200000 | sha256sum; echo end")
    until(lambda: b"ready" in printed(folder, follow=False))
    paste = os.urandom(100_000).hex().encode()
    for start in range(0, len(paste), 50_000):
        type_into(folder, paste[start : start + 50_000])
    asyncio.run(client.wait(folder, 20))
    assert hashlib.sha256(paste).hexdigest().encode() in printed(folder)


def test_a_program_that_never_reads_is_not_fed_for_ever(begin):
    folder = open_terminal(begin("sandbox"), "stty raw -echo; echo ready; sleep 60")
    until(lambda: b"ready" in printed(folder, follow=False))
    type_into(folder, b"x" * 500_000)
    type_into(folder, b"x" * 500_000)
    with pytest.raises(DriverError, match="does not read its input"):
        type_into(folder, b"x" * 500_000)
    assert read_status(folder).state == "running"


def test_a_terminal_goes_on_where_a_viewer_left_with_nothing_lost_or_doubled(run):
    folder = open_terminal(run, "for i in $(seq 1 2000); do echo line $i; done; sleep 0.3; echo end")

    async def watch():
        seen = b""
        while not seen.endswith(b"end\r\n"):
            count = 0
            async for part in client.attach(folder, len(seen)):
                assert part.offset == len(seen)
                seen += part.data
                count += 1
                if count == 2:
                    break  # the connection breaks
        return seen

    expected = "".join(f"line {number}\r\n" for number in range(1, 2001)) + "end\r\n"
    assert asyncio.run(watch()).decode() == expected


def test_several_viewers_see_the_same(run):
    folder = open_terminal(run, "for i in $(seq 1 50); do echo line $i; sleep 0.005; done")

    async def watch():
        return await asyncio.gather(*(collect(folder) for _ in range(5)))

    streams = [b"".join(part.data for part in parts) for parts in asyncio.run(watch())]
    assert streams == ["".join(f"line {number}\r\n" for number in range(1, 51)).encode()] * 5


def test_the_recording_is_an_asciicast_with_times_and_sizes(begin):
    folder = open_terminal(begin("sandbox"), "stty -echo; echo one; read line; echo zwölf; read line")
    until(lambda: b"one" in printed(folder, follow=False))
    time.sleep(0.3)
    type_into(folder, b"\r")
    until(lambda: "zwölf".encode() in printed(folder, follow=False))
    asyncio.run(client.resize(folder, 90, 20))
    type_into(folder, b"\r")
    asyncio.run(client.wait(folder, 10))
    spec = read_spec(folder)
    first, *events = map(json.loads, asciicast(folder, cols=spec.cols, rows=spec.rows, started_at=1_700_000_000))
    assert first == {"version": 2, "width": 80, "height": 24, "timestamp": 1_700_000_000}
    text = "".join(data for _time, kind, data in events if kind == "o")
    assert text == "one\r\nzwölf\r\n"
    times = {data.strip(): at for at, kind, data in events if kind == "o"}
    assert 0.25 < times["zwölf"] - times["one"] < 10
    assert [data for _time, kind, data in events if kind == "r"] == ["80x24", "90x20"]
    assert [at for at, _kind, _data in events] == sorted(at for at, _kind, _data in events)


def test_a_terminal_whose_host_is_killed_hangs_up_its_programs(run):
    folder = open_terminal(run, "echo ready; sleep 80")
    until(lambda: printed(folder, follow=False) == b"ready\r\n")
    os.kill(read_status(folder).shim_pid, signal.SIGKILL)
    until(lambda: run.commands() == [])
    assert asyncio.run(client.settle(folder)).exit.reason == "lost"


def test_a_terminal_of_a_run_that_stops_ends_with_it(run):
    folder = open_terminal(run, "sleep 81")
    run.do.stop(run.owner)
    found = asyncio.run(client.wait(folder, 10))
    assert found.state == "exited"
    assert found.exit.exit_status is None or found.exit.exit_status != 0


def test_a_viewer_that_comes_before_its_host_listens_gets_its_seat(run):
    folder = run.ground / "handrail" / "early"
    folder.mkdir(mode=0o700)
    write_spec(folder, ShimSpec.shell("printf asked; read line", run.owner.address, pty=True))
    script = textwrap.dedent("""
        import asyncio, sys, time
        from pathlib import Path
        from workspaces.shim.record import Handed, claim
        from workspaces.shim.shim import Shim
        folder = Path(sys.argv[1])
        assert claim(folder, by="shim")
        time.sleep(0.5)  # its folder is made durable, which some disks take long for
        asyncio.run(Shim(folder, Handed()).run())
    """)

    async def come_early():
        typist = client.Typist(folder)
        seat = await asyncio.wait_for(typist.join("lena"), 20)
        await typist.type(b"\r", 0)
        typist.close()
        return seat

    with subprocess.Popen([sys.executable, "-c", script, str(folder)]):
        until(lambda: read_status(folder).state == "running")
        assert not (folder / "socket").exists()
        seat = asyncio.run(come_early())
    assert (seat["typed"], seat["live_from"]) == (0, 0)
    assert read_status(folder).exit.reason == "exited"


def test_a_viewer_that_is_far_behind_is_told_of_the_gap(begin):
    run = begin("sandbox")
    folder = run.ground / "handrail" / "terminal"
    spec = ShimSpec.shell("seq 1 400000", run.owner.address, pty=True, cap_bytes=1 << 18)
    asyncio.run(client.start(folder, spec))

    async def watch():
        viewer = client.attach(folder)
        parts = [await anext(viewer)]
        await client.wait(folder, 30)
        return parts + [part async for part in viewer]

    parts = asyncio.run(watch())
    gaps = [part for part in parts if isinstance(part, Gap)]
    data = b"".join(part.data for part in parts if not isinstance(part, Gap))
    whole = "".join(f"{number}\r\n" for number in range(1, 400_001)).encode()
    assert sum(gap.end - gap.start for gap in gaps) + len(data) == len(whole)
    assert data[: gaps[0].start] == whole[: gaps[0].start]
    assert whole.endswith(data[gaps[0].start :][-50_000:])


def open_terminal(run, command: str, **fields):
    folder = run.ground / "handrail" / f"terminal-{time.monotonic_ns()}"
    asyncio.run(client.start(folder, ShimSpec.shell(command, run.owner.address, pty=True, **fields)))
    return folder


def type_into(folder, data: bytes) -> None:
    asyncio.run(client.send_input(folder, data))


async def collect(folder, **fields):
    return [part async for part in client.attach(folder, **fields)]


def printed(folder, **fields) -> bytes:
    return b"".join(part.data for part in asyncio.run(collect(folder, **fields)))
