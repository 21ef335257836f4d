"""The worker's side of dashboard.workers.pool: reads requests and writes responses as JSON lines. No Django here.

Bytes can follow a request, in frames: the length of each in four bytes, and a length of 0 at the end.
"""

import gc
import os
import resource
import select
import struct
from collections.abc import Iterable, Iterator

from dashboard import json_text

IDLE_SECONDS = 60.0  # the process ends after this long without a request, which frees its memory
MAX_MEMORY = 1024**3  # bytes
NICE = 5  # the web process has priority
_LENGTH = struct.Struct(">I")


def answer_lines(source, sink, answer):
    """Answer each request with `answer(request)` until the other end closes, or none came for IDLE_SECONDS."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY))
    gc.freeze()  # imported modules are never garbage
    waiting = select.poll()
    waiting.register(source.fileno(), select.POLLIN | select.POLLHUP)
    while waiting.poll(IDLE_SECONDS * 1000):
        # Only one request is sent at a time, so the buffer never holds a second line that poll would miss.
        line = source.readline()
        if not line:
            return
        sink.write(json_text.dumps(answer(json_text.loads(line))).encode() + b"\n")
        sink.flush()


def framed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the frames in which these bytes follow a request."""
    for piece in filter(None, pieces):
        yield _LENGTH.pack(len(piece))
        yield piece
    yield _LENGTH.pack(0)


def pieces_from(source) -> Iterator[bytes]:
    """Yield the bytes that follow a request, which must be read to their end.

    EOFError if the other end closes, and if memory ends in the middle: the rest would be taken for the next request.
    The process has to end then.
    """
    try:
        while length := _LENGTH.unpack(_exactly(source, _LENGTH.size))[0]:
            yield _exactly(source, length)
    except MemoryError:
        raise EOFError("There was no memory for what follows the request.") from None


def _exactly(source, size: int) -> bytes:
    data = source.read(size)
    if len(data) < size:
        raise EOFError
    return data
