"""Changes and Files: what differs between two points, and what was there at one."""

import posixpath
from datetime import timedelta
from urllib.parse import quote_from_bytes, unquote_to_bytes

from django.conf import settings
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard import clock
from dashboard.pages import download, must, signed_in
from dashboard.problems import Problem
from workspaces import history, taking_back
from workspaces.colours import COLOURED_BYTES, coloured_lines
from workspaces.diffs import FileDiff, compare
from workspaces.head import look
from workspaces.models import Snapshot, State

FILES_AT_ONCE = 30  # diffs on one page
SHOWN_BYTES = COLOURED_BYTES
SHOWN_ENTRIES = 2000


def _points(workspace) -> list[tuple[str, str]]:
    """(value, words) of the points that can be compared, newest first."""
    rows = Snapshot.objects.filter(workspace=workspace).order_by("-number")[:200]
    named = [(str(s.number), f"{s.number} · {s.label or s.kind}") for s in rows]
    return [("live", "Now"), *named]


def _point(text: str, default):
    if text == "live":
        return "live"
    return int(text) if text.isdecimal() and len(text) < 10 else default


@signed_in
@require_safe
def changes(request, team, key):
    head = look(request, team, key, "workspace-changes")
    workspace = head.workspace
    points = _points(workspace)
    if len(points) == 1:
        context = {"nav": "workspaces", "head": head, "nothing": "There is no snapshot to compare with yet."}
        return render(request, "workspaces/changes.html", context)
    base = workspace.baseline.number if workspace.baseline else int(points[-1][0])
    from_ = _point(request.GET.get("from", ""), base)
    to = _point(request.GET.get("to", ""), int(points[1][0]) if workspace.trashed_at else "live")
    visited = _visited(request, workspace)
    pairs = _pairs(workspace, base, int(points[1][0]), from_, to, visited)
    named = dict(points)
    context = {
        "nav": "workspaces",
        "head": head,
        "points": points,
        "pairs": pairs,
        "no_pair": not any(chosen for _, _, chosen, _ in pairs),
        "from_words": named.get(str(from_), from_),
        "to_words": named.get(str(to), to),
        "from_value": from_,
        "to_value": to,
        "may_use": request.caller.can("use_workspace", workspace.team_id),
        "is_up": workspace.state in (State.READY, State.PAUSED) and not workspace.trashed_at,
    }
    may_restore = request.caller.can("restore", workspace.team_id) and not workspace.trashed_at
    back_to = from_ if may_restore and to == "live" and isinstance(from_, int) else None
    try:
        found = history.changes(workspace, from_, to)
        written, gits_own = [r for r in found if not r.is_gits_own], [r for r in found if r.is_gits_own]
        page, files = _page(request, written, gits_own)
        context |= {
            "found": [(shown_path(row), row) for row in written[:SHOWN_ENTRIES]],
            "more": max(0, len(written) - SHOWN_ENTRIES),
            "additions": sum(row.additions for row in written),
            "deletions": sum(row.deletions for row in written),
            "count": len(written),
            "gits_own": [(shown_path(row), row) for row in gits_own[:SHOWN_ENTRIES]],
            "gits_own_count": len(gits_own),
            "diffs": [
                _diff_of(*row, back_to=back_to) for row in history.contents(workspace, files) if row[1:] != (None, None)
            ],
            "older": page,
        }
    except Problem as problem:
        if problem.status == 404:
            raise Http404(problem.detail) from None
        context["refused"] = problem.detail
    return render(request, "workspaces/changes.html", context)


def _pairs(workspace, base, last, from_, to, visited):
    """Ready-made comparisons as (address, words, chosen, count)."""
    pairs = [(base, "live", "Since set-up"), (last, "live", "Since the last snapshot")]
    if visited:
        pairs.append((visited, "live", "Since you were here"))
    an_hour_ago = workspace.snapshots.filter(created_at__lte=clock.now() - timedelta(hours=1)).order_by("-number")
    if hourly := an_hour_ago.values_list("number", flat=True).first():
        pairs.append((hourly, "live", "Last hour"))
    if last > 1:
        pairs.append((last - 1, last, "The last snapshot itself"))
    seen = {}
    for a, b, words in pairs:
        seen.setdefault((a, b), words)
    return [(f"?from={a}&to={b}", words, (a, b) == (from_, to), None) for (a, b), words in seen.items()]


def _visited(request, workspace) -> int | None:
    """The newest snapshot when this session last looked at these changes; from now on it is today's."""
    visits = request.session.setdefault("visits", {})
    before = visits.get(str(workspace.pk))
    if workspace.head and before != workspace.head.number:
        visits[str(workspace.pk)] = workspace.head.number
        request.session.modified = True
    return before


def _page(request, found, gits_own):
    """The files whose lines this page shows: the one asked for, or the next FILES_AT_ONCE, none of git's own."""
    if wanted := request.GET.get("path"):
        return "", [row for row in (*found, *gits_own) if shown_path(row) == wanted]
    start = _point(request.GET.get("start", ""), 0)
    start = start if isinstance(start, int) else 0
    query = request.GET.copy()
    query["start"] = str(start + FILES_AT_ONCE)
    more = f"?{query.urlencode()}" if len(found) > start + FILES_AT_ONCE else ""
    return more, found[start : start + FILES_AT_ONCE]


def shown_path(row) -> str:
    return row.path.decode("utf-8", "surrogateescape")


def _diff_of(change, old: bytes | None, new: bytes | None, *, back_to: int | None = None) -> FileDiff:
    """`back_to`: the snapshot that the file, or a part of it, can be put back to from here."""
    path = shown_path(change)
    diff = compare(path, old, new)
    if back_to is not None and path.isprintable() and change.kind != "renamed":
        diff.from_ = back_to
        if change.kind == "modified" and new is not None and diff.hunks:
            diff.seen = taking_back.digest_of(new)
    diff.kind, diff.binary = change.kind, diff.binary or change.binary
    if change.old_path:
        diff.old_path = change.old_path.decode("utf-8", "surrogateescape")
    if change.old_mode != change.new_mode and None not in (change.old_mode, change.new_mode) and not diff.hunks:
        diff.note = f"Only its mode changed: {change.old_mode:o} is {change.new_mode:o} now."
    elif not diff.hunks and not diff.binary:
        diff.note = "No line changed."
    return diff


@signed_in
@require_safe
def patch(request, team, key):
    """Everything between two points, for `git apply`."""
    head = look(request, team, key, "workspace-changes")
    must(request.caller, "read", head.workspace.team_id)
    from_, to = _point(request.GET.get("from", ""), None), _point(request.GET.get("to", ""), "live")
    try:
        if from_ is None:
            raise Http404("no such point")
        chunks = history.patch(head.workspace, from_, to)
    except Problem as problem:
        return _refused(problem)
    name = f"{key}-{from_}-{to}.patch"
    return download(request, chunks, name, "text/x-diff; charset=utf-8")


def _refused(problem):
    if problem.status == 404:
        raise Http404(problem.detail)
    return HttpResponse(problem.detail + "\n", status=problem.status, content_type="text/plain; charset=utf-8")


# Files ---------------------------------------------------------------------------------------------------------------


def _asked(request) -> tuple[object, bytes]:
    """(point, path) of the address; a name that is not UTF-8 travels percent-encoded."""
    query = request.META.get("QUERY_STRING", "")
    raw = next((part[5:] for part in query.split("&") if part.startswith("path=")), "")
    path = unquote_to_bytes(raw.replace("+", " ")).strip(b"/")
    return _point(request.GET.get("at", ""), "live"), path


@signed_in
@require_safe
def files(request, team, key):
    head = look(request, team, key, "workspace-files")
    at, path = _asked(request)
    context = {
        "nav": "workspaces",
        "head": head,
        "at": at,
        "points": _points(head.workspace),
        "path": path.decode("utf-8", "surrogateescape"),
        "path_query": quote_from_bytes(path),
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
    data = history.read_file(workspace, at, path, settings.HANDRAIL_FILE_BYTES)
    told = {"size": len(data), "is_file": True}
    if b"\0" in data[:8192]:
        return told | {"binary": True}
    if len(data) > SHOWN_BYTES:
        return told | {"too_long": True, "head": data[:SHOWN_BYTES].decode("utf-8", "surrogateescape")}
    text = data.decode("utf-8", "surrogateescape")
    return told | {"lines": coloured_lines(text, path.decode("utf-8", "surrogateescape")), "text": text}


@signed_in
@require_safe
def raw(request, team, key):
    """A file's bytes, always as a download."""
    head = look(request, team, key, "workspace-files")
    at, path = _asked(request)
    try:
        data = history.read_file(head.workspace, at, path, settings.HANDRAIL_FILE_BYTES)
    except Problem as problem:
        return _refused(problem)
    name = path.rpartition(b"/")[2].decode("utf-8", "replace")
    return download(request, iter([data]), name)
