"""HTTP to a code host: JSON in and out, only to checked addresses, no redirects, with limits of time and size."""

import json

SECONDS = 30
MAX_ANSWER = 4 * 1024**2  # bytes


class Unreachable(Exception):
    """The host did not answer; the message says why."""


class Client:
    """A session with one host. Without addresses the system's resolver is used."""

    def __init__(self, addresses: tuple[str, ...] = ()):
        self.addresses, self.session = addresses, None

    async def __aenter__(self):
        import aiohttp  # here, as below: every command loads this module, and few open a pull request

        from workspaces.code_hosts.pinned import Pinned

        resolver = Pinned(self.addresses) if self.addresses else None
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
        import aiohttp

        try:
            async with self.session.request(method, url, headers=headers, json=body, allow_redirects=False) as response:
                raw = bytearray()
                async for piece in response.content.iter_chunked(64 * 1024):
                    raw += piece
                    if len(raw) > MAX_ANSWER:
                        raise Unreachable("its answer is too long")
                return response.status, _parsed(bytes(raw))
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(str(error)[:200] or type(error).__name__) from None


def _parsed(raw: bytes):
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None
