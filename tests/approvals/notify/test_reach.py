"""A guard for one task alone: what others of the process connect to is not its business."""

import asyncio
import socket
import threading

import pytest

from workspaces.services.outbound import Unreachable, only_reachable_in_task


@pytest.fixture
def port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


def connect(port: int):
    socket.create_connection(("127.0.0.1", port)).close()


async def connect_in_loop(port: int):
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()
    await writer.wait_closed()


def test_a_guard_holds_in_its_thread_until_it_ends(port):
    with only_reachable_in_task() as guard, pytest.raises(Unreachable):
        connect(port)
    assert guard.refused
    connect(port)


def test_another_thread_is_free(port):
    with only_reachable_in_task() as guard:
        other = threading.Thread(target=connect, args=(port,))
        other.start()
        other.join()
    assert not guard.refused


def test_a_guard_holds_in_tasks_started_under_it_alone(port):
    async def guarded(entered, leave):
        with only_reachable_in_task() as guard:
            entered.set()
            await leave.wait()
            with pytest.raises(OSError, match="private or special"):
                await asyncio.gather(connect_in_loop(port))
            return guard.refused

    async def both():
        entered, leave = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(guarded(entered, leave))
        await entered.wait()
        await connect_in_loop(port)
        leave.set()
        return await task

    assert asyncio.run(both())
