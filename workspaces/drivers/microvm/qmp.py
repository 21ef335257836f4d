"""QMP: save a guest's memory into a pipe, and load it from one."""

import asyncio
import fcntl
import os
from collections.abc import Awaitable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from qemu.qmp import ExecuteError, QMPClient, QMPError

from ..base import DriverError
from ..init_client import short_address

F_SETPIPE_SZ = 1031
PIPE = 1 << 20
MIGRATE_S = 300.0


@asynccontextmanager
async def monitor(path: Path):
    """Connect to QEMU's monitor; raise its errors as DriverError."""
    client = QMPClient("handrail")
    try:
        with short_address(path) as address:
            async with asyncio.timeout(30):
                await client.connect(address)
        try:
            yield client
        finally:
            with suppress(EOFError, QMPError):  # QEMU has exited after `quit`
                await client.disconnect()
    except (QMPError, ExecuteError, OSError, TimeoutError, EOFError) as error:
        raise DriverError(f"QEMU does not do what it was asked: {error}") from error


async def save(client: QMPClient, write, held: Awaitable) -> object:
    """Stop the guest, pass its memory to `write(fd)`, which runs in a thread, and return the result of that.

    The migration is set up while the guest prepares for the pause; `held` completes when it is ready.
    """
    await client.execute("migrate-set-parameters", {"max-bandwidth": 1 << 40})
    ours, theirs = _pipe()
    try:
        client.send_fd_scm(theirs)
        await client.execute("getfd", {"fdname": "memory"})
        await held
        await client.execute("stop")
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    writing = asyncio.create_task(asyncio.to_thread(_until_its_end, write, ours))
    try:
        await client.execute("migrate", {"uri": "fd:memory"})
        async with asyncio.timeout(MIGRATE_S):
            await asyncio.shield(writing)  # until QEMU has closed its end
        await _migrated(client)
    except BaseException:
        with suppress(EOFError, QMPError, ExecuteError):
            await client.execute("migrate_cancel")
            await client.execute("closefd", {"fdname": "memory"})
        await writing  # raises our own error if there is one: it is more specific than QEMU's
        raise
    return await writing


def _until_its_end(write, fd: int) -> object:
    try:
        return write(fd)
    finally:
        os.close(fd)  # if this is early, QEMU gets EPIPE


async def load(client: QMPClient, pieces) -> None:
    """Load memory into a guest that was started with -incoming; it stays stopped until `cont`."""
    theirs, ours = _pipe()
    try:
        client.send_fd_scm(theirs)
        await client.execute("getfd", {"fdname": "memory"})
    finally:
        os.close(theirs)
    feeding = asyncio.create_task(asyncio.to_thread(_feed, ours, pieces))
    try:
        await client.execute("migrate-incoming", {"uri": "fd:memory"})
        await feeding  # raise an error in the file before QEMU's own
        await _migrated(client)
    except BaseException:
        await asyncio.gather(feeding, return_exceptions=True)
        raise


def _feed(fd: int, pieces) -> None:
    with open(fd, "wb", buffering=0) as pipe:
        for piece in pieces:
            view = memoryview(piece)
            while view:
                view = view[pipe.write(view) :]


async def _migrated(client: QMPClient) -> None:
    """Wait until QEMU reports the migration as completed; raise DriverError if it failed."""
    pause = 0.002
    async with asyncio.timeout(MIGRATE_S):
        while (status := (await client.execute("query-migrate")).get("status")) != "completed":
            if status in ("failed", "cancelled"):
                raise DriverError("QEMU could not move the guest's memory.")
            await asyncio.sleep(pause)
            pause = min(0.02, pause * 1.5)


def _pipe() -> tuple[int, int]:
    """Return (read end, write end) of a pipe with a large buffer."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    try:
        fcntl.fcntl(write_end, F_SETPIPE_SZ, PIPE)
    except OSError:
        pass  # an unprivileged user may have reached its limit on pipe buffers
    return read_end, write_end
