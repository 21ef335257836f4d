"""The time that /healthz takes, measured in a process of its own, so that the attackers' work does not count."""

import contextlib
import http.client
import multiprocessing
import threading
import time
from urllib.parse import urlsplit

EVERY = 0.05  # seconds between two requests


def watch(url: str, seconds: list[float], over: threading.Event):
    """Time GET /healthz, each on a new connection, until `over` is set."""
    host = urlsplit(url).netloc
    while not over.wait(EVERY):
        begun = time.perf_counter()
        with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        seconds.append(time.perf_counter() - begun)


def watch_until_told(url: str, pipe):
    """Watch in a process of its own, so that the attackers' work does not count; send the times when asked."""
    seconds, over = [], threading.Event()
    watcher = threading.Thread(target=watch, args=(url, seconds, over))
    watcher.start()
    pipe.recv()
    over.set()
    watcher.join()
    pipe.send(seconds)


@contextlib.contextmanager
def watching(url: str, seconds: list[float]):
    """Fill `seconds` with the times of /healthz during this block."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=watch_until_told, args=(url, theirs))
    process.start()
    theirs.close()  # so that its end is seen
    yield
    ours.send("over")
    seconds.extend(ours.recv())
    process.join()
