"""Route requests for preview hosts to the program that is previewed, and refuse those that may not see it."""

import html
import logging
from functools import partial
from time import monotonic
from urllib.parse import parse_qs

from django.conf import settings

from dashboard.database.errors import is_away
from dashboard.database.threads import query_in_thread
from dashboard.problems import Problem
from workspaces.host import leads, paths
from workspaces.operations import runner_client
from workspaces.previews import elsewhere, headers
from workspaces.services import previews

logger = logging.getLogger("handrail.web")
REMEMBERED_SECONDS = 5.0  # how long a right to look is not looked up again: a page of a dev server has 500 requests
MOST_REMEMBERED = 1000
RUNNER_TIMEOUT = 15
_remembered: dict[tuple[str, str], tuple[float, previews.Target]] = {}


class Refusal(Exception):
    """The request is answered with this status and these words, and reaches no program."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status = status


def with_previews(app):
    """Wrap an ASGI application so that requests for preview hosts never reach it."""

    async def route(scope, receive, send):
        sent = scope.get("headers", ())
        label = previews.label_of(headers.first(sent, b"host")) if scope["type"] in ("http", "websocket") else None
        if label is None:
            await app(scope, receive, send)
            return
        try:
            await _preview(label, scope, receive, send)
        except Refusal as refused:
            await _refuse(refused, scope, receive, send)
        except Exception as error:
            if not is_away(error):
                raise
            logger.warning("a preview is not shown: %s", error)
            await _refuse(Refusal(503, "The database of Handrail does not answer now."), scope, receive, send)

    return route


async def _preview(label: str, scope, receive, send):
    if scope["type"] == "http" and scope["path"] == previews.ENTER:
        await _enter(label, scope, send)
        return
    origin = previews.origin_of(label)
    _must_be_own(scope, origin)
    target = await _target(label, headers.secret_of(scope["headers"]))
    if target.run_id is None:
        raise Refusal(503, f"{target.workspace.key} is not up. Resume it on the desk, then reload this page.")
    from workspaces.previews import passing  # here: aiohttp takes 12 MB, and most desks never show a preview

    pass_on = passing.pass_socket if scope["type"] == "websocket" else passing.pass_request
    try:
        await pass_on(target, origin, await _socket(target), scope, receive, send)
    except passing.NoAnswer:
        raise Refusal(502, f"Nothing answers on port {target.port} of {target.workspace.key}.") from None


async def _enter(label: str, scope, send):
    """Exchange the ticket for the cookie, and go to the page."""
    ticket = parse_qs(scope["query_string"].decode("latin-1")).get("ticket", [""])[0]
    secret = await query_in_thread(previews.enter, label, ticket)
    if secret is None:
        raise Refusal(403, "This link was used before or is too old. Open the preview on the desk again.")
    cookie = headers.cookie_of(secret, int(previews.LIFETIME.total_seconds()))
    sent = [
        (b"location", b"/"),
        (b"set-cookie", cookie),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-store"),
        (b"content-length", b"0"),
        *headers.OURS,
    ]
    await send({"type": "http.response.start", "status": 303, "headers": sent})
    await send({"type": "http.response.body", "body": b""})


def _must_be_own(scope, own_origin: str):
    """Refuse what a page of another host makes the browser send; following a link is allowed.

    Previews of different workspaces are one site to a browser, which sends the cookie from one to the other.
    """
    sent = scope["headers"]
    origin, site = headers.first(sent, b"origin"), headers.first(sent, b"sec-fetch-site")
    is_page = headers.first(sent, b"sec-fetch-dest") in ("document", "")  # not a frame or an object in a page
    followed = headers.first(sent, b"sec-fetch-mode") == "navigate" and scope.get("method") in ("GET", "HEAD")
    # A form on a page that sends no referrer (a default of many servers) has the origin "null"; the browser says beside
    # it where it is from. A sandboxed frame has this origin too, and is never "same-origin".
    own = origin in ("", own_origin) or (origin == "null" and site == "same-origin")
    strange = not own or site in ("same-site", "cross-site")
    if (strange and not (followed and is_page)) or (scope["type"] == "websocket" and origin != own_origin):
        raise Refusal(403, "Another page asked for this. Open the preview by itself.")


async def _target(label: str, secret: str) -> previews.Target:
    until, target = _remembered.get((label, secret), (0.0, None))
    if monotonic() < until:
        return target
    target = await query_in_thread(previews.target_of, label, secret)
    if target is None:
        raise Refusal(403, "Open this preview on the desk: on the Network page of its workspace.")
    if len(_remembered) >= MOST_REMEMBERED:
        _remembered.clear()
    _remembered[label, secret] = monotonic() + REMEMBERED_SECONDS, target
    return target


async def _socket(target: previews.Target) -> str:
    """Return the path of the unix socket that the runner serves for this port; it opens one the first time.

    For a Run of another host it is one of our own, whose connections go on to that host's runner.
    """
    path = paths.preview_of(target.run_id, target.port)
    if path.exists():
        return str(path)
    lead = await query_in_thread(leads.lead_of, target.workspace)
    ask = partial(runner_client.ask, "POST", target.workspace, f"previews/{target.port}")
    try:
        opened = (await query_in_thread(ask, timeout=RUNNER_TIMEOUT))["socket"]  # words, if nothing listens there
        if lead is not None:
            opened = await elsewhere.socket_to(lead, target.workspace.pk, target.run_id, target.port)
        return opened
    except Problem as problem:
        raise Refusal(502 if problem.status == 409 else 503, problem.detail) from None


async def _refuse(refused: Refusal, scope, receive, send):
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 4403})
        return
    desk = html.escape(settings.HANDRAIL_DESK_URL)
    body = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Preview</title><p>{html.escape(str(refused))}</p><p><a href='{desk}/'>Open the desk</a></p>"
    ).encode()
    sent = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", b"%d" % len(body)),
        (b"content-security-policy", b"default-src 'none'"),
        (b"cache-control", b"no-store"),
        *headers.OURS,
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": sent})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
