"""One client of many: sends as the attacker, and remembers every byte that it got to see."""

import asyncio
import json
import random

import aiohttp

MB = 1024**2
MAX_BODY = 4 * MB


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Read a body whole, up to `MAX_BODY`."""
    body = bytearray()
    while len(body) < MAX_BODY and (piece := await content.readany()):
        body += piece
    return bytes(body)


class Attacker:
    """One client of many; remembers every byte that it got to see."""

    def __init__(self, session: aiohttp.ClientSession, ground, seed: int):
        self.session, self.ground, self.chance = session, ground, random.Random(seed)
        self.heard: list[bytes] = []
        self.statuses: dict[int, int] = {}

    @property
    def token(self) -> str:
        return self.chance.choice([self.ground.mallory, self.ground.mallory, self.ground.hook])

    async def send(self, method: str, path: str, body=None, *, token=None, **options) -> tuple[int, bytes]:
        """Send it as the attacker, and keep what comes back; status 0 where the connection was refused or cut."""
        headers = {"Authorization": f"Bearer {token or self.token}"} | options.pop("headers", {})
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), headers | {"Content-Type": "application/json"}
        try:
            url = self.ground.product.url + path
            async with self.session.request(method, url, data=body, headers=headers, **options) as answer:
                status, said = answer.status, await _read(answer.content)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            status, said = 0, b""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.heard.append(said)
        return status, said

    async def api(self, method: str, path: str, body=None, **options) -> tuple[int, bytes]:
        return await self.send(method, "/api/v1" + path, body, **options)

    async def hook(self, tool: str, arguments: dict, *, seconds: float = 2.0, cwd: str | None = None):
        """Send a tool call as Claude Code's hook does; press Esc after a while, so that nothing waits for ever."""
        event = {
            "session_id": f"s{self.chance.randrange(20)}",
            "hook_event_name": "PreToolUse",
            "tool_name": tool,
            "tool_input": arguments,
            "tool_use_id": f"t{self.chance.randrange(10**9)}",
            "cwd": cwd or str(self.ground.own),
        }
        timeout = aiohttp.ClientTimeout(total=seconds)
        await self.send("POST", "/hooks/claude-code", event, token=self.ground.hook, timeout=timeout)

    async def workspace(self) -> str:
        """One of a few workspaces of mallory's own, up."""
        key = f"mallory-{self.chance.randrange(3)}"
        await self.api("POST", "/workspaces", {"key": key}, token=self.ground.mallory)
        return key

    async def run(self, key: str, command: str):
        body = {"command": command, "timeout_s": 20}
        status, said = await self.api("POST", f"/workspaces/{key}/commands", body, token=self.ground.mallory)
        if status == 201:
            pk = json.loads(said)["id"]
            await self.api("GET", f"/commands/{pk}?wait=20", token=self.ground.mallory)
            await self.api("GET", f"/commands/{pk}/output", token=self.ground.mallory)

    async def socket(self, path: str, frames=(), *, token=None, headers=(), seconds: float = 2.0):
        url = self.ground.product.url.replace("http", "ws", 1) + path
        sent = {"Authorization": f"Bearer {token or self.token}"} | dict(headers)
        try:
            async with asyncio.timeout(seconds), self.session.ws_connect(url, headers=sent) as socket:
                for frame in frames:
                    await (socket.send_bytes(frame) if isinstance(frame, bytes) else socket.send_str(frame))
                while True:
                    said = await socket.receive()
                    if not isinstance(said.data, (str, bytes)):
                        break
                    self.heard.append(said.data if isinstance(said.data, bytes) else said.data.encode())
        except (aiohttp.ClientError, OSError, TimeoutError):
            pass
