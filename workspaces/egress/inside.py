"""http://handrail.internal/ in a workspace: Handrail's API and hooks, and nothing else of it."""

from urllib.parse import unquote

from .head import Head
from .names import HANDRAIL, BadName, host_and_port

SERVED = ("/api/v1/", "/hooks/")
# A cookie signs nobody in here, and where a request came from is ours to say.
LEFT_OUT = frozenset(("host", "cookie", "forwarded", "via", "x-real-ip", "x-handrail-inside"))
INSIDE = "x-handrail-inside"


class NotHere(Exception):
    """Why a request is not passed on to Handrail, in words."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status = status


def request_for_web(head: Head, workspace: str) -> bytes:
    """The head as the web process gets it, marked with the workspace that it comes from. NotHere."""
    method, target, _ = head.first
    try:
        names = {host_and_port(value, 80) for value in head.all("host")}
    except BadName:
        names = set()
    if names != {(HANDRAIL, 80)}:
        raise NotHere(421, f"Only {HANDRAIL} is served here.")
    path = unquote(target.partition("?")[0], "latin-1")
    if not path.startswith(SERVED) or {".", ".."} & set(path.replace("\\", "/").split("/")):
        raise NotHere(404, f"{HANDRAIL} serves {' and '.join(SERVED)} only.")
    forwarded = frozenset(name for name, _ in head.fields if name.startswith("x-forwarded"))
    extra = (("host", HANDRAIL), (INSIDE, workspace))
    return Head((method, target, "HTTP/1.1"), head.fields).with_fields(*extra, without=LEFT_OUT | forwarded)
