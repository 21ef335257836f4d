"""A command: what it prints, how it ends, and that it runs once."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.support.waiting import until
from workspaces.drivers.base import DriverError, Limits
from workspaces.shim import client
from workspaces.shim.record import ShimSpec, claim, read_exit, read_status
from workspaces.shim.recording import Gap, Output

MIB = 1 << 20


@pytest.fixture(params=("sandbox", "folder"))
def run(request, begin):
    return begin(request.param)


@pytest.fixture
def sandbox(begin):
    return begin("sandbox")


def test_a_command_prints_and_ends(run):
    folder = start(run, "echo out; echo err >&2; pwd; exit 3")
    found = ended(folder)
    assert printed(folder) == f"out\nerr\n{run.owner.address.cwd}\n".encode()
    assert (found.exit.reason, found.exit.exit_status, found.exit.signal) == ("exited", 3, None)
    assert found.exit.output_bytes == len(printed(folder))
    assert (found.exit.truncated, found.exit.leftovers, found.exit.message()) == (False, (), "exit 3")


def test_a_signal_that_ends_it_is_named(run):
    found = ended(start(run, "kill -9 $$"))
    assert (found.exit.reason, found.exit.exit_status, found.exit.signal) == ("exited", None, 9)
    assert found.exit.message() == "killed by SIGKILL"


def test_a_program_that_cannot_be_executed_never_started(run):
    folder = start(run, argv=("/nowhere/tool",))
    found = ended(folder)
    assert (found.state, found.exit.reason) == ("never_started", "not_started")
    assert found.exit.message() == "it could not be started: /nowhere/tool: No such file or directory"
    assert not printed(folder)


def test_a_command_of_a_run_that_is_gone_never_started(run):
    run.do.stop(run.owner, grace_s=0.0)
    found = ended(start(run, "echo"))
    assert (found.state, found.exit.reason) == ("never_started", "not_started")


def test_a_frozen_run_starts_no_command(sandbox):
    sandbox.do.freeze(sandbox.owner)
    found = ended(start(sandbox, "echo"))
    sandbox.do.thaw(sandbox.owner)
    assert (found.state, found.exit.error) == ("never_started", "frozen")


def test_bytes_of_a_command_line_are_kept(run):
    folder = start(run, b"printf 'caf\xe9\\n'; printf '%s' \"$WHO\"", env={"WHO": os.fsdecode(b"\xff")})
    ended(folder)
    assert printed(folder) == b"caf\xe9\n\xff"


def test_a_nul_byte_in_a_command_is_refused(run):
    with pytest.raises(DriverError, match="NUL"):
        ShimSpec.shell(b"echo \0", run.owner.address)


def test_a_command_is_given_only_what_was_set(run):
    folder = start(run, "env", env={"STEP": "1"})
    ended(folder)
    names = {line.partition("=")[0] for line in printed(folder).decode().splitlines()}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {*run.owner.address.env, "STEP"}


def test_output_can_be_followed_from_any_offset(run):
    folder = start(run, "for i in 1 2 3 4 5; do echo line $i; sleep 0.05; done")
    assert printed(folder) == b"line 1\nline 2\nline 3\nline 4\nline 5\n"
    assert printed(folder, offset=12) == b"2\nline 3\nline 4\nline 5\n"[-23:]
    assert printed(folder, offset=35) == b""


def test_viewers_see_the_output_as_it_comes(run):
    folder = start(run, "echo early; while [ ! -e go ]; do sleep 0.02; done; echo late")

    async def watch():
        seen = []
        async for part in client.attach(folder):
            seen.append(part)
            (run.tree / "go").touch()
        return seen

    assert asyncio.run(watch()) == [Output(0, b"early\n"), Output(6, b"late\n")]


def test_a_viewer_that_stalls_stops_nobody(run):
    folder = start(run, "seq 1 500000; touch done")

    async def watch():
        stalled = client.attach(folder)
        first = await anext(stalled)
        read = b"".join([part.data async for part in client.attach(folder)])
        await asyncio.to_thread(until, (run.tree / "done").exists)
        rest = b"".join([part.data async for part in stalled])
        return read, first.data + rest

    quick, slow = asyncio.run(watch())
    expected = "".join(f"{number}\n" for number in range(1, 500001)).encode()
    assert quick == expected
    assert slow == expected


def test_300_megabytes_keep_their_head_and_tail(sandbox):
    cap = 4 * MIB
    # A block whose length divides no power of two, so that a shifted or doubled piece would show.
    block, total = random.Random(1).randbytes(1_000_003), 300 * 1_000_003
    script = """if True:
        import random, sys
        block = random.Random(1).randbytes(1_000_003)
        for _ in range(300):
            sys.stdout.buffer.write(block)
    """
    folder = start(sandbox, argv=("python3", "-c", script), cap_bytes=cap)
    found = ended(folder, 120)
    assert (found.exit.exit_status, found.exit.output_bytes, found.exit.truncated) == (0, total, True)
    parts = asyncio.run(collect(folder))
    [gap] = [part for part in parts if isinstance(part, Gap)]
    kept = {part.offset: part.data for part in parts if isinstance(part, Output)}
    head = b"".join(data for offset, data in kept.items() if offset < gap.start)
    tail = b"".join(data for offset, data in kept.items() if offset >= gap.end)
    assert head == (block * 3)[: cap // 2]
    assert tail == (block * 4)[gap.end % len(block) :][: total - gap.end]
    assert len(tail) >= cap // 2 - cap // 16
    assert sum(entry.stat().st_size for entry in folder.iterdir()) < cap + 2 * MIB


# Ends that somebody wants


def test_a_command_that_takes_too_long_is_ended_with_its_children(run):
    folder = start(run, "sleep 71 & sleep 72", timeout_s=0.3)
    found = ended(folder)
    assert (found.exit.reason, found.exit.signal) == ("timeout", signal.SIGTERM)
    until(lambda: run.commands() == [])


def test_cancel_ends_it_with_its_children(run):
    folder = start(run, "sleep 73 & sleep 74 & wait")
    until(lambda: len(run.commands()) == 3)
    asyncio.run(client.cancel(folder))
    found = ended(folder)
    assert (found.exit.reason, found.exit.signal) == ("cancelled", signal.SIGTERM)
    until(lambda: run.commands() == [])


def test_a_command_that_refuses_is_killed_after_five_seconds(sandbox):
    folder = start(sandbox, "trap '' TERM; echo ready; while :; do sleep 1; done")
    until(lambda: printed(folder, follow=False) == b"ready\n")
    asyncio.run(client.cancel(folder))
    found = ended(folder)
    assert (found.exit.reason, found.exit.signal) == ("cancelled", signal.SIGKILL)
    assert 4.5 < found.exit.seconds < 9
    until(lambda: sandbox.commands() == [])


def test_cancelling_what_has_ended_is_no_error_and_changes_nothing(run):
    folder = start(run, "echo done")
    before = ended(folder)
    asyncio.run(client.cancel(folder))
    assert read_status(folder) == before


def test_what_a_command_leaves_behind_does_not_hold_it_up(run):
    folder = start(run, "sleep 75 & echo started")
    found = ended(folder)
    assert (found.exit.reason, found.exit.exit_status) == ("exited", 0)
    assert found.exit.seconds < 5
    assert [line.partition(" ")[2] for line in found.exit.leftovers] == ["sleep 75"]
    assert run.commands() == ["sleep 75"]


def test_a_signal_reaches_the_program(run):
    folder = start(run, "trap 'echo got it; exit 4' USR1; echo ready; while :; do sleep 0.05; done")
    until(lambda: printed(folder, follow=False) == b"ready\n")
    asyncio.run(client.send_signal(folder, signal.SIGUSR1))
    assert ended(folder).exit.exit_status == 4
    assert printed(folder).splitlines()[-1] == b"got it"  # its child had the signal too, which the shell says


def test_running_out_of_memory_is_named(limited):
    run = limited("memory", Limits(memory=100 * MIB))
    found = ended(start(run, argv=("python3", "-c", "x = bytearray(300 << 20)")))
    assert (found.exit.reason, found.exit.signal, found.exit.oom_kills) == ("oom", 9, 1)
    assert found.exit.message() == "killed by SIGKILL: out of memory"


def test_a_child_that_ran_out_of_memory_is_mentioned(limited):
    run = limited("memory", Limits(memory=100 * MIB))
    found = ended(start(run, "python3 -c 'x = bytearray(300 << 20)'; echo went on; exit 5"))
    assert found.exit.message() == "exit 5: a program was killed because memory ran out"


# What happens twice, and what dies


def test_starting_twice_runs_once(run):
    spec = ShimSpec.shell("echo ran >> count", run.owner.address)
    folder = run.ground / "handrail" / "twice"

    async def both():
        return await asyncio.gather(*(client.start(folder, spec) for _ in range(5)))

    asyncio.run(both())
    ended(folder)
    asyncio.run(client.start(folder, spec))
    assert (run.tree / "count").read_text() == "ran\n"


def test_a_start_that_was_forbidden_never_happens(run):
    folder = run.ground / "handrail" / "forbidden"  # not made yet: whoever wanted to start it died before that
    assert asyncio.run(client.settle(folder)).state == "never_started"
    found = asyncio.run(client.start(folder, ShimSpec.shell("touch ran", run.owner.address)))
    assert found.state == "never_started"
    assert not (run.tree / "ran").exists()
    assert claim(folder, by="shim") is False


def test_a_folder_that_nobody_used_was_never_started(ground):
    assert read_status(ground).state == "never_started"


def test_a_command_outlives_the_runner_that_started_it(run):
    folder = run.ground / "handrail" / "outlives"
    script = textwrap.dedent("""
        import asyncio, os, signal, sys
        from pathlib import Path
        from workspaces.drivers.base import RunRecord
        from workspaces.shim import client
        from workspaces.shim.record import ShimSpec
        owner = RunRecord.from_json(Path(sys.argv[1]).read_text())
        spec = ShimSpec.shell("until [ -e go ]; do sleep 0.05; done; echo survived", owner.address)
        asyncio.run(client.start(Path(sys.argv[2]), spec))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    record = run.ground / "handrail" / "runs" / run.spec.run_id / "record.json"
    runner = subprocess.run([sys.executable, "-c", script, str(record), str(folder)])
    assert runner.returncode == -signal.SIGKILL
    assert read_status(folder).state == "running"
    (run.tree / "go").touch()
    assert printed(folder) == b"survived\n"
    assert ended(folder).exit.exit_status == 0


def test_a_host_that_is_killed_is_lost_and_its_program_ends(run):
    folder = start(run, "echo begun; sleep 76")
    until(lambda: printed(folder, follow=False) == b"begun\n")
    os.kill(read_status(folder).shim_pid, signal.SIGKILL)
    until(lambda: read_status(folder).state == "lost")
    until(lambda: run.commands() == [])
    found = asyncio.run(client.settle(folder))
    assert (found.state, found.exit.reason, found.exit.output_bytes) == ("exited", "lost", 6)
    assert (found.exit.exit_status, found.exit.signal) == (None, None)
    assert printed(folder) == b"begun\n"


def test_settling_a_lost_command_ends_a_program_that_refuses(sandbox):
    folder = start(sandbox, "trap '' TERM; echo begun; while :; do sleep 1; done")
    until(lambda: printed(folder, follow=False) == b"begun\n")
    os.kill(read_status(folder).shim_pid, signal.SIGKILL)
    until(lambda: read_status(folder).state == "lost")
    assert asyncio.run(client.settle(folder)).exit.reason == "lost"
    assert sandbox.commands() == []


def test_settling_a_command_that_runs_leaves_it_alone(run):
    folder = start(run, "until [ -e go ]; do sleep 0.05; done; echo on")
    assert asyncio.run(client.settle(folder)).state == "running"
    (run.tree / "go").touch()
    assert printed(folder) == b"on\n"


def test_an_init_that_is_killed_is_a_loss_and_no_success(run):
    folder = start(run, "echo begun; sleep 77")
    until(lambda: printed(folder, follow=False) == b"begun\n")
    os.kill(run.owner.pid, signal.SIGKILL)
    found = ended(folder)
    assert (found.exit.reason, found.exit.exit_status) == ("lost", None)


def test_a_host_killed_at_any_moment_leaves_a_true_state(sandbox):
    for number in range(8):
        folder = sandbox.ground / "handrail" / f"killed-{number}"
        folder.mkdir(mode=0o700)
        spec = ShimSpec.shell(f"echo ran >> count-{number}; sleep 0.02", sandbox.owner.address)
        (folder / "spec.json").write_bytes(spec.to_json())
        host = subprocess.Popen([sys.executable, "-m", "workspaces.shim", str(folder)], stderr=subprocess.DEVNULL)
        time.sleep(0.05 + number * 0.012)
        host.kill()
        host.wait()
        found = asyncio.run(client.settle(folder))
        ran = (sandbox.tree / f"count-{number}").exists()
        reason = found.exit.reason if found.exit else None
        assert (found.state, reason, ran) in (
            ("never_started", None, False),
            ("exited", "exited", True),
            ("exited", "lost", True),
            ("exited", "lost", False),  # killed between its word that it begins and the start
        )
        asyncio.run(client.start(folder, spec))
        assert read_status(folder) == found
        if ran:
            assert (sandbox.tree / f"count-{number}").read_text() == "ran\n"


def test_a_host_of_another_machine_cannot_be_judged(run):
    folder = start(run, "sleep 78")
    text = (folder / "claim").read_text()
    (folder / "claim").write_text(text.replace('"host": "', '"host": "not-'))
    with pytest.raises(DriverError, match="only that host can tell"):
        read_status(folder)
    (folder / "claim").write_text(text)
    asyncio.run(client.cancel(folder))
    ended(folder)


def test_a_full_disk_loses_output_but_not_the_end(sandbox, require):
    folder = sandbox.ground / "small"
    folder.mkdir(mode=0o700)
    if os.getuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", folder]).returncode != 0:
        require("root", "only root can mount a small disk")
    try:
        spec = ShimSpec.shell("head -c 1000000 /dev/zero; echo end", sandbox.owner.address)
        asyncio.run(client.start(folder, spec))
        until(lambda: read_exit(folder) is not None or make_room(folder))
        found = ended(folder)
        assert (found.exit.exit_status, found.exit.output_bytes, found.exit.truncated) == (0, 1_000_004, True)
        parts = asyncio.run(collect(folder))
        assert isinstance(parts[-1], Gap)
        assert parts[-1].end == 1_000_004
    finally:
        subprocess.run(["umount", folder], check=True)


def make_room(folder) -> None:
    """An administrator who helps after a while."""
    time.sleep(1.5)
    subprocess.run(["mount", "-o", "remount,size=1m", folder], check=True)


def start(run, command=None, *, argv=None, **fields):
    folder = run.ground / "handrail" / f"command-{time.monotonic_ns()}"
    address = run.owner.address
    spec = ShimSpec(argv, address, **fields) if argv else ShimSpec.shell(command, address, **fields)
    asyncio.run(client.start(folder, spec))
    return folder


def ended(folder, seconds: float = 20.0):
    found = asyncio.run(client.wait(folder, seconds))
    assert found.state != "running"
    return found


async def collect(folder, **fields):
    return [part async for part in client.attach(folder, **fields)]


def printed(folder, **fields) -> bytes:
    return b"".join(part.data for part in asyncio.run(collect(folder, **fields)))


def test_viewers_that_left_cost_a_silent_program_nothing(sandbox):
    folder = start(sandbox, "exec sleep 1000")
    descriptors = f"/proc/{read_status(folder).shim_pid}/fd"
    before = len(os.listdir(descriptors))
    for _ in range(20):
        asyncio.run(client.wait(folder, 0.05))
    until(lambda: len(os.listdir(descriptors)) <= before + 2, 20)
    asyncio.run(client.cancel(folder))
    assert ended(folder).exit.reason == "cancelled"
