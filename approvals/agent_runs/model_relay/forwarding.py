"""Send one request to a provider, stream its response back, and settle what it used, however it ends."""

import asyncio
import contextlib
import re
from dataclasses import dataclass

import aiohttp
from django.conf import settings

from approvals.agent_runs.model_relay import accounts, bodies
from approvals.agent_runs.model_relay.providers import Provider, UsageReader
from approvals.models import ModelCall
from dashboard.database.threads import query_in_thread
from dashboard.net import outbound

CONNECT_SECONDS = 15
QUIET_SECONDS = 600  # without a byte: models think for minutes
RETURNED = ("content-type", "retry-after", "request-id", "x-request-id")  # of the response's headers
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
FAILED = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


@dataclass(frozen=True)
class Request:
    """A checked request; `headers` are those of the agent, of which few are passed on."""

    provider: Provider
    path: str
    key: str
    headers: dict[str, str]
    data: bytes

    @property
    def url(self) -> str:
        upstream = settings.HANDRAIL_MODEL_UPSTREAMS.get(self.provider.name, self.provider.upstream)
        return f"{upstream}{self.path}"

    @property
    def sent_headers(self) -> dict[str, str]:
        provider = self.provider
        kept = {name: self.headers[name] for name in ("accept",) if name in self.headers}
        if DATE.fullmatch(version := self.headers.get(provider.version_header, "")):
            kept[provider.version_header] = version
        if betas := bodies.allowed_betas(provider.name, self.headers.get(provider.beta_header, "")):
            kept[provider.beta_header] = betas
        # Uncompressed, so that what was used can be read as it passes by.
        sent = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "Handrail"}
        return kept | sent | self.provider.key_headers(self.key)


class Exchange:
    """The state of one exchange: what the provider answered, and what is reserved for it until it is settled."""

    def __init__(self, provider: Provider, call: ModelCall | None):
        self.provider, self.call = provider, call
        self.status: int | None = None
        self.usage: UsageReader | None = None
        self.is_sent = False  # to the provider

    async def settle(self):
        """Replace what is reserved by what was used, once."""
        call, self.call = self.call, None
        if call is not None:
            used = self.usage.end() if self.usage else None
            status = self.status if self.is_sent else 502
            # Shielded: web may be ending, and the row must not stay reserved.
            await asyncio.shield(query_in_thread(accounts.settle, call, status, used))


async def exchange(request: Request, call: ModelCall | None, receive, send):
    """Pass the request on and answer it; `call` is what was reserved for it, if it costs anything."""
    state = Exchange(request.provider, call)
    answering = asyncio.ensure_future(_answer(request, state, send))
    leaving = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            await answering
    finally:
        for task in (leaving, answering):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, *FAILED):
            await answering
        await state.settle()


async def _disconnected(receive):
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(request: Request, state: Exchange, send):
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=QUIET_SECONDS)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=jar, auto_decompress=False) as session:
        try:
            state.is_sent = True
            by = await outbound.aiohttp_options(request.url)
            asked = {"data": request.data, "headers": request.sent_headers, "allow_redirects": False}
            async with session.post(request.url, **asked, **by) as response:
                await _stream(response, state, send)
        except FAILED as error:
            if state.status is not None:
                raise  # a part was passed on
            state.is_sent = not isinstance(error, aiohttp.ClientConnectorError)
            await _say_unreachable(request.provider, send)


async def _stream(response: aiohttp.ClientResponse, state: Exchange, send):
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    state.usage = UsageReader(state.provider, is_stream=is_stream)
    headers = [
        (name.encode(), response.headers[name].encode("latin-1")) for name in RETURNED if name in response.headers
    ]
    state.status = response.status
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    async for piece in response.content.iter_any():
        state.usage.feed(piece)
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await state.settle()  # before the end, so that the agent's next request finds the budget as it is
    await send({"type": "http.response.body", "body": b""})


async def _say_unreachable(provider: Provider, send):
    body = provider.error(502, f"The provider {provider.name} is not reached.")
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 502, "headers": headers})
    await send({"type": "http.response.body", "body": body})
