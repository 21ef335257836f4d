"""A web that goes away while a runner answers it is no fault of the runner: its log says nothing of it."""

import asyncio
import logging
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from workspaces.runner.server import errors_as_json

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
