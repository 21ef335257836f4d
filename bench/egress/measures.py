"""What is measured at a proxy: bytes for each second of its processor, the first byte, memory of connections."""

import os
import socket
import ssl
import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from bench.egress.origin import NAME

READ = 256 * 1024


@dataclass
class Way:
    """A proxy as a client uses it: its process, its ports, the authorities to trust, further fields of requests."""

    name: str
    process: int
    ports: list[int]
    trusted: Path
    fields: str = ""


def opened(way: Way, origin: int, context: ssl.SSLContext, number: int = 0) -> ssl.SSLSocket:
    sock = socket.create_connection(("127.0.0.1", way.ports[number % len(way.ports)]), timeout=60)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(f"CONNECT {NAME}:{origin} HTTP/1.1\r\nHost: {NAME}:{origin}\r\n\r\n".encode())
    heard = b""
    while not heard.endswith(b"\r\n\r\n"):
        heard += sock.recv(1)
    if b" 200 " not in heard.split(b"\r\n")[0]:
        raise RuntimeError(f"{way.name}: {heard!r}")
    return context.wrap_socket(sock, server_hostname=NAME)


def fetch(way: Way, origin: int, context: ssl.SSLContext, size: int, number: int = 0) -> int:
    """Ask for so many bytes; return how many came, at least."""
    with opened(way, origin, context, number) as sock:
        ask = f"GET /bytes/{size} HTTP/1.1\r\nHost: {NAME}:{origin}\r\n{way.fields}\r\n"
        sock.sendall(ask.encode())
        heard, into = 0, bytearray(READ)
        while heard < size:
            got = sock.recv_into(into)
            if not got:
                break
            heard += got
        return heard


def _processor(process: int) -> float:
    """Return the seconds that all threads of a process have run."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def throughput(way: Way, origin: int, *, size: int, at_once: int) -> tuple[float, float]:
    """Return (megabytes for each second of the proxy's processor, megabytes a second) of equal downloads at once."""
    context = ssl.create_default_context(cafile=way.trusted)
    fetch(way, origin, context, 1)
    before, began, heard = _processor(way.process), time.monotonic(), [0] * at_once

    def work(number):
        heard[number] = fetch(way, origin, context, size, number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, used = time.monotonic() - began, _processor(way.process) - before
    if min(heard) < size:
        raise RuntimeError(f"{way.name} cut a download at {min(heard):,} of {size:,} bytes")
    whole = sum(heard) / 1e6
    return whole / used, whole / took


def first_byte(way: Way, origin: int, *, times: int) -> tuple[float, float]:
    """Return median milliseconds from connecting to an answer's first byte, and those of the proxy's processor."""
    context = ssl.create_default_context(cafile=way.trusted)
    took, before = [], _processor(way.process)
    for number in range(times):
        began = time.monotonic()
        fetch(way, origin, context, 1, number)
        took.append(time.monotonic() - began)
    return statistics.median(took) * 1e3, (_processor(way.process) - before) / times * 1e3


def memory(way: Way, origin: int, *, connections: int) -> tuple[float, float]:
    """Return (megabytes of the process with so many connections open and used once, of these what they added)."""
    context = ssl.create_default_context(cafile=way.trusted)
    before, held = _resident(way.process), []
    try:
        for number in range(connections):
            sock = opened(way, origin, context, number)
            held.append(sock)
            if not way.fields:  # an opened host answers one request for each connection
                sock.sendall(f"GET /bytes/1000 HTTP/1.1\r\nHost: {NAME}:{origin}\r\n\r\n".encode())
                sock.recv(100)
        now = _resident(way.process)
        return now / 1e6, (now - before) / 1e6
    finally:
        for sock in held:
            sock.close()
