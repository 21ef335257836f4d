"""The feed: wakes tasks that wait for new events. A waiter holds a cursor, and is told only that there is more.

A cursor is the sum of the event numbers of the teams that the caller may see: it grows with each event of any of them.
One task in each web process reads the teams' counters and wakes waiters: after each commit of an event on this host
(see wakes.py), and every POLL_INTERVAL seconds for events of other hosts. Nothing depends on a message being
delivered: waiters also check by themselves every few seconds.
"""

import asyncio
import weakref
from collections import defaultdict
from contextlib import suppress
from functools import partial

from django.db.models import BigIntegerField, UUIDField

from dashboard.database.outages import patiently
from dashboard.database.prepared import Prepared, Slot
from dashboard.database.threads import query_in_thread
from dashboard.models import Event, Team
from dashboard.workers.wakes import listen_as_feed

POLL_INTERVAL = 0.25  # seconds between two reads of the counters without a wake-up


def cursor_of(caller) -> int:
    """Return the cursor of the caller's teams: the sum of their newest event numbers."""
    return sum(Team.objects.filter(pk__in=caller.team_ids).values_list("event_seq", flat=True))


def _subjects():
    before, last = Slot("before", BigIntegerField()), Slot("last", BigIntegerField())
    new = Event.objects.filter(team=Slot("team", UUIDField()), seq__gt=before, seq__lte=last)
    return new.order_by().values_list("subject_id", flat=True)


_SUBJECTS = Prepared(_subjects)


class Feed:
    """Wakes waiters on the events of all teams. One for each event loop."""

    def __init__(self):
        self._seen: dict = {}
        self._waiting: dict = defaultdict(set)  # (team id, subject id or None): futures
        self._task = None
        self._heard = asyncio.Event()

    async def wait(self, team_ids, *, subject=None, timeout: float) -> bool:
        """Wait until one of the teams has a new event (about `subject`, if given); return False after `timeout`."""
        self._run()
        future = asyncio.get_running_loop().create_future()
        keys = [(team_id, subject) for team_id in team_ids]
        for key in keys:
            self._waiting[key].add(future)
        try:
            # Not wait_for: up to Python 3.11 it loses a cancellation that comes together with the event.
            async with asyncio.timeout(timeout):
                await future
            return True
        except TimeoutError:
            return False
        finally:
            for key in keys:
                self._waiting[key].discard(future)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _run(self):
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self):
        stop = listen_as_feed(self._heard.set)
        try:
            while self._waiting:
                self._heard.clear()
                for team_id, subjects in (await patiently(partial(query_in_thread, self._news))).items():
                    self._wake(team_id, subjects)
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_INTERVAL):
                        await self._heard.wait()
        finally:
            stop()

    def _news(self) -> dict:
        """Return {team id: subject ids of its new events}; None for a team read for the first time, to wake all."""
        news = {}
        for team_id, seq in Team.objects.values_list("pk", "event_seq"):
            before = self._seen.get(team_id)
            if before == seq:
                continue
            if before is None:
                news[team_id] = None
            else:
                news[team_id] = set(_SUBJECTS.rows(team=team_id, before=before, last=seq))
            self._seen[team_id] = seq  # after the queries, which may fail
        return news

    def _wake(self, team_id, subjects):
        for (waited_team, subject), futures in list(self._waiting.items()):
            if waited_team != team_id or not (subject is None or subjects is None or subject in subjects):
                continue
            for future in futures:
                if not future.done():
                    future.set_result(True)


_feeds: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def feed() -> Feed:
    """Return the feed of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _feeds:
        _feeds[loop] = Feed()
    return _feeds[loop]
