"""A push service as Firefox's vendor runs one, on loopback: browsers by WebSocket, application servers by POST.

It sees what a vendor sees: ciphertext and headers. The keys are the browser's.
"""

import asyncio
import base64
import json
import uuid
from dataclasses import dataclass
from threading import Thread

from aiohttp import WSMsgType, web


@dataclass
class Passed:
    """One message as an application server sent it."""

    channel: str
    headers: dict
    body: bytes


class Autopush:
    """`url` is for Firefox's dom.push.serverURL; `passed` is what was delivered, `acknowledged` what Firefox took."""

    def __init__(self):
        self.browsers, self.registered, self.passed, self.acknowledged = [], {}, [], []
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        self.url = f"ws://127.0.0.1:{self.port}/"

    async def _start(self) -> int:
        application = web.Application()
        application.router.add_get("/", self._browser)
        application.router.add_post("/to/{channel}", self._deliver)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return site._server.sockets[0].getsockname()[1]

    def close(self):
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _browser(self, request):
        connection = web.WebSocketResponse(protocols=["push-notification"])
        await connection.prepare(request)
        async for message in connection:
            if message.type is WSMsgType.TEXT:
                answer = self._answer(json.loads(message.data or "{}"), connection)
                if answer is not None:
                    await connection.send_str(json.dumps(answer))
        return connection

    def _answer(self, said: dict, connection) -> dict | None:
        match said.get("messageType"):
            case "hello":
                return {
                    "messageType": "hello",
                    "status": 200,
                    "uaid": said.get("uaid") or uuid.uuid4().hex,
                    "use_webpush": True,
                }
            case "register":
                channel = said["channelID"]
                self.registered[channel] = connection
                endpoint = f"http://127.0.0.1:{self.port}/to/{channel}"
                return {"messageType": "register", "status": 200, "channelID": channel, "pushEndpoint": endpoint}
            case "unregister":
                self.registered.pop(said["channelID"], None)
                return {"messageType": "unregister", "status": 200, "channelID": said["channelID"]}
            case "ack":
                self.acknowledged.extend(said["updates"])
                return None
            case "ping" | None:
                return {}
        return None

    async def _deliver(self, request):
        channel = request.match_info["channel"]
        connection = self.registered.get(channel)
        if connection is None:
            return web.Response(status=410)
        headers, body = {name.lower(): value for name, value in request.headers.items()}, await request.read()
        self.passed.append(Passed(channel, headers, body))
        message = {"messageType": "notification", "channelID": channel, "version": uuid.uuid4().hex}
        message["data"] = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
        message["headers"] = {"encoding": headers["content-encoding"]}
        await connection.send_str(json.dumps(message))
        return web.Response(status=201, headers={"Location": str(request.url)})
