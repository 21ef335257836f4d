"""Wake waiters in other processes of this host by a datagram.

Nothing depends on its delivery: every waiter also checks by itself from time to time.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from django.conf import settings

from dashboard.keys.key_files import make_private

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
    loop = asyncio.get_running_loop()
    address.unlink(missing_ok=True)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    receiver.bind(str(address))

    def read():
        with suppress(BlockingIOError):
            while receiver.recv(64):
                pass
        heard()

    def stop():
        loop.remove_reader(receiver)
        receiver.close()

    loop.add_reader(receiver, read)
    return stop


# The feeds of this host: each event loop with waiters listens at an address of its own.


def wake_feeds():
    """Wake all feeds of this host; called after the commit of an event."""
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
    address = make_private(make_private(settings.HANDRAIL_RUNTIME) / "feeds") / f"{os.getpid()}-{next(_numbers)}"
    stop = listen(address, heard)

    def stop_and_remove():
        address.unlink(missing_ok=True)
        stop()

    return stop_and_remove
