"""Threads that keep their database connections, for queries made from an event loop and for the requests of web."""

import asyncio
from collections import deque
from concurrent.futures import Executor, ThreadPoolExecutor
from weakref import WeakKeyDictionary

from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.db import connections

QUERY_THREADS = 3  # of each event loop; 0: use Django's thread for sync code (tests in one transaction)
REQUEST_THREADS = 8  # idle threads kept by each event loop for later requests (tests in one transaction: 0)
_query_threads: WeakKeyDictionary = WeakKeyDictionary()  # event loop: its `thread` function
_idle: WeakKeyDictionary = WeakKeyDictionary()  # event loop: the request threads that no request uses


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
    """Run a short database query in one of the few threads kept for this event loop.

    `sync_to_async` would give each request a thread and a connection of its own.
    """
    if not QUERY_THREADS:
        return await sync_to_async(function)(*args, **kwargs)
    loop = asyncio.get_running_loop()
    if loop not in _query_threads:
        _query_threads[loop] = in_threads(ThreadPoolExecutor(QUERY_THREADS, thread_name_prefix="query"))
    return await _query_threads[loop](function, *args, **kwargs)


class RequestThread(Executor):
    """The one thread for the sync code of a request: taken at its first call, given back by `release`.

    Django would start a thread for each request, and the event loop stands still until that has begun; a kept one also
    has a database connection.
    """

    def __init__(self):
        self._idle = _idle.setdefault(asyncio.get_running_loop(), deque())
        self._thread: ThreadPoolExecutor | None = None

    def submit(self, function, /, *args, **kwargs):
        if self._thread is None:
            self._thread = self._idle.pop() if self._idle else ThreadPoolExecutor(1, thread_name_prefix="request")
        return self._thread.submit(function, *args, **kwargs)

    def release(self):
        """Give the thread back; a later call takes one again."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if len(self._idle) < REQUEST_THREADS:
            self._idle.append(thread)
        else:
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)


def on_a_kept_thread(app):
    """Wrap an ASGI application so that its sync code runs on a kept thread, one for each request at a time."""

    async def guarded(scope, receive, send):
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        thread = RequestThread()
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
    if isinstance(thread, RequestThread):
        thread.release()


def _close_broken_connections():
    """Close connections that had an error, or whose server closed them while idle."""
    for connection in connections.all(initialized_only=True):
        if connection.connection is not None and (connection.errors_occurred or not connection.is_usable()):
            connection.close()
