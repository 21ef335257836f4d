"""Files of the live tree and of snapshots."""

import posixpath
from typing import Annotated

from asgiref.sync import sync_to_async
from django.conf import settings
from ninja import Query, Router, Status

from dashboard.problems import Problem
from dashboard.web.api_base import PROBLEMS, AsyncBearer
from dashboard.web.pages import download
from workspaces import lifecycle
from workspaces.api import schemas
from workspaces.api.lookup import answered, find, path_after
from workspaces.changes import file_writes, history
from workspaces.lifecycle import activity
from workspaces.services import zips

router = Router(tags=["files"])
BYTES = {"schema": {"type": "string", "format": "binary"}}
ALSO_BYTES = {"responses": {200: {"content": {"application/octet-stream": BYTES, "application/zip": BYTES}}}}


AsZip = Annotated[bool, Query(alias="zip", description="a folder's contents, or the named ones, as a zip")]
Named = Annotated[
    list[str],
    Query(alias="path", max_length=zips.MAX_PATHS, description="with zip: only these, relative to the folder"),
]


@router.get("/workspaces/{key}/files/", response={200: schemas.FolderOut} | PROBLEMS, openapi_extra=ALSO_BYTES)
def read_root(
    request,
    key: str,
    snapshot: int | None = Query(None, ge=1, le=2**31 - 1),
    as_zip: AsZip = False,
    paths: Named = [],  # noqa: B006  ninja copies it
):
    """List the entries at the root of the workspace, or return them as a zip."""
    return read_file(request, key, "", snapshot, as_zip, paths)


@router.get(
    "/workspaces/{key}/files/{file:path}", response={200: schemas.FolderOut} | PROBLEMS, openapi_extra=ALSO_BYTES
)
def read_file(
    request,
    key: str,
    path: str,
    snapshot: int | None = Query(None, ge=1, le=2**31 - 1),
    as_zip: AsZip = False,
    paths: Named = [],  # noqa: B006  ninja copies it
):
    """Return a file's raw bytes, or a folder's entries as JSON or a zip, from the live tree or a snapshot.

    A zip keeps symbolic links that stay in the folder; what it leaves out stands in handrail-left-out.txt in it.
    """
    workspace, raw = find(request, key), path_after(request, "/files/", path)
    at = snapshot or history.LIVE
    if at == history.LIVE:
        activity.touch(workspace)
    if as_zip:
        return _zip(request, workspace, at, raw.strip(b"/"), paths)
    entries = history.listing(workspace, at, raw.rstrip(b"/"))
    if entries is not None:
        told = history.path_fields("path", raw.rstrip(b"/"))
        return Status(200, told | {"entries": [item.as_json() for item in entries]})
    return download(request, history.stream_file(workspace, at, raw))


def _zip(request, workspace, at, folder: bytes, paths: list[str]):
    named = [posixpath.join(folder, path.encode("utf-8", "surrogateescape")) for path in paths]
    pieces = zips.of_paths(workspace, at, folder, named) if named else zips.of_folder(workspace, at, folder)
    return download(request, pieces, zips.file_name(workspace, at, folder), "application/zip")


@router.put(
    "/workspaces/{key}/files/{file:path}",
    response={200: dict, 201: dict, 202: schemas.AskedOut} | PROBLEMS,
    auth=AsyncBearer(),
)
async def write_file(request, key: str, path: str):
    """Write the raw body to a file atomically; missing parent folders are created."""
    data = await sync_to_async(_raw_body)(request)
    return await answered(request, _write, key, path, data)


def _raw_body(request) -> bytes:
    length = int(request.headers.get("Content-Length") or 0)
    if length > settings.HANDRAIL_FILE_BYTES:
        raise Problem(413, f"A file can have at most {settings.HANDRAIL_FILE_BYTES:,} bytes.")
    return request.read()  # not .body: files may be larger than JSON bodies


def _write(request, key, path, data):
    workspace = find(request, key, "use_workspace")
    lifecycle.resume_for_use(workspace, by=request.auth.actor)
    lifecycle.wait_until_ready(workspace)
    raw = path_after(request, "/files/", path)
    created = file_writes.write_file(workspace, raw, data, by=request.auth.actor)
    lifecycle.record(
        workspace, request.auth.actor, "file.written", history.path_fields("path", raw) | {"bytes": len(data)}
    )
    return Status(201 if created else 200, history.path_fields("path", raw) | {"bytes": len(data), "created": created})


@router.delete("/workspaces/{key}/files/{file:path}", response={200: dict, 202: schemas.AskedOut} | PROBLEMS)
def delete_file(request, key: str, path: str):
    """Delete a file, a symlink, or a folder with its contents."""
    workspace, raw = find(request, key, "use_workspace"), path_after(request, "/files/", path)
    lifecycle.resume_for_use(workspace, by=request.auth.actor)
    lifecycle.wait_until_ready(workspace)
    file_writes.delete_file(workspace, raw, by=request.auth.actor)
    lifecycle.record(workspace, request.auth.actor, "file.deleted", history.path_fields("path", raw))
    return Status(200, history.path_fields("path", raw))
