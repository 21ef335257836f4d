"""`doctor --url ADDRESS`: check that what agents and terminals need passes the proxy, and which lines to change.

Four things commonly break behind a proxy: WebSockets, a hook request held open for long, a large upload, and a
streamed response. Each is tried for real, as an agent and in a workspace made for the check. With TLS, so are the host
names by which E2B's SDKs know the desk: they and previews need a wildcard name, a certificate for it and the proxy.
"""

import asyncio
import json
import tarfile
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from io import BytesIO
from urllib.parse import urlsplit

import aiohttp
from django.conf import settings

from dashboard.ops.findings import Finding
from workspaces.services.previews import ENVD_PORT

UPLOAD_BYTES = 50 * 1024 * 1024
HOLD_SECONDS = 130  # seconds; a hook may be held for a day, and by default proxies end a request after 30 to 120
STREAM_TIMEOUT = 40  # shorter than the idle timeout of common proxies
NGINX = {
    "sockets": "proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $upgrade;",
    "hold": "proxy_read_timeout 1d; proxy_send_timeout 1d;",
    "upload": "client_max_body_size 1g; proxy_request_buffering off;",
    "streaming": "proxy_buffering off;",
    "names": "a server of its own for all names below HANDRAIL_PREVIEW_HOST, with a certificate for *.that host;",
}


@dataclass
class Route:
    """The connection under test: the public address of this Handrail and an agent's token."""

    address: str
    token: str
    hold_seconds: float
    http: aiohttp.ClientSession
    key: str

    async def call(self, method, path, **body) -> tuple[int, dict]:
        """Send a request with the token; return (status, JSON body). Raise CheckFailed if the body is not JSON."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.http.request(method, self.address + path, headers=headers, **body) as answer:
            text = await answer.text()
            try:
                return answer.status, json.loads(text)
            except ValueError:
                raise CheckFailed(f"it answered {answer.status} with something that is not from Handrail") from None


class CheckFailed(Exception):
    """A check failed; the message says what did not get through."""


async def examine(address: str, token: str, hold_seconds: float, key: str) -> list[Finding]:
    """Run all checks through `address` concurrently, in a workspace created under `key`."""
    timeout = aiohttp.ClientTimeout(total=hold_seconds + 120)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        route = Route(address.rstrip("/"), token, hold_seconds, http, key)
        reached = await _finding("reached", lambda: _reach(route))
        if not reached.ok:
            return [reached]
        tries = {"sockets": _socket, "hold": _check_long_hook, "upload": _upload, "streaming": _stream}
        if settings.HANDRAIL_PREVIEW_HOST and route.address.startswith("https:"):  # the SDKs take no other
            tries["names"] = _names
        return [reached, *await asyncio.gather(*(_finding(name, lambda f=f: f(route)) for name, f in tries.items()))]


async def _finding(name: str, attempt: Callable[[], Awaitable[str]]) -> Finding:
    try:
        return Finding(name, True, await attempt())
    except (CheckFailed, TimeoutError, aiohttp.ClientError, OSError, KeyError) as error:
        words = str(error) or "it took too long"
        advice = f"In nginx: {NGINX[name]} (deploy/nginx.conf has all of them)" if name in NGINX else ""
        return Finding(name, False, f"failed: {words}", advice)


async def _reach(route: Route) -> str:
    status, me = await route.call("GET", "/api/v1/me")
    if status != 200:
        raise CheckFailed(me.get("detail", f"status {status}"))
    status, made = await route.call("POST", "/api/v1/workspaces", json={"key": route.key})
    while made.get("state") in ("creating", "setting_up"):
        _, made = await route.call("GET", f"/api/v1/workspaces/{route.key}?wait=20")
    if made.get("state") != "ready":
        raise CheckFailed(f"no workspace could be created for the check: {made.get('reason') or made.get('detail')}")
    return f"{route.address} is this Handrail"


async def _socket(route: Route) -> str:
    _, opened = await route.call("POST", f"/api/v1/workspaces/{route.key}/terminals", json={"argv": ["cat"]})
    address = f"{route.address.replace('http', 'ws', 1)}/ws/terminals/{opened['id']}?offset=0"
    sent = f"handrail {uuid.uuid4().hex}".encode()
    async with route.http.ws_connect(address, headers={"Authorization": f"Bearer {route.token}"}) as socket:
        await socket.send_bytes(sent + b"\n\x04")
        received = b""
        async with asyncio.timeout(20):
            while sent not in received:
                frame = await socket.receive()
                if frame.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR, aiohttp.WSMsgType.CLOSE):
                    raise CheckFailed("the socket was closed")
                received += frame.data if frame.type == aiohttp.WSMsgType.BINARY else b""
    return "WebSockets work"


async def _check_long_hook(route: Route) -> str:
    call = {
        "session_id": route.key,
        "cwd": "/",
        "hook_event_name": "PreToolUse",
        "tool_name": "HandrailDoctor",
        "tool_input": {"question": "Nobody has to answer this; it tries how long a hook may be held."},
        "tool_use_id": route.key,
    }
    begun = time.monotonic()
    asked = asyncio.create_task(route.call("POST", "/hooks/claude-code", json=call))
    try:
        await asyncio.wait([asked], timeout=route.hold_seconds)
        held = time.monotonic() - begun
    finally:
        _, waiting = await route.call("GET", "/api/v1/actions?status=pending")
        for action in waiting["actions"]:
            _, known = await route.call("GET", f"/api/v1/actions/{action['id']}")
            if known["session"] == route.key:  # leave alone the actions of a check that runs at the same time
                await route.call("POST", f"/api/v1/actions/{action['id']}/cancel", json={})
    async with asyncio.timeout(30):
        _, payload = await asked
    if payload.get("hookSpecificOutput", {}).get("permissionDecision") != "deny" or held < route.hold_seconds * 0.9:
        raise CheckFailed(f"a hook was answered by something else after {held:.0f} s")
    return f"a hook is held for {held:.0f} s and then answered"


async def _names(route: Route) -> str:
    """Check the two host names that E2B's SDKs make of their E2B_DOMAIN, as these call them."""
    port = urlsplit(route.address).port
    domain = settings.HANDRAIL_PREVIEW_HOST + (f":{port}" if port else "")
    api, envd = f"https://api.{domain}/sandboxes/{route.key}", f"https://{ENVD_PORT}-{route.key}.{domain}/health"
    for address, header, right in ((api, "X-API-KEY", 200), (envd, "X-Access-Token", 204)):
        async with route.http.get(address, headers={header: route.token}, allow_redirects=False) as answer:
            is_ours = answer.status == right and (right != 200 or await _names_its_sandbox(answer, route.key))
            if not is_ours:
                raise CheckFailed(f"{address} answered {answer.status}, and not as E2B's API")
    return f"E2B's SDKs find this desk with E2B_DOMAIN={domain}"


async def _names_its_sandbox(answer: aiohttp.ClientResponse, key: str) -> bool:
    try:
        return json.loads(await answer.text())["sandboxID"] == key
    except (ValueError, TypeError, KeyError):
        return False


async def _upload(route: Route) -> str:
    out = BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("zeros")
        info.size = UPLOAD_BYTES
        tar.addfile(info, BytesIO(bytes(UPLOAD_BYTES)))
    status, payload = await route.call("POST", "/api/v1/uploads", data=out.getvalue())
    if status != 201:
        raise CheckFailed(payload.get("detail", f"status {status}"))
    return f"an upload of {UPLOAD_BYTES // 1024**2} MB works"


async def _stream(route: Route) -> str:
    """Check streaming: the command continues only once its first line has arrived, so no timing is involved."""
    request = {"command": "echo line 1; until [ -e seen ]; do sleep 0.2; done; echo line 2"}
    _, command = await route.call("POST", f"/api/v1/workspaces/{route.key}/commands", json=request)
    headers = {"Authorization": f"Bearer {route.token}"}
    try:
        async with asyncio.timeout(STREAM_TIMEOUT):
            path = f"{route.address}/api/v1/commands/{command['id']}/output?follow=1"
            async with route.http.get(path, headers=headers) as answer:
                body = b""
                while body != b"line 1\n" and (piece := await answer.content.readany()):
                    body += piece
                file = f"{route.address}/api/v1/workspaces/{route.key}/files/seen"
                async with route.http.put(file, data=b"", headers=headers):
                    pass
                body += await answer.read()
    except TimeoutError:
        raise CheckFailed("the output of a command is buffered until its end") from None
    if body != b"line 1\nline 2\n":
        raise CheckFailed("the output of a command was changed on the way")
    return "output is streamed"
