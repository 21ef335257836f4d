"""The journal of each actor: one entry for each try of a request, and the client that writes the entries."""

import asyncio
import json
import time
from dataclasses import dataclass, field

import aiohttp

AWAY = (502, 503)  # a good client tries again
PATIENCE = 150.0  # seconds for which it does
PAUSE = 0.5


@dataclass
class Seen:
    """One try of a request. `status` 0: there was no answer; `about` is what the checker compares with the database."""

    at: float  # unix time at which the try began
    seconds: float
    actor: str
    verb: str
    status: int
    about: dict = field(default_factory=dict)
    problem: str = ""


@dataclass
class HookEvent:
    """An answer."""

    status: int
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


class Actor:
    """Somebody with a token, who asks through the day's network and notes down each try.

    `about` goes into the record of the try; what the answer says is added by `note`.
    """

    def __init__(self, name: str, token: str, day):
        self.name, self.token, self.day = name, token, day

    async def call(self, verb: str, method: str, path: str, body=None, *, about=None, key="", timeout=90) -> HookEvent:
        """Ask until an answer is none of an outage, or patience ends; return the last one (status 0: none)."""
        until = time.monotonic() + PATIENCE
        while True:
            heard = await self.ask(verb, method, path, body, about=about, key=key, timeout=timeout)
            if heard.status not in (0, *AWAY) or time.monotonic() > until or self.day.is_over:
                return heard
            await asyncio.sleep(PAUSE)

    async def ask(self, verb: str, method: str, path: str, body=None, *, about=None, key="", timeout=90) -> HookEvent:
        """Ask once."""
        headers = {"Authorization": f"Bearer {self.token}"} | ({"Idempotency-Key": key} if key else {})
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        at, began, why = time.time(), time.monotonic(), ""
        try:
            options = {"headers": headers, "data": data, "timeout": aiohttp.ClientTimeout(total=timeout)}
            async with self.day.session.request(method, self.day.url + path, **options) as answer:
                heard = HookEvent(answer.status, await answer.read())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            heard, why = HookEvent(0, b""), repr(error)[:200]
        if heard.status >= 400:
            why = heard.body[:300].decode(errors="replace")
        self.note(verb, heard.status, about, at=at, seconds=time.monotonic() - began, problem=why)
        return heard

    def note(self, verb: str, status: int, about=None, *, at=None, seconds=0.0, problem=""):
        now = time.time() if at is None else at
        self.day.seen.append(Seen(now, seconds, self.name, verb, status, dict(about or {}), problem))
