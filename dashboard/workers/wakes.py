"""Wake waiters in other processes of this host by a datagram.

Nothing depends on its delivery: every waiter also checks by itself from time to time.
"""

import asyncio
import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from django.conf import settings

from dashboard.keys.key_files import make_private
from dashboard.workers import hints

_numbers = count()


def wake(address: Path) -> bool:
    """Send one wake-up; return False if nobody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(b".", str(address))
        except BlockingIOError:
            return True  # its buffer is full, so it will wake
        except OSError:
            return False
    return True


def listen(address: Path, heard: Callable[[], None]) -> Callable[[], None]:
    """Call `heard` in the running loop once for each burst of wake-ups. Return a function that stops listening."""
    loop, receiver = asyncio.get_running_loop(), _receiver(address)

    def read():
        empty(receiver)
        heard()

    def stop():
        loop.remove_reader(receiver)
        receiver.close()

    loop.add_reader(receiver, read)
    return stop


def _receiver(address: Path) -> socket.socket:
    address.unlink(missing_ok=True)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    receiver.bind(str(address))
    return receiver


def empty(receiver: socket.socket):
    """Take the wake-ups that have arrived."""
    with suppress(BlockingIOError):
        while receiver.recv(64):
            pass


# The feeds of this host: each event loop with waiters, and the queue, listen at addresses of their own.


def wake_feeds():
    """Wake all feeds, of this host and of others; called after the commit of an event."""
    wake_feeds_here()
    hints.send(hints.FEEDS)


def wake_feeds_here():
    """Wake all feeds of this host."""
    try:
        addresses = list((settings.HANDRAIL_RUNTIME / "feeds").iterdir())
    except OSError:
        return  # no feed has listened yet, or this user may not wake them
    for address in addresses:
        if not wake(address):
            with suppress(OSError):
                address.unlink()  # left by a process that was killed


def listen_as_feed(heard: Callable[[], None]) -> Callable[[], None]:
    """Listen for `wake_feeds` as `listen` does, at an address of its own; stopping removes the address."""
    address = _address_of_feed()
    stop = listen(address, heard)

    def stop_and_remove():
        address.unlink(missing_ok=True)
        stop()

    return stop_and_remove


@contextmanager
def listening_by_signal() -> Iterator[socket.socket]:
    """Listen for `wake_feeds` in a process without event loop: SIGIO tells it that a wake-up has arrived."""
    address = _address_of_feed()
    with _receiver(address) as receiver:
        fcntl.fcntl(receiver, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(receiver, fcntl.F_SETFL, fcntl.fcntl(receiver, fcntl.F_GETFL) | os.O_ASYNC)
        try:
            yield receiver
        finally:
            address.unlink(missing_ok=True)


def _address_of_feed() -> Path:
    return make_private(make_private(settings.HANDRAIL_RUNTIME) / "feeds") / f"{os.getpid()}-{next(_numbers)}"
