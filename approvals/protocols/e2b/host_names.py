"""The host names by which E2B's SDKs know a desk: `api.DOMAIN`, and `49983-KEY.DOMAIN` for the sandbox with this key.

DOMAIN is the host of previews (HANDRAIL_PREVIEW_HOST), so one wildcard name, certificate and proxy serve both. What is
asked for there is the same as below the desk's /e2b and /e2b/envd.
"""

from urllib.parse import urlsplit

from django.conf import settings

from approvals.protocols.e2b.answering import SANDBOX
from workspaces.services import previews

API = "api"


def address_of(host: str, path: str) -> tuple[str, str] | None:
    """Return (the path on the desk, the sandbox's key or "") for a Host header and a path; None for another host."""
    label = previews.label_of(host) or ""
    if label == API:
        return f"/e2b{path}", ""
    port, _, key = label.partition("-")
    return (f"/e2b/envd{path}", key) if key and port == str(previews.ENVD_PORT) else None


def with_host_names(app):
    """Wrap an ASGI application so that requests for these names reach it as those for the paths on the desk."""

    async def route(scope, receive, send):
        await app(_on_the_desk(scope) if scope["type"] == "http" else scope, receive, send)

    return route


def _on_the_desk(scope):
    host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
    if (found := address_of(host, scope["path"])) is None:
        return scope
    path, key = found
    own = {b"host", SANDBOX.lower().encode()} if key else {b"host"}
    headers = [(name, value) for name, value in scope["headers"] if name not in own]
    headers.append((b"host", urlsplit(settings.HANDRAIL_DESK_URL).netloc.encode()))  # the one that Django allows
    if key:  # the name decides, whatever the client's header says
        headers.append((SANDBOX.lower().encode(), key.encode("latin-1")))
    before = path.removesuffix(scope["path"]).encode()
    raw_path = scope.get("raw_path") or scope["path"].encode()
    return scope | {"path": path, "raw_path": before + raw_path, "headers": headers}
