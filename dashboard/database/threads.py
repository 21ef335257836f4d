"""Threads with database connections of their own: for queries made from an event loop and for the requests of web.

Their number is the number of connections. A call that finds no thread free waits for one; none is refused.
"""

import asyncio
import atexit
import threading
import time
from collections import deque
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from functools import partial
from weakref import WeakKeyDictionary, WeakSet

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.db import connection, connections

QUERY_THREADS = 3  # queries at once on each event loop; tests in one transaction: 0, for Django's thread
REQUEST_THREADS = settings.HANDRAIL_REQUEST_THREADS  # calls of requests at once; as above
ASIDE_THREADS = 64  # further threads, for calls that only wait
IDLE_SECONDS = 60  # after which a thread ends, with its connection
UNCHECKED_SECONDS = 1  # after which a connection that nobody used is looked at before it is used
_here = threading.local()  # threads: the DatabaseThreads that this thread is one of; used_at: when its last call ended
_all: WeakSet = WeakSet()


class DatabaseThreads(Executor):
    """Runs at most `most` calls at once, each on a thread that keeps its connection to the database.

    A call that only waits for something can stand aside: its connection is closed, and another call begins.
    """

    def __init__(self, most: int, name: str):
        self._most, self._name = most, name
        self._calls: deque[tuple[Future, partial]] = deque()  # that have not begun
        self._threads = self._idle = self._running = self._returning = 0
        self._ended = False
        self._lock = threading.Lock()
        self._work, self._room = threading.Condition(self._lock), threading.Condition(self._lock)
        _all.add(self)

    def submit(self, function, /, *args, **kwargs):
        future = Future()
        with self._lock:
            if self._ended:
                raise RuntimeError("these threads have ended")
            self._calls.append((future, partial(function, *args, **kwargs)))
            self._begin_next()
        return future

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Let no further call begin, and end each thread when it has nothing to do; `wait` until then."""
        with self._lock:
            self._ended = True
            while cancel_futures and self._calls:
                self._calls.popleft()[0].cancel()
            self._work.notify_all()
            while wait and self._threads:
                self._room.wait()

    @contextmanager
    def aside(self):
        """Give place and connection of the running call to another one until the block ends."""
        connections.close_all()
        with self._lock:
            self._leave()
            self._begin_next()
        try:
            yield
        finally:
            with self._lock:
                self._returning += 1
                while self._running >= self._most:
                    self._room.wait()
                self._returning -= 1
                self._running += 1

    def _may_begin(self) -> bool:
        return bool(self._calls) and self._running + self._returning < self._most

    def _begin_next(self):
        if not self._may_begin():
            return
        if len(self._calls) <= self._idle or self._running + self._returning + self._idle >= self._most:
            self._work.notify()
        elif self._threads < self._most + ASIDE_THREADS:
            self._threads += 1
            self._idle += 1  # from now on, so that the next call does not start another one in its place
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def _leave(self):
        self._running -= 1
        self._room.notify_all()

    def _run(self):
        _here.threads = self
        has_run = False
        while (taken := self._take(has_run)) is not None:
            _call(*taken)
            has_run = True
        connections.close_all()
        with self._lock:
            self._threads -= 1
            self._room.notify_all()

    def _take(self, has_run: bool) -> tuple[Future, partial] | None:
        """Return the next call once it may begin; None if this thread is to end. `has_run`: a call of it is over."""
        with self._lock:
            if has_run:
                self._leave()
                self._idle += 1
            try:
                is_late = False
                while not self._may_begin():
                    if self._ended or is_late:
                        return None
                    is_late = not self._work.wait(IDLE_SECONDS)
                self._running += 1
                return self._calls.popleft()
            finally:
                self._idle -= 1


def _call(future: Future, call: partial):
    if not future.set_running_or_notify_cancel():
        return
    _close_broken(time.monotonic() - getattr(_here, "used_at", float("-inf")))
    try:
        result = call()
    except BaseException as error:
        finish = partial(future.set_exception, error)
    else:
        finish = partial(future.set_result, result)
    _close_broken(0)
    _here.used_at = time.monotonic()
    finish()


def _close_broken(unused_seconds: float):
    """Close connections that had an error, or are too old; look at those that nobody used before they are used."""
    for each in connections.all(initialized_only=True):
        if each.errors_occurred or unused_seconds > UNCHECKED_SECONDS:
            each.close_if_unusable_or_obsolete()


@atexit.register
def _finish():
    """Let the calls that have begun end before the process does; the threads would be cut off."""
    for each in _all:
        each.shutdown(cancel_futures=True)


class LoopThreads:
    """The threads that one event loop uses."""

    def __init__(self):
        self.queries = DatabaseThreads(QUERY_THREADS, "query")
        self.requests = DatabaseThreads(REQUEST_THREADS, "request")
        self.requests.queries = self.queries

    def end(self):
        self.queries.shutdown(wait=False)
        self.requests.shutdown(wait=False)


_loops: WeakKeyDictionary = WeakKeyDictionary()  # event loop: its LoopThreads
_loops_lock = threading.Lock()


def _of_this_loop() -> LoopThreads:
    """Return the threads of the running event loop, and end those of loops that were closed."""
    loop = asyncio.get_running_loop()
    with _loops_lock:
        if loop not in _loops:
            for closed in [other for other in _loops if other.is_closed()]:
                _loops.pop(closed).end()
            _loops[loop] = LoopThreads()
        return _loops[loop]


def in_threads(executor):
    """Return an async function that calls a function on one of these threads."""

    async def thread(function, *args, **kwargs):
        return await sync_to_async(function, thread_sensitive=False, executor=executor)(*args, **kwargs)

    return thread


async def query_in_thread(function, *args, **kwargs):
    """Run a short database query on a thread that this event loop keeps, at most QUERY_THREADS at once."""
    if not QUERY_THREADS:
        return await sync_to_async(function)(*args, **kwargs)
    return await in_threads(_of_this_loop().queries)(function, *args, **kwargs)


def on_request_threads(app):
    """Wrap an ASGI application so that its sync code runs on the loop's threads for requests.

    Django would start a thread, with a connection, for each request. Here a request has one only while its sync code
    runs, and not always the same: nothing of ours keeps anything in a thread.
    """

    async def bounded(scope, receive, send):
        if not REQUEST_THREADS:
            await app(scope, receive, send)
            return
        async with ThreadSensitiveContext(executor=_of_this_loop().requests):
            await app(scope, receive, send)

    return bounded


@contextmanager
def standing_aside():
    """Let another call have this thread's place and connection while this one waits, if it serves a request.

    Yield a function that makes a query meanwhile: `ask(function, *args)`.
    """
    threads = getattr(_here, "threads", None)
    if not hasattr(threads, "queries") or connection.in_atomic_block:
        yield lambda function, *args: function(*args)
        return
    with threads.aside():
        yield lambda function, *args: threads.queries.submit(function, *args).result()
