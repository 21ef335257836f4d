"""`doctor --url ADDRESS`: does what agents and terminals need get through to Handrail, and which lines to change.

Four things that a proxy in front breaks one by one: sockets, a hook that is held for long, a large upload, and an
answer that is streamed. Each is tried for real, as an agent of its own in a workspace of its own.
"""

import asyncio
import json
import tarfile
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from io import BytesIO

import aiohttp

from dashboard.doctor import Finding

UPLOAD_BYTES = 50 * 1024 * 1024
STREAM_SECONDS = 40  # shorter than any proxy lets an answer be silent
NGINX = {
    "sockets": "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $upgrade;",
    "hold": "proxy_read_timeout 180s; proxy_send_timeout 180s;",
    "upload": "client_max_body_size 1g; proxy_request_buffering off;",
    "streaming": "proxy_buffering off;",
}


@dataclass
class Way:
    """One way to Handrail: its address as people outside see it, and an agent's token."""

    address: str
    token: str
    hold_seconds: float
    http: aiohttp.ClientSession
    key: str

    async def call(self, method, path, **body) -> tuple[int, dict]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.http.request(method, self.address + path, headers=headers, **body) as answer:
            text = await answer.text()
            try:
                return answer.status, json.loads(text)
            except ValueError:
                raise Broken(f"it answered {answer.status} with something that is not Handrail's") from None


class Broken(Exception):
    """What did not get through, in words."""


async def examine(address: str, token: str, hold_seconds: float, key: str) -> list[Finding]:
    """Try everything through `address`, side by side; in a workspace that is made for it under this key."""
    timeout = aiohttp.ClientTimeout(total=hold_seconds + 120)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        way = Way(address.rstrip("/"), token, hold_seconds, http, key)
        reached = await _found("reached", lambda: _reach(way))
        if not reached.ok:
            return [reached]
        tries = {"sockets": _socket, "hold": _hold, "upload": _upload, "streaming": _stream}
        return [reached, *await asyncio.gather(*(_found(name, lambda f=f: f(way)) for name, f in tries.items()))]


async def _found(name: str, attempt: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(name, True, await attempt())
    except (Broken, TimeoutError, aiohttp.ClientError, OSError, KeyError) as error:
        words = str(error) or "it took too long"
        advice = f"In nginx: {NGINX[name]} (deploy/nginx.conf has all of them)" if name in NGINX else ""
        return Finding(name, False, f"does not get through: {words}", advice)


async def _reach(way: Way) -> str:
    status, me = await way.call("GET", "/api/v1/me")
    if status != 200:
        raise Broken(me.get("detail", f"status {status}"))
    status, made = await way.call("POST", "/api/v1/workspaces", json={"key": way.key})
    while made.get("state") in ("creating", "setting_up"):
        _, made = await way.call("GET", f"/api/v1/workspaces/{way.key}?wait=20")
    if made.get("state") != "ready":
        raise Broken(f"no workspace could be made to try it with: {made.get('reason') or made.get('detail')}")
    return f"{way.address} is this Handrail"


async def _socket(way: Way) -> str:
    _, opened = await way.call("POST", f"/api/v1/workspaces/{way.key}/terminals", json={"argv": ["cat"]})
    address = f"{way.address.replace('http', 'ws', 1)}/ws/terminals/{opened['id']}?offset=0"
    said = f"handrail {uuid.uuid4().hex}".encode()
    async with way.http.ws_connect(address, headers={"Authorization": f"Bearer {way.token}"}) as socket:
        await socket.send_bytes(said + b"\n\x04")
        heard = b""
        async with asyncio.timeout(20):
            while said not in heard:
                frame = await socket.receive()
                if frame.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR, aiohttp.WSMsgType.CLOSE):
                    raise Broken("the socket was closed")
                heard += frame.data if frame.type == aiohttp.WSMsgType.BINARY else b""
    return "sockets carry a terminal both ways"


async def _hold(way: Way) -> str:
    call = {
        "session_id": way.key,
        "cwd": "/",
        "hook_event_name": "PreToolUse",
        "tool_name": "HandrailDoctor",
        "tool_input": {"question": "Nobody has to answer this; it tries how long a hook may be held."},
        "tool_use_id": way.key,
    }
    begun = time.monotonic()
    try:
        _, told = await way.call("POST", "/hooks/claude-code", json=call)
        held = time.monotonic() - begun
    finally:
        _, waiting = await way.call("GET", "/api/v1/actions?status=pending")
        for action in waiting["actions"]:
            _, known = await way.call("GET", f"/api/v1/actions/{action['id']}")
            if known["session"] == way.key:  # not that of somebody who tries another way in at the same time
                await way.call("POST", f"/api/v1/actions/{action['id']}/cancel", json={})
    if told.get("hookSpecificOutput", {}).get("permissionDecision") != "deny" or held < way.hold_seconds * 0.9:
        raise Broken(f"a hook was answered by somebody else after {held:.0f} s")
    return f"a hook is held for {held:.0f} s and then answered"


async def _upload(way: Way) -> str:
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = UPLOAD_BYTES
        tar.addfile(info, BytesIO(bytes(UPLOAD_BYTES)))
    status, told = await way.call("POST", "/api/v1/uploads", data=out.getvalue())
    if status != 201:
        raise Broken(told.get("detail", f"status {status}"))
    return f"an upload of {UPLOAD_BYTES // 1024**2} MB arrives"


async def _stream(way: Way) -> str:
    """The command goes on once its first line has arrived: no clock has to tell streaming from a late answer."""
    wish = {"command": "echo line 1; until [ -e seen ]; do sleep 0.2; done; echo line 2"}
    _, command = await way.call("POST", f"/api/v1/workspaces/{way.key}/commands", json=wish)
    headers = {"Authorization": f"Bearer {way.token}"}
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            path = f"{way.address}/api/v1/commands/{command['id']}/output?follow=1"
            async with way.http.get(path, headers=headers) as answer:
                body = b""
                while body != b"line 1\n" and (piece := await answer.content.readany()):
                    body += piece
                file = f"{way.address}/api/v1/workspaces/{way.key}/files/seen"
                async with way.http.put(file, data=b"", headers=headers):
                    pass
                body += await answer.read()
    except TimeoutError:
        raise Broken("the output of a command is held back until its end") from None
    if body != b"line 1\nline 2\n":
        raise Broken("the output of a command arrived changed")
    return "output comes while it is printed"
