"""A Handrail of the benchmark's own, and its agents and reviewer as asyncio clients on loopback."""

import asyncio
import contextlib
import tempfile
import time
import uuid
from pathlib import Path

import aiohttp

from tests.support.product import Product


@contextlib.asynccontextmanager
async def running():
    """Start a product, yield a Desk on it, and remove the product afterwards."""
    with tempfile.TemporaryDirectory(prefix="handrail-bench-", ignore_cleanup_errors=True) as folder:
        product = Product(Path(folder, "home"))
        try:
            product.start()
            agent, person = product.agent_token("bench"), product.person_token("rita", "lead")
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(product.url, connector=connector) as session:
                yield Desk(session, agent, person, product)
        finally:
            await asyncio.to_thread(product.clean_up)  # it has a loop of its own


class Desk:
    """Calls return parsed JSON and raise for a refusal; `agent` and `person` are tokens."""

    def __init__(self, session: aiohttp.ClientSession, agent: str, person: str, product: Product | None = None):
        self.session, self.agent, self.person, self.product = session, agent, person, product

    async def call(self, method: str, path: str, token: str, body=None) -> dict:
        headers = {"Authorization": f"Bearer {token}"}
        async with self.session.request(method, f"/api/v1{path}", json=body, headers=headers) as answer:
            if answer.status >= 400:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            return await answer.json()

    async def ask(self, **more) -> dict:
        body = {"tool": "Bash", "arguments": {"command": f"git push origin {uuid.uuid4().hex}"}, **more}
        return await self.call("POST", "/actions", self.agent, body)

    async def approve(self, action: dict) -> dict:
        body = {"verdict": "approve", "digest": action["digest"]}
        return await self.call("POST", f"/actions/{action['id']}/decision", self.person, body)

    async def poll(self, action: dict) -> dict:
        """As an agent waits: one long poll after the other until it is decided."""
        while (found := await self.call("GET", f"/actions/{action['id']}?wait=25", self.agent))["status"] == "pending":
            pass
        return found

    @contextlib.asynccontextmanager
    async def listening(self):
        """Open the reviewer's socket; `hear()` returns the moment of its next message."""
        headers = {"Authorization": f"Bearer {self.person}"}
        async with self.session.ws_connect("/ws/live", headers=headers) as socket:
            await socket.receive_str()

            async def hear() -> float:
                await socket.receive_str()
                return time.perf_counter()

            yield hear

    async def workspace(self, key: str = "bench") -> str:
        await self.call("POST", "/workspaces", self.agent, {"key": key})
        while (found := await self.call("GET", f"/workspaces/{key}?wait=25", self.agent))["busy"]:
            pass
        if found["state"] != "ready":
            raise RuntimeError(f"{key}: {found['reason']}")
        return key

    async def finished(self, command: dict) -> dict:
        while (found := await self.call("GET", f"/commands/{command['id']}?wait=25", self.agent))["state"] not in (
            "settled",
            "uncertain",
        ):
            pass
        return found
