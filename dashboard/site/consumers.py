"""The WebSocket of open pages: it sends only "there is more, up to N"; the page then fetches what it shows."""

import asyncio
import json
import time
from functools import partial

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from dashboard.database.outages import patiently
from dashboard.live.feed import cursor_of, feed
from dashboard.web.socket_auth import NOT_SIGNED_IN, RECHECK_INTERVAL, who_calls

POLL_INTERVAL = 5  # seconds after which the counters are read again without news


class Live(AsyncWebsocketConsumer):
    """Sends {"upto": N} to signed-in members; closes once the session or the last membership is gone."""

    VERB = "WS /ws/live"
    VERBS = (VERB,)

    async def connect(self):
        self._task = None
        self._caller = await who_calls(self.scope, self.VERB)
        if self._caller is None:
            await self.close(NOT_SIGNED_IN)
            return
        await self.accept()
        self._task = asyncio.create_task(self._follow())

    async def disconnect(self, code):
        if self._task:
            self._task.cancel()

    async def receive(self, text_data=None, bytes_data=None):
        """Ignore what the page sends."""

    async def _follow(self):
        sent, checked = -1, time.monotonic()
        while True:
            if time.monotonic() - checked >= RECHECK_INTERVAL:
                who = partial(who_calls, self.scope, self.VERB)
                self._caller, checked = await patiently(who), time.monotonic()
                if self._caller is None:
                    await self.close(NOT_SIGNED_IN)
                    return
            upto = await patiently(partial(sync_to_async(cursor_of), self._caller))
            if upto != sent:
                await self.send(json.dumps({"upto": upto}))
                sent = upto
            await feed().wait(self._caller.team_ids, timeout=POLL_INTERVAL)
