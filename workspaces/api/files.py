"""Live files, and those of a snapshot."""

import time
from urllib.parse import unquote_to_bytes

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpResponse
from ninja import Query, Router, Status

from dashboard.contract import PROBLEMS, AsyncBearer
from dashboard.problems import Problem, unavailable
from workspaces import activity, history, lifecycle, schemas
from workspaces.api.finding import CONTROLLED, find
from workspaces.models import State

router = Router(tags=["files"])
ALSO_BYTES = {
    "responses": {200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}}
}


def _path(request, path: str) -> bytes:
    """The path as bytes: names that are not UTF-8 travel percent-encoded, which Django would have replaced."""
    raw = request.scope.get("raw_path") if hasattr(request, "scope") else None
    if raw and b"/files/" in raw:
        return unquote_to_bytes(raw.split(b"?")[0].split(b"/files/", 1)[1])
    return path.encode("utf-8", "surrogateescape")


@router.get("/workspaces/{key}/files/", response={200: schemas.FolderOut} | PROBLEMS)
def read_root(request, key: str, snapshot: int | None = Query(None, ge=1, le=2**31 - 1)):
    """The entries at the root of the workspace."""
    return read_file(request, key, "", snapshot)


@router.get(
    "/workspaces/{key}/files/{path:path}", response={200: schemas.FolderOut} | PROBLEMS, openapi_extra=ALSO_BYTES
)
def read_file(request, key: str, path: str, snapshot: int | None = Query(None, ge=1, le=2**31 - 1)):
    """A file's raw bytes, or a folder's entries as JSON; of the live tree, or of a snapshot."""
    workspace, raw = find(request, key), _path(request, path)
    at = snapshot or history.LIVE
    if at == history.LIVE:
        activity.touch(workspace)
    entries = history.listing(workspace, at, raw.rstrip(b"/"))
    if entries is not None:
        told = history.named("path", raw.rstrip(b"/"))
        return Status(200, told | {"entries": [item.as_json() for item in entries]})
    data = history.read_file(workspace, at, raw, settings.HANDRAIL_FILE_BYTES)
    return HttpResponse(
        data, content_type="application/octet-stream", headers=CONTROLLED | {"Content-Disposition": "attachment"}
    )


@router.put("/workspaces/{key}/files/{path:path}", response={200: dict, 201: dict} | PROBLEMS, auth=AsyncBearer())
async def write_file(request, key: str, path: str):
    """The raw body becomes the file, as a whole or not at all; folders on the way are made."""
    data = await sync_to_async(_raw_body)(request)
    return await sync_to_async(_write)(request, key, path, data)


def _raw_body(request) -> bytes:
    length = int(request.headers.get("Content-Length") or 0)
    if length > settings.HANDRAIL_FILE_BYTES:
        raise Problem(413, f"A file may have {settings.HANDRAIL_FILE_BYTES:,} bytes here.")
    return request.read()  # not .body: files may be larger than JSON bodies


def _write(request, key, path, data):
    workspace = find(request, key, "use_workspace")
    lifecycle.wake(workspace, by=request.auth.actor)
    _until_up(workspace)
    raw = _path(request, path)
    created = history.write_file(workspace, raw, data)
    lifecycle.record(workspace, request.auth.actor, "file.written", history.named("path", raw) | {"bytes": len(data)})
    return Status(201 if created else 200, history.named("path", raw) | {"bytes": len(data), "created": created})


@router.delete("/workspaces/{key}/files/{path:path}", response={200: dict} | PROBLEMS)
def delete_file(request, key: str, path: str):
    """Remove a file, a symlink, or a folder with what is in it."""
    workspace, raw = find(request, key, "use_workspace"), _path(request, path)
    lifecycle.wake(workspace, by=request.auth.actor)
    _until_up(workspace)
    history.delete_file(workspace, raw)
    lifecycle.record(workspace, request.auth.actor, "file.deleted", history.named("path", raw))
    return Status(200, history.named("path", raw))


def _until_up(workspace, timeout=20.0):
    """Wait for a wake that `lifecycle.wake` asked for."""
    deadline = time.monotonic() + timeout
    while workspace.state != State.READY:
        if time.monotonic() > deadline:
            raise unavailable(f"{workspace.key} did not wake within {timeout:.0f} s.")
        time.sleep(0.05)
        workspace.refresh_from_db(fields=["state"])
