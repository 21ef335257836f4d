"""Read the recorded output of commands and terminals, from the folder of their shim on this host.

Works the same while the program runs and after its end. A line of text marks output that was not kept.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from workspaces.host import paths
from workspaces.host.place import refuse_elsewhere
from workspaces.shim import client
from workspaces.shim.recording import Gap, Output, Reader, gap_message, segments

READ_BYTES = 1 << 18  # read at once
START_TIMEOUT_S = 10.0  # a follower waits this long for the program to start
START_POLL_S = 0.05


def folder_of(program) -> Path:
    """Return the folder of a Command or Terminal. Problem 503 if its workspace is on another host.

    In a coroutine, `program` must have been loaded with `workspace__runner`.
    """
    refuse_elsewhere(program.workspace)
    return paths.program_of(program.workspace_id, program.operation_id)


def length(folder: Path) -> int:
    """Return the end offset of the output so far."""
    return max((start + size for start, size in segments(folder)), default=0)


def pieces(folder: Path, offset: int = 0) -> Iterator[bytes]:
    """Yield the output recorded so far, from `offset` on."""
    reader = Reader(folder, offset)
    try:
        while (part := reader.next(READ_BYTES)) is not None:
            yield _as_bytes(part)
    finally:
        reader.close()


def tail(folder: Path, size: int) -> tuple[bytes, int]:
    """Return the last `size` bytes of the output so far, and the number of bytes before them."""
    offset = max(0, length(folder) - size)
    data = b"".join(pieces(folder, offset))
    return data[-size:], offset + max(0, len(data) - size)


async def stream(folder: Path, offset: int, *, follow: bool) -> AsyncIterator[bytes]:
    """Yield the output from `offset` on; with `follow` until the program ends."""
    if follow:
        await _until_started(folder)
    if folder.exists():
        async for part in client.attach(folder, offset, follow=follow):
            yield _as_bytes(part)


async def _until_started(folder: Path):
    for _ in range(round(START_TIMEOUT_S / START_POLL_S)):
        if (folder / "claim").exists():
            return
        await asyncio.sleep(START_POLL_S)


def _as_bytes(part: Output | Gap) -> bytes:
    return part.data if isinstance(part, Output) else f"\r\n[{gap_message(part)}]\r\n".encode()
