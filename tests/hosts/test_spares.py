"""Host processes that wait for their command."""

import asyncio
import os

import pytest

from tests.drivers.runs import until
from workspaces.hosts import client, spawn
from workspaces.hosts.folder import HostSpec


@pytest.fixture
def spares():
    spawn.keep_spares(2)
    yield spawn._spares
    spawn.keep_spares(0)


def test_a_spare_takes_the_command_and_another_one_takes_its_place(begin, spares):
    run = begin("sandbox")
    waiting = [host.pid for host in spares]
    folder = run.ground / "handrail" / "command"
    found = asyncio.run(client.start(folder, HostSpec.shell("sleep 0.2", run.owner.address)))
    assert found.host_pid in waiting
    until(lambda: len(spares) == 2)
    assert found.host_pid not in [host.pid for host in spares]
    assert asyncio.run(client.wait(folder, 10)).exit.exit_status == 0


def test_a_spare_that_died_is_no_obstacle(begin, spares):
    run = begin("sandbox")
    for host in spares:
        host.kill()
        until(lambda host=host: host.poll() is not None)
    folder = run.ground / "handrail" / "command"
    asyncio.run(client.start(folder, HostSpec.shell("echo through", run.owner.address)))
    assert asyncio.run(client.wait(folder, 10)).exit.exit_status == 0


def test_spares_end_when_nobody_wants_them():
    spawn.keep_spares(2)
    pids = [host.pid for host in spawn._spares]
    assert len(pids) == 2
    spawn.keep_spares(0)
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
