"""Limit the size of a request's body before it is read, by path and by whether the sender is authenticated."""

import json
import shutil
import time
from functools import partial
from http import HTTPStatus

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.db import close_old_connections
from django.http import HttpRequest
from django.http.cookie import parse_cookie

from approvals.agent_runs.model_relay import accounts
from approvals.agent_runs.model_relay import application as relay
from approvals.agents import dialects
from approvals.protocols.e2b import host_names, wire
from dashboard.database import outages
from dashboard.database.threads import query_in_thread
from dashboard.net.desk_name import session_key
from dashboard.people.tokens import find_token
from dashboard.web.api_base import LARGE_BODIES
from workspaces.previews.headers import COOKIE
from workspaces.services import previews

ANONYMOUS_LIMIT = 32 * 1024  # bytes; enough for a sign-in form
FORM_OVERHEAD = 1024 * 1024  # bytes of multipart framing and other fields around an uploaded archive
HOOK_SECONDS = 30  # for which a hook waits at most, before its view, for a database that is away
HOOKS = "/hooks/"
E2B = "/e2b/"
E2B_FILES = "/e2b/envd/files"
DISK_CHECK_INTERVAL = 4 * 1024 * 1024  # bytes received between two checks of the disk


class BodyRefused(Exception):
    """A body that is not read: the status and the detail of the answer."""

    def __init__(self, status: int, detail: str):
        super().__init__(detail)
        self.status, self.detail = status, detail


DISK_FULL = 507, "Not enough disk space. The remaining space is reserved for saving existing work."


async def look_up(method: str, path: str, headers: dict[str, str]) -> int:
    """Return `limit_for`. A hook waits for a database that is away: an error here would be its agent's denial."""
    until = time.monotonic() + _patience(path)
    return await outages.patiently(partial(query_in_thread, limit_for, method, path, headers), until=until)


def _patience(path: str) -> int:
    """Return for how many seconds a request waits: a hook for as long as its agent waits beyond the hook's view."""
    if not path.startswith(HOOKS):
        return 0
    dialect = dialects.of_path(path)
    return min(HOOK_SECONDS, dialect.hook_patience_s - dialect.patience_s - 1)


def limit_for(method: str, path: str, headers: dict[str, str]) -> int:
    """Return how many bytes this request's body may have. Queries the database for the sender."""
    close_old_connections()
    try:
        if found := host_names.address_of(headers.get("host", ""), path):
            path, _ = found
        elif label := previews.label_of(headers.get("host", "")):
            cookie = parse_cookie(headers.get("cookie", "")).get(COOKIE, "")
            return settings.HANDRAIL_FILE_BYTES if previews.target_of(label, cookie) else ANONYMOUS_LIMIT
        if path.startswith(relay.PATH):
            return relay.MAX_BODY if accounts.is_known(relay.token_in(headers)) else ANONYMOUS_LIMIT
        known = wire.token_in(headers) if path.startswith(E2B) else ""
        if not (find_token(known) if known else _is_known(headers)):
            return ANONYMOUS_LIMIT
    finally:
        close_old_connections()
    if (method, path) in {("POST", "/api/v1/uploads"), ("POST", "/workspaces/new/")}:
        return settings.HANDRAIL_UPLOAD_BYTES + FORM_OVERHEAD
    if method == "PUT" and path.startswith("/api/v1/workspaces/") and "/files/" in path:
        return settings.HANDRAIL_FILE_BYTES + FORM_OVERHEAD
    if (method, path) == ("POST", E2B_FILES):
        return settings.HANDRAIL_FILE_BYTES + FORM_OVERHEAD
    if method == "POST" and path in LARGE_BODIES:
        return LARGE_BODIES[path]
    return settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def _is_known(headers: dict[str, str]) -> bool:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return find_token(token.strip()) is not None
    request = HttpRequest()
    request.session = SessionStore(session_key(parse_cookie(headers.get("cookie", ""))))
    return get_user(request).is_active


def refuse_beyond(size: int, limit: int):
    """Raise BodyRefused if the body is larger than its limit."""
    if size > limit:
        raise BodyRefused(413, f"The body is too large: the limit here is {limit:,} bytes.")


def refuse_without_room(size: int):
    """Raise BodyRefused if `size` more bytes would use the disk's reserve."""
    if shutil.disk_usage(settings.HANDRAIL_HOME).free - size < settings.HANDRAIL_RESERVE_BYTES:
        raise BodyRefused(*DISK_FULL)


def answer(refused: BodyRefused, path: str) -> bytes:
    """Return the whole response as bytes. For a hook it is a denial: an agent would take another status as consent."""
    status = HTTPStatus(refused.status)
    if path.startswith(HOOKS):
        body, status = dialects.of_path(path).deny(f"{refused.detail} It did not run."), HTTPStatus.OK
    else:
        body = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": refused.detail}
    sent = json.dumps(body).encode()
    kind = "application/json" if status == HTTPStatus.OK else "application/problem+json"
    head = [f"HTTP/1.1 {status.value} {status.phrase}", f"Content-Type: {kind}", f"Content-Length: {len(sent)}"]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        head.append(f"Retry-After: {outages.RETRY_AFTER}")
    return "\r\n".join([*head, "Connection: close", "", ""]).encode() + sent
