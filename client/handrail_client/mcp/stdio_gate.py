"""The gate between a client's pipes and a server that it starts."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError
from handrail_client.mcp.gate import Gate
from handrail_client.mcp.held_call import TOLD_WITHIN
from handrail_client.mcp.identity import Server

PIECE = 1 << 20
PATIENCE = 5.0  # seconds for the server to end by itself, and again after SIGTERM
# The server must not speak to the desk in the agent's place.
KEPT_BACK = ("HANDRAIL_TOKEN", "HANDRAIL_CONNECTION")


def run(desk: Handrail, argv: list[str], *, name: str | None = None, session: str = "") -> int:
    """Serve the client on standard input and output until it or the server ends; return the server's exit status."""
    environment = {key: value for key, value in os.environ.items() if key not in KEPT_BACK}
    try:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    except OSError as error:
        raise HandrailError(f"{argv[0]} can't be started: {error}") from None
    ended = threading.Event()
    to_client, to_server = Pipe(sys.stdout.fileno(), ended.set), Pipe(process.stdin.fileno(), lambda: None)
    gate = Gate(desk, Server.of_command(argv, name), to_client=to_client, to_server=to_server, session=session)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    reading = _reading(process.stdout.fileno(), gate.from_server, ended)
    _reading(sys.stdin.fileno(), gate.from_client, ended)
    ended.wait()
    gate.withdraw_all()
    to_server.close()
    process.stdin.close()
    _end(process)
    reading.join(PATIENCE)
    gate.close(TOLD_WITHIN)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def lines_of(fd: int) -> Iterator[bytes]:
    """Yield lines as they come, of any length, with their ends; the last one may have none."""
    pieces: list[bytes] = []
    while piece := os.read(fd, PIECE):
        *whole, rest = piece.split(b"\n")
        for line in whole:
            yield b"".join([*pieces, line, b"\n"])
            pieces = []
        pieces += [rest] if rest else []
    if pieces:
        yield b"".join(pieces)


class Pipe:
    """Writes whole lines, one at a time. `lost` is called when nobody reads any more; what follows goes nowhere."""

    def __init__(self, fd: int, lost: Callable[[], None]):
        self._fd, self._lost, self._lock, self._is_open = fd, lost, threading.Lock(), True

    def __call__(self, line: bytes):
        with self._lock:
            left = memoryview(line)
            while self._is_open and left:
                try:
                    left = left[os.write(self._fd, left) :]
                except OSError:
                    self._is_open = False
                    self._lost()

    def close(self):
        """Write no more, from when this returns: the number of the file may then be another file's."""
        self._is_open = False
        if self._lock.acquire(timeout=PATIENCE):
            self._lock.release()


def _reading(fd: int, take: Callable[[bytes], None], ended: threading.Event) -> threading.Thread:
    def read():
        try:
            for line in lines_of(fd):
                take(line)
        finally:
            ended.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _end(process: subprocess.Popen):
    """Wait for the server, whose input has ended, and help it to."""
    for help_on in (process.terminate, process.kill):
        try:
            process.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            help_on()
    process.wait()
