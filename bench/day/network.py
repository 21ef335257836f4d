"""The way from the actors to web: a proxy of the day's own, which can be made slow."""

import asyncio
import contextlib

CHUNK = 64 * 1024


class Network:
    """Passes TCP connections on to an address; `delay` (seconds) and `rate` (bytes a second) slow it down."""

    def __init__(self, port: int, address: str):
        self.to, self.delay, self.rate = (address, port), 0.0, 0.0
        self.server: asyncio.Server | None = None
        self._open: set[asyncio.Task] = set()

    async def start(self) -> int:
        self.server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        return self.server.sockets[0].getsockname()[1]

    async def stop(self):
        self.server.close()
        for task in self._open:
            task.cancel()

    async def _pass_on(self, reader, writer):
        task = asyncio.current_task()
        self._open.add(task)
        try:
            there, back = await asyncio.open_connection(*self.to)
        except OSError:
            writer.transport.abort()
            self._open.discard(task)
            return
        try:
            await asyncio.gather(self._copy(reader, back), self._copy(there, writer))
        except OSError:
            pass
        finally:
            self._open.discard(task)
            for end in (writer, back):
                with contextlib.suppress(OSError):
                    end.close()

    async def _copy(self, reader, writer):
        while data := await reader.read(CHUNK):
            if self.delay or self.rate:
                await asyncio.sleep(self.delay + (len(data) / self.rate if self.rate else 0))
            writer.write(data)
            await writer.drain()
        with contextlib.suppress(OSError):
            writer.write_eof()
