"""A web that goes away while a runner answers it is no fault of the runner: its log says nothing of it."""

import asyncio
import logging
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from workspaces.runner import streams
from workspaces.runner.server import errors_as_json
from workspaces.shim.recording import Output

pytestmark = pytest.mark.filterwarnings("ignore::aiohttp.web_exceptions.NotAppKeyWarning")


async def sends_to_nobody(request):
    response = web.StreamResponse()
    await response.prepare(request)
    request.transport.close()  # as where the other end is gone; it is None only once the loop has turned again
    await response.write(b"more")


async def cannot_reach_another(request):
    raise ConnectionError("another host does not answer")


async def ask(path: str) -> int:
    app = web.Application(middlewares=[errors_as_json])
    app["daemon"] = SimpleNamespace(up=SimpleNamespace(forget=lambda: None))
    app.add_routes([web.get("/nobody", sends_to_nobody), web.get("/another", cannot_reach_another)])
    async with TestClient(TestServer(app)) as client, client.get(path) as answer:
        await answer.read()
        return answer.status


def test_an_answer_that_nobody_reads_any_more_is_not_logged(caplog):
    with caplog.at_level(logging.ERROR), pytest.raises(aiohttp.ClientError):
        asyncio.run(ask("/nobody"))
    assert caplog.records == []


def test_a_connection_of_its_own_that_breaks_is_logged_as_before(caplog):
    with caplog.at_level(logging.ERROR):
        assert asyncio.run(ask("/another")) == 500
    assert [record.getMessage() for record in caplog.records] == ["GET /another"]


class Closed:
    """A writer over TLS that its other end has left: the transport has nothing below it to write to any more."""

    is_closing, drain = staticmethod(lambda: True), None

    def write(self, data: bytes):
        raise AttributeError("'NoneType' object has no attribute '_write_appdata'")


async def late_bytes():
    reader = asyncio.StreamReader()
    reader.feed_data(b"late")
    reader.feed_eof()
    await streams._pass(reader, Closed())
    return await reader.read()


async def late_parts():
    async def parts():
        yield Output(0, b"late")
        await asyncio.Event().wait()

    async with asyncio.timeout(10):
        await streams._send(parts(), Closed())


def test_bytes_and_parts_for_a_stream_that_was_left_are_dropped():
    assert asyncio.run(late_bytes()) == b""
    asyncio.run(late_parts())
