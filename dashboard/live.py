"""The feed: who follows what happens holds a cursor, and is told only that there is more.

A cursor is the sum of the event numbers of the teams that somebody sees: it grows with each event of any of them.
One task for each web process looks at the teams' counters every 250 ms and wakes whoever waits; nothing depends on
a message arriving, because whoever waits also looks by itself every few seconds.
"""

import asyncio
import weakref
from collections import defaultdict

from asgiref.sync import sync_to_async

from dashboard.models import Event, Team

TICK = 0.25  # seconds between two looks at the counters


def cursor_of(caller) -> int:
    return sum(Team.objects.filter(pk__in=caller.team_ids).values_list("event_seq", flat=True))


class Feed:
    """The events of all teams, as one process hears of them. One for each event loop."""

    def __init__(self):
        self._seen: dict = {}
        self._waiting: dict = defaultdict(set)  # (team id, subject id or None): futures
        self._task = None

    async def wait(self, team_ids, *, subject=None, timeout: float) -> bool:
        """Wait until one of the teams has a new event (about the subject, when given); False when time is up."""
        self._run()
        future = asyncio.get_running_loop().create_future()
        keys = [(team_id, subject) for team_id in team_ids]
        for key in keys:
            self._waiting[key].add(future)
        try:
            await asyncio.wait_for(future, timeout)
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
        while self._waiting:
            for team_id, subjects in (await sync_to_async(self._news, thread_sensitive=False)()).items():
                self._wake(team_id, subjects)
            await asyncio.sleep(TICK)

    def _news(self) -> dict:
        """{team id: subject ids of its new events}; the first look at a team wakes everybody who waits for it."""
        news = {}
        for team_id, seq in Team.objects.values_list("pk", "event_seq"):
            before = self._seen.get(team_id)
            if before == seq:
                continue
            self._seen[team_id] = seq
            if before is None:
                news[team_id] = None
            else:
                news[team_id] = set(
                    Event.objects.filter(team=team_id, seq__gt=before, seq__lte=seq).values_list(
                        "subject_id", flat=True
                    )
                )
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
    """The feed of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _feeds:
        _feeds[loop] = Feed()
    return _feeds[loop]
