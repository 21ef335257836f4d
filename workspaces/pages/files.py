"""The Files tab: the files at one point in time."""

import posixpath
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django.http import Http404
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.problems import Problem
from dashboard.web.pages import download, signed_in
from workspaces.changes import history
from workspaces.changes.highlight import coloured_lines
from workspaces.pages.header import load_header
from workspaces.pages.points import SHOWN_ENTRIES, parse_point, path_in, points_of, refused_download
from workspaces.services import zips
from workspaces.store.text import is_binary

SHOWN_BYTES = 512 * 1024  # larger texts are shown in part
HEAD_BYTES, TAIL_BYTES = 32 * 1024, 8 * 1024  # of a text that is too large to show


def point_and_path(request) -> tuple[object, bytes]:
    """Return (point, path) of the query: a snapshot's number or "live", and bytes."""
    path = unquote_to_bytes(request.GET["quoted"]) if "quoted" in request.GET else path_in(request)
    return parse_point(request.GET.get("at", ""), "live"), path.strip(b"/")


@signed_in
@require_safe
def files(request, team, key):
    head = load_header(request, team, key, "workspace-files")
    at, path = point_and_path(request)
    context = {
        "nav": "workspaces",
        "head": head,
        "at": at,
        "points": points_of(head.workspace),
        "path_query": quote_from_bytes(path),
        # Of a snapshot: files of now are kept after the next one.
        "may_promote": at != "live" and request.caller.can("keep_artifact", head.workspace.team_id),
        "crumbs": _crumbs(path),
    }
    try:
        entries = history.listing(head.workspace, at, path)
        context |= _folder(path, entries) if entries is not None else _file(head.workspace, at, path)
    except Problem as problem:
        if problem.status == 404:
            raise Http404(problem.detail) from None
        context["refused"] = problem.detail
    return render(request, "workspaces/files.html", context)


def _crumbs(path: bytes) -> list[tuple[str, str]]:
    parts = path.split(b"/") if path else []
    return [
        (part.decode("utf-8", "surrogateescape"), quote_from_bytes(b"/".join(parts[: n + 1])))
        for n, part in enumerate(parts)
    ]


def _folder(path: bytes, entries) -> dict:
    entries = sorted(entries, key=lambda entry: (entry.type != "folder", entry.name))
    return {
        "entries": [
            (entry.name.decode("utf-8", "surrogateescape"), quote_from_bytes(posixpath.join(path, entry.name)), entry)
            for entry in entries[:SHOWN_ENTRIES]
        ],
        "more": max(0, len(entries) - SHOWN_ENTRIES),
        "is_folder": True,
    }


def _file(workspace, at, path: bytes) -> dict:
    found = history.glimpse(workspace, at, path, whole=SHOWN_BYTES, head=HEAD_BYTES, tail=TAIL_BYTES)
    context = {"size": found.size, "is_file": True}
    if is_binary(found.head):
        return context | {"binary": True}
    if not found.is_whole:
        return context | {
            "too_large": True,
            "first": _whole_lines(found.head),
            "last": _whole_lines(found.tail, end=True),
        }
    text = found.head.decode("utf-8", "surrogateescape")
    return context | {"lines": coloured_lines(text, path.decode("utf-8", "surrogateescape")), "text": text}


def _whole_lines(part: bytes, *, end: bool = False) -> str:
    """Return the beginning or the end of a text without the partial line, unless that is the only one."""
    before, newline, after = part.partition(b"\n") if end else part.rpartition(b"\n")
    return ((after if end else before + newline) or part).decode("utf-8", "surrogateescape")


@signed_in
@require_safe
def raw(request, team, key):
    """Download a file's bytes; never displayed by the browser."""
    head = load_header(request, team, key, "workspace-files")
    at, path = point_and_path(request)
    try:
        pieces = history.stream_file(head.workspace, at, path)
    except Problem as problem:
        return refused_download(problem)
    name = path.rpartition(b"/")[2].decode("utf-8", "replace")
    return download(request, pieces, name)


@signed_in
@require_safe
def as_zip(request, team, key):
    """Download a folder's contents as a zip, or only the chosen entries."""
    head = load_header(request, team, key, "workspace-files")
    at, folder = point_and_path(request)
    chosen = [posixpath.join(folder, unquote_to_bytes(name)) for name in request.GET.getlist("choose")]
    try:
        pieces = (
            zips.of_paths(head.workspace, at, folder, chosen) if chosen else zips.of_folder(head.workspace, at, folder)
        )
    except Problem as problem:
        return refused_download(problem)
    return download(request, pieces, zips.file_name(head.workspace, at, folder), "application/zip")
