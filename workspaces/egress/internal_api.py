"""Serve http://handrail.internal/ to a workspace: Handrail's API, hooks and model relay only."""

from urllib.parse import unquote

import h11

from .http_head import RequestHead
from .names import HANDRAIL, BadName, host_and_port

SERVED_PATHS = ("/api/v1/", "/hooks/", "/models/")
INSIDE_HEADER = "x-handrail-inside"
# Cookies must not authenticate a workspace, and only the proxy may set the headers that state a request's origin.
NOT_FORWARDED = frozenset(("host", "cookie", "forwarded", "via", "x-real-ip", INSIDE_HEADER))


class NotServed(Exception):
    """The request is not forwarded to Handrail; `status` is the HTTP status and the message can be shown."""

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.status = status


def request_for_web(head: RequestHead, workspace: str) -> h11.Request:
    """Return the request to send to the web process, with the workspace in INSIDE_HEADER. Raise NotServed."""
    try:
        names = {host_and_port(value, 80) for value in head.all("host")}
    except BadName:
        names = set()
    if names != {(HANDRAIL, 80)}:
        raise NotServed(421, f"Only {HANDRAIL} is served here.")
    path = unquote(head.target.partition("?")[0], "latin-1")
    if not path.startswith(SERVED_PATHS) or {".", ".."} & set(path.replace("\\", "/").split("/")):
        raise NotServed(404, f"{HANDRAIL} serves {' and '.join(SERVED_PATHS)} only.")
    forwarded = frozenset(name for name, _ in head.fields if name.startswith("x-forwarded"))
    return head.forwarded(("host", HANDRAIL), (INSIDE_HEADER, workspace), without=NOT_FORWARDED | forwarded)
