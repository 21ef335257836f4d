"""A program at the other end of a terminal's socket: reads, acknowledges, types, drops the line and comes back."""

import asyncio
import json
import time

import aiohttp

ACK_BYTES = 32 * 1024


class Viewer:
    """`async with Viewer(product, token, id) as viewer`: `data` and `frames` are what it was sent."""

    def __init__(self, product, token: str, terminal: str, offset: int = 0, *, name: str = "", typed: int = 0):
        query = f"offset={offset}" + (f"&typist={name}&typed={typed}" if name else "")
        self._address = f"{product.url}/ws/terminals/{terminal}?{query}"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._keeps = True
        self.offset, self.acked = offset, offset
        self.data = bytearray()
        self.gaps: list[tuple[int, int]] = []
        self.frames: list[dict] = []
        self.closed: int | None = None

    async def __aenter__(self):
        self._session = aiohttp.ClientSession(headers=self._headers)
        try:
            self.socket = await self._session.ws_connect(self._address, max_msg_size=0)
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *_):
        await self._session.close()

    def drop(self):
        """The line breaks: no goodbye."""
        self.socket._response.connection.transport.abort()

    def forgets(self, take):
        """Hand bytes to `take` instead of keeping them."""
        self._keeps, self._take = False, take
        return self

    async def type(self, data: bytes):
        await self.socket.send_bytes(data)

    async def say(self, **frame):
        await self.socket.send_str(json.dumps(frame))

    async def step(self, timeout: float = 30.0) -> bool:
        """Take one message; False when the line is gone."""
        message = await self.socket.receive(timeout)
        if message.type == aiohttp.WSMsgType.BINARY:
            self.offset += len(message.data)
            if self._keeps:
                self.data += message.data
            else:
                self._take(message.data)
            if self.offset - self.acked >= ACK_BYTES:
                self.acked = self.offset
                await self.say(type="ack", offset=self.offset)
        elif message.type == aiohttp.WSMsgType.TEXT:
            frame = json.loads(message.data)
            self.frames.append(frame)
            if frame["type"] == "gap":
                self.gaps.append((frame["from"], frame["to"]))
                self.offset = self.acked = frame["to"]
        else:
            self.closed = self.socket.close_code
            return False
        return True

    async def until(self, holds, timeout: float = 30.0):
        """Read on until `holds(self)`; what it returned."""
        deadline = time.monotonic() + timeout
        while not (found := holds(self)):
            assert time.monotonic() < deadline, (bytes(self.data[-300:]), self.frames[-5:])
            try:
                assert await self.step(min(1.0, deadline - time.monotonic())), (self.closed, self.frames[-5:])
            except TimeoutError:
                continue
        return found

    async def sees(self, text: bytes, timeout: float = 30.0):
        await self.until(lambda viewer: text in viewer.data, timeout)

    async def frame(self, kind: str, timeout: float = 30.0) -> dict:
        """The newest frame of this kind, once there is one."""
        return await self.until(lambda v: next((f for f in reversed(v.frames) if f["type"] == kind), None), timeout)

    async def to_the_end(self, timeout: float = 60.0) -> dict:
        return await self.frame("exit", timeout)

    async def closes(self, timeout: float = 10.0) -> int:
        """Read until the server closes; its code."""
        async with asyncio.timeout(timeout):
            while await self.step(timeout):
                pass
        return self.closed

    async def rests(self, seconds: float = 0.5):
        """Read what comes until nothing comes for a while."""
        try:
            while await self.step(seconds):
                pass
        except TimeoutError:
            pass
