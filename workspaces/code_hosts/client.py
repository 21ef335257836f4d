"""HTTP to a code host: JSON in and out, only to checked addresses, with limits of time and size.

A redirect, as of a renamed repository, is followed with the same method within the origin only: scheme, host and port.
"""

import json
from urllib.parse import urljoin, urlsplit

from dashboard.net import outbound

SECONDS = 30
MAX_ANSWER = 4 * 1024**2  # bytes
MAX_REDIRECTS = 3
REDIRECTS = (301, 302, 307, 308)


class Unreachable(Exception):
    """The host did not answer; the message says why."""


class Client:
    """A session with one host. Without addresses the system's resolver is used."""

    def __init__(self, addresses: tuple[str, ...] = ()):
        self.addresses, self.session = addresses, None

    async def __aenter__(self):
        import aiohttp  # here, as below: every command loads this module, and few open a pull request

        from workspaces.code_hosts.pinned import Pinned

        # A proxy looks the host's name up itself, and its own name is not among the addresses.
        is_pinned = self.addresses and outbound.upstream().proxy is None
        resolver = Pinned(self.addresses) if is_pinned else None
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=resolver),
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            headers={"Accept": "application/json", "User-Agent": "handrail"},
            trust_env=False,
        )
        return self

    async def __aexit__(self, *error):
        await self.session.close()

    async def call(self, method: str, url: str, *, headers: dict, body: dict | None = None) -> tuple[int, object]:
        """Return (status, parsed JSON or None). Raise Unreachable."""
        for _ in range(MAX_REDIRECTS + 1):
            status, data, location = await self._once(method, url, headers, body)
            if status not in REDIRECTS or not location or (status == 302 and method != "GET"):
                return status, data
            url = _within(url, location)
        raise Unreachable("it redirects more than three times")

    async def _once(self, method: str, url: str, headers: dict, body: dict | None) -> tuple[int, object, str]:
        import aiohttp

        try:
            by = await outbound.aiohttp_options(url)
            asked = {"headers": headers, "json": body, "allow_redirects": False}
            async with self.session.request(method, url, **asked, **by) as response:
                raw = bytearray()
                async for piece in response.content.iter_chunked(64 * 1024):
                    raw += piece
                    if len(raw) > MAX_ANSWER:
                        raise Unreachable("its answer is too long")
                return response.status, _parsed(bytes(raw)), response.headers.get("Location", "")
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(_error_text(error)) from None


def _error_text(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {SECONDS} seconds"
    return str(error)[:200] or type(error).__name__


def _within(url: str, location: str) -> str:
    """Return the address that a redirect leads to. Raise Unreachable for one outside the origin of `url`."""
    try:
        target = urljoin(url, location)
        origins = [_origin(address) for address in (url, target)]
    except ValueError:
        raise Unreachable("it redirects to something that is no address") from None
    if origins[0] != origins[1]:
        where = "".join(each for each in urlsplit(target).netloc.rpartition("@")[2][:100] if each.isprintable())
        raise Unreachable(f"it redirects to {where or 'elsewhere'}, where the token is not sent")
    return target


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _parsed(raw: bytes):
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
