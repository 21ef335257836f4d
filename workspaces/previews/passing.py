"""Pass one request or WebSocket on to the program behind a unix socket, and its answer back, as streams."""

import asyncio
import contextlib

import aiohttp
from yarl import URL

from workspaces.previews import headers
from workspaces.services.previews import Target

CONNECT_SECONDS = 15
MAX_MESSAGE_BYTES = 16 << 20  # of one WebSocket message
GONE = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


class NoAnswer(Exception):
    """The program did not accept the connection, or ended it before it answered."""


def _session(path: str) -> aiohttp.ClientSession:
    """Return a session for one request: connections are not kept, as the program may end at any time."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
    connector = aiohttp.UnixConnector(path, force_close=True)
    return aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    )


def _address(scope, port: int) -> URL:
    path = scope.get("raw_path") or scope["path"].encode()
    query = scope["query_string"]
    text = f"http://localhost:{port}{path.partition(b'?')[0].decode('latin-1')}"
    return URL(f"{text}?{query.decode('latin-1')}" if query else text, encoded=True)


async def pass_request(target: Target, origin: str, path: str, scope, receive, send):
    """Answer an HTTP request with the program's response, piece by piece; end it when the browser goes away."""
    sent = headers.to_program(scope["headers"], target.port, origin)
    has_body = headers.first(scope["headers"], b"content-length") not in ("", "0") or any(
        key == b"transfer-encoding" for key, _ in scope["headers"]
    )
    body_read = asyncio.Event()
    if not has_body:
        await receive()
        body_read.set()
    async with _session(path) as session:
        data = _body(receive, body_read) if has_body else None
        answering = asyncio.ensure_future(_answer(session, target, scope, sent, data, send))
        leaving = asyncio.ensure_future(_disconnected(receive, body_read))
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not answering.done():
            answering.cancel()
            with contextlib.suppress(asyncio.CancelledError, NoAnswer, *GONE):
                await answering
            return
        await answering


async def _body(receive, read: asyncio.Event):
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError
        more = message.get("more_body", False)
        if message.get("body"):
            yield message["body"]
    read.set()


async def _disconnected(receive, body_read: asyncio.Event):
    await body_read.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(session, target: Target, scope, sent, data, send):
    started = False
    try:
        async with session.request(
            scope["method"],
            _address(scope, target.port),
            headers=sent,
            data=data,
            allow_redirects=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as response:
            answer = headers.to_browser(list(response.raw_headers), target.port)
            await send({"type": "http.response.start", "status": response.status, "headers": answer})
            started = True
            async for piece in response.content.iter_any():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
    except GONE as error:
        if not started:
            raise NoAnswer from error
        raise  # the server cuts the connection, so that the browser does not take a part for the whole


async def pass_socket(target: Target, origin: str, path: str, scope, receive, send):
    """Join a WebSocket of the browser to one of the program, with the subprotocol that the program chooses."""
    await receive()  # websocket.connect
    sent = headers.to_program(scope["headers"], target.port, origin)
    async with _session(path) as session:
        try:
            program = await session.ws_connect(
                _address(scope, target.port),
                headers=sent,
                protocols=scope.get("subprotocols", ()),
                max_msg_size=MAX_MESSAGE_BYTES,
                autoclose=True,
            )
        except GONE:
            await send({"type": "websocket.close", "code": 1014})
            return
        await send({"type": "websocket.accept", "subprotocol": program.protocol})
        both = {asyncio.ensure_future(_up(receive, program)), asyncio.ensure_future(_down(program, send))}
        _, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        await program.close()


async def _up(receive, program: aiohttp.ClientWebSocketResponse):
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await program.send_str(message["text"])
        else:
            await program.send_bytes(message["bytes"])


async def _down(program: aiohttp.ClientWebSocketResponse, send):
    async for message in program:
        kind = {aiohttp.WSMsgType.TEXT: "text", aiohttp.WSMsgType.BINARY: "bytes"}.get(message.type)
        if kind is None:
            break
        await send({"type": "websocket.send", kind: message.data})
    await send({"type": "websocket.close", "code": program.close_code or 1000})
