"""The supervisor with small programs in the place of the parts: restart, hang, stop, and nobody left behind."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

import dashboard.processes.supervisor
from dashboard.processes.parts import Part
from dashboard.processes.supervisor import Supervisor
from dashboard.workers import warden
from dashboard.workers.loop_watch import STACKS
from tests.support.waiting import until, until_async

CHILD = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "


@pytest.fixture(autouse=True)
def parts_fork_beside_threads(monkeypatch):
    """Let parts be forked although servers and executors of other test files still have threads in this process.

    The check is for children that go on as copies (test_forked.py); here each calls exec at once.
    """
    monkeypatch.setattr(threading, "active_count", lambda: 1)


async def silent(part):
    """A part that shows once that it lives, and never again."""
    if not part.ready.is_set():
        part.record_heartbeat()


async def lively(part):
    part.record_heartbeat()


def program(code: str, *, timeout: float = 30, check=lively, name: str = "web") -> Part:
    return Part(name, partial(os.execv, sys.executable, [sys.executable, "-c", code]), timeout, check)


def members_of(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if int(fields[2]) == group and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def ignores(pid: int, number: int) -> bool:
    status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return bool(int(status["SigIgn"], 16) >> (number - 1) & 1)


def supervise(parts, after, tmp_path, *, within: float = 20):
    """Run a supervisor until the coroutine `after(supervisor)` has ended, then stop it; how many seconds that took."""

    async def scene():
        lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
        supervisor = Supervisor(parts, lock)
        running = asyncio.create_task(supervisor.run(lambda: None))
        await asyncio.wait_for(after(supervisor), within)
        began = time.monotonic()
        supervisor.stop()
        await asyncio.wait_for(running, 15)
        os.close(lock)
        return time.monotonic() - began

    return asyncio.run(scene())


def test_a_part_that_ends_is_started_again_after_a_pause_that_grows(tmp_path, capfd):
    starts = tmp_path / "starts"
    part = program(f"open({str(starts)!r}, 'a').write('x')")
    supervise([part], lambda _: until_async(lambda: starts.exists() and len(starts.read_text()) == 3), tmp_path)
    said = capfd.readouterr().err
    assert "web ended; it starts again in 0.5 s" in said
    assert "web ended; it starts again in 1 s" in said


def test_a_part_that_hangs_is_killed_with_its_whole_group_and_started_again(tmp_path, capfd):
    part = program(CHILD + "time.sleep(60)", timeout=1.5, check=silent)
    groups = []

    async def after(supervisor):
        await until_async(lambda: part.process is not None)
        groups.append(part.process.pid)
        await until_async(lambda: part.process.pid != groups[0])

    supervise([part], after, tmp_path)
    assert members_of(groups[0]) == []
    assert "web sent no heartbeat for 1.5 s and is killed" in capfd.readouterr().err


def test_a_part_that_hangs_with_the_interpreter_lock_prints_where(tmp_path, capfd):
    hang = "import faulthandler, re, signal; faulthandler.register({}); re.match('(a+)+$', 'a' * 60 + 'b')"
    part = program(hang.format(int(STACKS)), timeout=1.5, check=silent)
    groups = []

    async def after(supervisor):
        await until_async(lambda: part.process is not None)
        groups.append(part.process.pid)
        await until_async(lambda: part.process.pid != groups[0])

    supervise([part], after, tmp_path)
    assert "in match" in capfd.readouterr().err


def test_a_part_lives_on_when_one_check_of_it_fails(tmp_path, capfd):
    checks = []

    async def fails_once(part):
        checks.append(part.process.pid)
        if len(checks) == 1:
            raise ValueError("a line too long")
        part.record_heartbeat()

    part = program("import time; time.sleep(60)", check=fails_once)
    supervise([part], lambda _: until_async(part.ready.is_set), tmp_path)
    assert len(set(checks)) == 1
    assert "web could not be checked: ValueError('a line too long')" in capfd.readouterr().err


def test_a_part_whose_checks_all_fail_is_killed_and_started_again(tmp_path, capfd):
    async def fails(part):
        part.ready.set()
        raise ValueError("a line too long")

    part = program("import time; time.sleep(60)", timeout=1.5, check=fails)
    pids = set()

    def started_again():
        pids.update([part.process.pid] if part.process else [])
        return len(pids) == 2

    supervise([part], lambda _: until_async(started_again), tmp_path)
    assert "web sent no heartbeat for 1.5 s and is killed" in capfd.readouterr().err


def test_a_part_lives_on_when_the_supervisor_itself_stood_still(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(dashboard.processes.supervisor, "STOOD_STILL", 0.5)
    checks = []

    async def heard_but_for_the_first_look_after(part):
        checks.append(part.process.pid)
        if len(checks) != 2:
            part.record_heartbeat()

    async def after(supervisor):
        await until_async(part.ready.is_set)
        time.sleep(3)  # as if it were stopped, with its parts
        await until_async(lambda: len(checks) > 3, within=60)

    monkeypatch.setattr(dashboard.processes.supervisor, "CHECK_INTERVAL", 0.5)
    part = program("import time; time.sleep(60)", timeout=2, check=heard_but_for_the_first_look_after)
    supervise([part], after, tmp_path, within=60)
    assert len(set(checks)) == 1
    assert "is killed" not in capfd.readouterr().err


def test_what_a_part_leaves_behind_ends_with_it(tmp_path):
    part = program(CHILD + "time.sleep(60)")
    groups = []

    async def after(supervisor):
        await until_async(lambda: part.process and len(members_of(part.process.pid)) == 2)
        groups.append(part.process.pid)
        os.kill(groups[0], signal.SIGKILL)
        await until_async(lambda: members_of(groups[0]) == [])

    supervise([part], after, tmp_path)


def test_a_part_that_does_not_want_to_stop_is_killed_within_ten_seconds(tmp_path, capfd):
    ready = tmp_path / "ready"
    stubborn = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(ready)!r}, 'w'); time.sleep(60)"
    part = program(stubborn)
    took = supervise([part], lambda _: until_async(ready.exists), tmp_path)
    assert 7.5 < took < 10
    assert "web does not stop and is killed" in capfd.readouterr().err
    assert members_of(part.process.pid) == []


@pytest.mark.parametrize(("again_after", "least", "most"), [(1.5, 1.5, 5), (0.1, 7.5, 10)])
def test_asked_again_a_while_later_it_waits_no_longer(tmp_path, again_after, least, most):
    ready = tmp_path / "ready"
    stubborn = f"import signal, time; signal.signal(15, signal.SIG_IGN); open({str(ready)!r}, 'w'); time.sleep(60)"

    async def after(supervisor):
        await until_async(ready.exists)
        asyncio.get_running_loop().call_later(again_after, supervisor.stop)

    assert least < supervise([program(stubborn)], after, tmp_path) < most


def test_lines_of_a_part_carry_its_name_however_long_they_are(tmp_path, capfd):
    part = program("print('hello'); print('x' * 50_000); print('caf\\udce9'.encode('utf-8', 'surrogateescape'))")
    supervise([part], lambda _: until_async(lambda: part.process is not None and part.has_ended()), tmp_path)
    lines = capfd.readouterr().err.splitlines()
    assert "web    | hello" in lines
    assert sum(line.removeprefix("web    | ").count("x") for line in lines if "xxx" in line) >= 50_000


def test_a_killed_warden_is_replaced(tmp_path, capfd):
    part = program("import time; time.sleep(60)")

    async def after(supervisor):
        await until_async(lambda: supervisor.warden is not None)
        first = supervisor.warden.pid
        supervisor.warden.kill()
        await until_async(lambda: supervisor.warden.pid != first)

    supervise([part], after, tmp_path)
    assert "the warden was killed; another one takes over" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_warden_ends_the_groups_that_a_killed_supervisor_left_and_no_others(number):
    sleeper = [sys.executable, "-c", CHILD + "time.sleep(60)"]
    left, ended, own_session = (
        subprocess.Popen(sleeper, process_group=0),
        subprocess.Popen(sleeper, process_group=0),
        subprocess.Popen(sleeper, start_new_session=True),
    )
    try:
        watching = subprocess.Popen([sys.executable, "-I", "-S", warden.__file__], stdin=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not ignores(watching.pid, number) and time.monotonic() < deadline:
            time.sleep(0.01)
        watching.send_signal(number)  # Ctrl-C and friends are for the supervisor
        watching.stdin.write(f"+{left.pid}\n+{ended.pid}\n-{ended.pid}\n".encode())
        watching.stdin.close()  # as the kernel does for the dead
        assert watching.wait(10) == 0
        assert left.wait(10) == -signal.SIGKILL
        until(lambda: members_of(left.pid) == [])  # its child, killed too, may take a moment to go
        assert (ended.poll(), own_session.poll()) == (None, None)
    finally:
        for process in (left, ended, own_session):
            os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
            process.wait()
