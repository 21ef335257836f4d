"""`python -m bench.terminals [--megabytes N] [--keys N]`: throughput and key echo of a terminal, beside terminado.

Both run the same programs on this machine, one after the other in one run, over a WebSocket of 127.0.0.1. Ours records
every byte, crosses a sandbox and a process of its own, and acknowledges; terminado (`pip install terminado`) reads the
pty in the web server and keeps nothing. A busy machine says so in `load`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from tests.support.product import Product, free_port

ROUNDS = 3


class Ours:
    """Handrail's socket: binary frames, acknowledged."""

    def __init__(self, socket):
        self.socket, self.offset, self.acked = socket, 0, 0

    async def type(self, text: str):
        await self.socket.send_bytes(text.encode())

    async def read(self) -> str:
        while True:
            message = await self.socket.receive()
            if message.type == aiohttp.WSMsgType.BINARY:
                self.offset += len(message.data)
                if self.offset - self.acked >= 32 * 1024:
                    self.acked = self.offset
                    await self.socket.send_str(json.dumps({"type": "ack", "offset": self.offset}))
                return message.data.decode("latin-1")
            if message.type != aiohttp.WSMsgType.TEXT:
                raise ConnectionError("the socket was closed")


class Theirs:
    """terminado's: JSON, unacknowledged."""

    def __init__(self, socket):
        self.socket = socket

    async def type(self, text: str):
        await self.socket.send_str(json.dumps(["stdin", text]))

    async def read(self) -> str:
        while True:
            kind, *rest = json.loads(await self.socket.receive_str())
            if kind == "stdout":
                return rest[0]


async def throughput(terminal, size: int) -> float:
    """MB/s from the key that starts it to the last byte."""
    await wait_for(terminal, "ready")
    began = time.perf_counter()
    await terminal.type("\n")
    got = 0
    while got < size:
        got += len(await terminal.read())
    return size / 1e6 / (time.perf_counter() - began)


async def echoes(terminal, count: int) -> list[float]:
    """Milliseconds from a key to its echo by the pty."""
    await wait_for(terminal, "ready")
    found = []
    for number in range(count):
        letter = "abcdefghij"[number % 10]
        began = time.perf_counter()
        await terminal.type(letter)
        await wait_for(terminal, letter)
        found.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.005)
    return found


async def wait_for(terminal, text: str):
    seen = ""
    while text not in seen:
        seen += await terminal.read()


class Desk:
    """A running Handrail with a workspace."""

    name = "handrail"

    def __init__(self, home: Path):
        self.product = Product(home)

    def start(self):
        self.product.start()
        self.token = self.product.person_token("bench", "lead")
        self.product.post("/api/v1/workspaces", self.token, {"key": "bench"})
        while self.product.get("/api/v1/workspaces/bench?wait=10", self.token).json["busy"]:
            pass

    def stop(self):
        self.product.manage("down")
        self.product.clean_up()

    @contextlib.asynccontextmanager
    async def terminal(self, command: str):
        wish = {"argv": ["bash", "-c", command]}
        made = self.product.post("/api/v1/workspaces/bench/terminals", self.token, wish).json["id"]
        headers = {"Authorization": f"Bearer {self.token}"}
        address = f"{self.product.url}/ws/terminals/{made}"
        async with aiohttp.ClientSession(headers=headers) as session, session.ws_connect(address, max_msg_size=0) as ws:
            yield Ours(ws)


class Peer:
    """terminado, a server for each program."""

    name = "terminado"

    def start(self):
        pass

    def stop(self):
        pass

    @contextlib.asynccontextmanager
    async def terminal(self, command: str):
        port = free_port()
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.terminals.peer", str(port), command], stderr=subprocess.DEVNULL
        )
        try:
            async with aiohttp.ClientSession() as session:
                async with await _connected(session, f"http://127.0.0.1:{port}/ws/one") as ws:
                    yield Theirs(ws)
        finally:
            server.kill()
            server.wait()


async def _connected(session, address: str):
    for _ in range(200):
        try:
            return await session.ws_connect(address, max_msg_size=0)
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.05)
    raise ConnectionError("terminado did not start")


async def measure(side, megabytes: int, keys: int) -> dict:
    size = megabytes * 1_000_000
    flood = f"stty -opost -echo; echo ready; read -r; seq 1 100000000 | head -c {size}; sleep 1"
    rates, times = [], []
    for _ in range(ROUNDS):
        async with side.terminal(flood) as terminal:
            rates.append(await throughput(terminal, size))
        async with side.terminal("echo ready; cat > /dev/null") as terminal:
            times += await echoes(terminal, keys // ROUNDS)
    cuts = statistics.quantiles(times, n=100, method="inclusive")
    echo = {"p50": cuts[49], "p95": cuts[94], "p99": cuts[98]}
    return {"MB/s": round(statistics.median(rates), 1)} | {f"echo ms {name}": round(v, 2) for name, v in echo.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--keys", type=int, default=300)
    asked = parser.parse_args()
    try:
        import terminado  # noqa: F401 - only to know
    except ImportError:
        print("terminado is not installed here: pip install terminado", file=sys.stderr)
        raise SystemExit(1) from None
    with tempfile.TemporaryDirectory() as home:
        for side in (Desk(Path(home, "home")), Peer()):
            side.start()
            try:
                found = asyncio.run(measure(side, asked.megabytes, asked.keys))
            finally:
                side.stop()
            print(json.dumps({"terminal": side.name, "load": round(os.getloadavg()[0], 1)} | found), flush=True)


if __name__ == "__main__":
    main()
