"""Threads that keep their database connections, for queries made from an event loop and for the requests of web."""

import asyncio
import threading
from collections import deque
from concurrent.futures import Executor, ThreadPoolExecutor
from weakref import WeakKeyDictionary

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

QUERY_THREADS = 3  # queries at once on each event loop; 0: use Django's thread (tests in one transaction)
IDLE_THREADS = 8  # kept by each event loop; tests in one transaction: 0
_kept: WeakKeyDictionary = WeakKeyDictionary()  # event loop: its KeptThreads
_kept_lock = threading.Lock()


def in_threads(executor):
    """Return an async function that calls a function in this executor, whose threads keep their connections."""

    async def thread(function, *args, **kwargs):
        def call():
            _close_broken_connections()
            try:
                return function(*args, **kwargs)
            finally:
                _close_broken_connections()

        return await sync_to_async(call, thread_sensitive=False, executor=executor)()

    return thread


async def query_in_thread(function, *args, **kwargs):
    """Run a short database query on a thread that this event loop keeps, at most QUERY_THREADS at once.

    `sync_to_async` would give each request a thread and a connection of its own.
    """
    if not QUERY_THREADS:
        return await sync_to_async(function)(*args, **kwargs)
    kept = _kept_by_this_loop()
    async with kept.queries:
        thread = KeptThread(kept)
        try:
            return await in_threads(thread)(function, *args, **kwargs)
        finally:
            thread.release()


class KeptThreads:
    """What one event loop keeps: threads that nobody uses now, and how many may run queries at once."""

    def __init__(self):
        self.idle: deque[ThreadPoolExecutor] = deque()
        self.queries = asyncio.Semaphore(QUERY_THREADS)

    def end(self):
        """Close the connections of the idle threads, and end them."""
        while self.idle:
            _end(self.idle.pop())


class KeptThread(Executor):
    """One thread for sync code: taken from the idle ones at its first call, given back by `release`.

    Django would start a thread for each request, and the event loop stands still until that has begun; a kept one also
    has a database connection.
    """

    def __init__(self, kept: KeptThreads | None = None):
        self._kept = kept or _kept_by_this_loop()
        self._thread: ThreadPoolExecutor | None = None

    def submit(self, function, /, *args, **kwargs):
        if self._thread is None:
            idle = self._kept.idle
            self._thread = idle.pop() if idle else ThreadPoolExecutor(1, thread_name_prefix="kept")
        return self._thread.submit(function, *args, **kwargs)

    def release(self):
        """Give the thread back; a later call takes one again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if len(self._kept.idle) < IDLE_THREADS:
            self._kept.idle.append(thread)
        else:
            _end(thread)


def on_a_kept_thread(app):
    """Wrap an ASGI application so that its sync code runs on a kept thread, one for each request at a time."""

    async def guarded(scope, receive, send):
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        thread = KeptThread()
        try:
            async with ThreadSensitiveContext(executor=thread):
                await app(scope, receive, send)
        finally:
            thread.release()

    return guarded


def release_request_thread():
    """Give this request's thread back before a long wait; sync code after the wait takes one again."""
    request = SyncToAsync.thread_sensitive_context.get(None)
    thread = SyncToAsync.context_to_thread_executor.get(request) if request else None
    if isinstance(thread, KeptThread):
        thread.release()


def _close_broken_connections():
    """Close connections that had an error, or whose server closed them while idle."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and (connection.errors_occurred or not connection.is_usable()):
            connection.close()


def _kept_by_this_loop() -> KeptThreads:
    """Return the threads of the running event loop, and end those of loops that were closed."""
    loop = asyncio.get_running_loop()
    with _kept_lock:
        if loop not in _kept:
            for closed in [other for other in _kept if other.is_closed()]:
                _kept.pop(closed).end()
            _kept[loop] = KeptThreads()
        return _kept[loop]


def _end(thread: ThreadPoolExecutor):
    thread.submit(connections.close_all)
    thread.shutdown(wait=False)
