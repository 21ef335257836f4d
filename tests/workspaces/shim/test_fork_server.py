"""Host processes are forked from one that is up already."""

import asyncio
import os
import signal

import pytest

from tests.support.waiting import until
from workspaces.shim import client, pool
from workspaces.shim.record import ShimSpec


@pytest.fixture
def fork_server():
    """The pid of a fresh fork server."""
    pool.end()
    pool.prepare()
    yield pool._fork_server[0].pid
    pool.end()


def parent_of(pid: int) -> int:
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def run_in(run, name: str, text: str) -> tuple:
    """(the state after the start, the folder)"""
    folder = run.ground / "handrail" / name
    return asyncio.run(client.start(folder, ShimSpec.shell(text, run.owner.address))), folder


def test_each_program_gets_a_fork_in_a_session_of_its_own(begin, fork_server):
    run = begin("sandbox")
    started = [run_in(run, name, "sleep 0.3") for name in ("one", "two")]
    pids = [found.shim_pid for found, _ in started]
    assert [parent_of(pid) for pid in pids] == [fork_server, fork_server]
    assert [os.getsid(pid) for pid in pids] == pids
    assert [asyncio.run(client.wait(folder, 10)).exit.exit_status for _, folder in started] == [0, 0]
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))


def test_a_host_keeps_nothing_open_of_the_fork_server_or_of_another_host(begin, fork_server):
    run = begin("sandbox")
    started = [run_in(run, name, "sleep 1") for name in ("one", "two")]
    count = [len(os.listdir(f"/proc/{found.shim_pid}/fd")) for found, _ in started]
    assert count[0] == count[1]
    assert os.readlink(f"/proc/{started[1][0].shim_pid}/fd/0") == "/dev/null"


def test_a_fork_server_that_was_killed_is_started_again(begin, fork_server):
    run = begin("sandbox")
    os.kill(fork_server, signal.SIGKILL)
    _, folder = run_in(run, "command", "echo through")
    assert asyncio.run(client.wait(folder, 10)).exit.exit_status == 0
    assert pool._fork_server[0].pid != fork_server


def test_a_host_outlives_the_fork_server(begin, fork_server):
    run = begin("sandbox")
    _, folder = run_in(run, "command", "sleep 1; exit 3")
    pool.end()
    until(lambda: not os.path.exists(f"/proc/{fork_server}"))
    assert client.status(folder).state == "running"
    assert asyncio.run(client.wait(folder, 10)).exit.exit_status == 3


def test_the_fork_server_ends_when_nobody_wants_it(fork_server):
    pool.end()
    until(lambda: not os.path.exists(f"/proc/{fork_server}"))
