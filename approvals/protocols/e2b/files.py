"""envd's addresses for the contents of files, and for whether a sandbox is up."""

import zlib
from email.message import Message

from django.conf import settings
from django.http import HttpResponse

from approvals.protocols.e2b import entries, held
from approvals.protocols.e2b.answering import in_thread, rest, sandbox_of
from dashboard.problems import Problem, invalid
from dashboard.web.pages import download
from workspaces import lifecycle
from workspaces.changes import file_writes, history
from workspaces.changes.history import LIVE
from workspaces.operations.needs_approval import AskFirst


@rest("GET")
async def health(request):
    """Say that the sandbox is there. Problem 502 if it is not."""
    await in_thread(sandbox_of, request)
    return 204, None


@rest("GET", "POST")
async def contents(request):
    """Return a file's bytes, or write files."""
    if request.method == "GET":
        return await in_thread(_read, request)
    data = await in_thread(_raw_body, request)
    return 200, [await _write(request, path, content) for path, content in _files_in(request, data)]


def _read(request) -> HttpResponse:
    workspace = sandbox_of(request)
    if not (path := request.GET.get("path")):
        raise invalid("path is missing.")
    raw = entries.inside(workspace, path)
    if entries.stat_of(workspace, raw)["type"] == entries.TYPES["folder"]:
        raise Problem(400, f"{path} is a folder.")
    return download(request, history.stream_file(workspace, LIVE, raw))


async def _write(request, path: str, data: bytes) -> dict:
    try:
        return await in_thread(_write_one, request, path, data)
    except AskFirst as wanted:
        # How long the client waits is not in an HTTP request.
        await held.carried_out(request.auth, wanted, request.headers.get("Idempotency-Key") or str(request.id), 0)
    workspace = await in_thread(sandbox_of, request)
    return entries.written(workspace, entries.inside(workspace, path))


def _write_one(request, path: str, data: bytes) -> dict:
    workspace = sandbox_of(request, "use_workspace")
    raw = entries.inside(workspace, path)
    lifecycle.resume_for_use(workspace, by=request.auth.actor)
    lifecycle.wait_until_ready(workspace)
    file_writes.write_file(workspace, raw, data, by=request.auth.actor)
    fields = history.path_fields("path", raw) | {"bytes": len(data)}
    lifecycle.record(workspace, request.auth.actor, "file.written", fields)
    return entries.written(workspace, raw)


def _raw_body(request) -> bytes:
    """Return the body, without its compression. Problem 413."""
    most = settings.HANDRAIL_FILE_BYTES
    data = request.read()
    coding = request.headers.get("Content-Encoding", "identity")
    if coding == "gzip":
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            data = unpacker.decompress(data, most + 1)
        except zlib.error:
            raise invalid("The body is no gzip.") from None
    elif coding != "identity":
        raise Problem(415, f"{coding} is not taken; use gzip.")
    if len(data) > most + settings.HANDRAIL_BODY_BYTES:
        raise Problem(413, f"A file can have at most {most:,} bytes.")
    return data


def _files_in(request, data: bytes) -> list[tuple[str, bytes]]:
    """Return (path, bytes) of each file in a body: one raw, or those of a form, named in the query or by their parts.

    Django's own reader of forms keeps of a name only what comes after its last slash.
    """
    path = request.GET.get("path")
    if request.content_type != "multipart/form-data":
        if path is None:
            raise invalid("path is missing.")
        return [(path, data)]
    boundary = request.content_params.get("boundary", "").encode()
    if not boundary:
        raise invalid("The form has no boundary.")
    found = []
    for part in (b"\r\n" + data).split(b"\r\n--" + boundary)[1:-1]:
        head, is_whole, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        name = _file_name(head.decode("utf-8", "replace"))
        if not is_whole or (path is None and name is None):
            raise invalid("A part of the form is no file with a name.")
        found.append((name if path is None else path, content))
    if path is not None and len(found) != 1:
        raise invalid("With path in the query a form has one file.")
    return found


def _file_name(head: str) -> str | None:
    headers = dict(line.split(":", 1) for line in head.split("\r\n") if ":" in line)
    disposition = next((value for name, value in headers.items() if name.lower() == "content-disposition"), "")
    message = Message()
    message["Content-Disposition"] = disposition.strip()
    return message.get_filename()
