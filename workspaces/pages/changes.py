"""The Changes tab: the differences between two points in time."""

from datetime import timedelta
from urllib.parse import quote_from_bytes

from django.http import Http404
from django.shortcuts import render
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from dashboard import clock
from dashboard.background_requests import takes_parts
from dashboard.pages import download, must, signed_in
from dashboard.problems import Problem
from workspaces import history
from workspaces.diff import FileDiff, compare
from workspaces.highlight import deadline
from workspaces.models import State
from workspaces.pages.header import load_header
from workspaces.pages.points import SHOWN_ENTRIES, parse_point, path_in, points_of, refused_download
from workspaces.services import revert

DIFFS_PER_PAGE = 30


@signed_in
@require_safe
def changes(request, team, key):
    head = load_header(request, team, key, "workspace-changes")
    points = points_of(head.workspace)
    context = {"nav": "workspaces", "head": head}
    if len(points) == 1:
        context["nothing"] = gettext("No snapshots to compare yet.")
        return render(request, "workspaces/changes.html", context)
    context |= _comparison(request, head.workspace, points)
    try:
        context |= _found(request, head.workspace, context)
    except Problem as problem:
        if problem.status == 404:
            raise Http404(problem.detail) from None
        context["refused"] = problem.detail
    return render(request, "workspaces/changes.html", context)


def _comparison(request, workspace, points) -> dict:
    """Return what the page says about the two points that it compares."""
    oldest, newest = int(points[-1][0]), int(points[1][0])
    base = workspace.baseline.number if workspace.baseline else oldest
    from_ = parse_point(request.GET.get("from", ""), base)
    to = parse_point(request.GET.get("to", ""), newest if workspace.trashed_at else "live")
    pairs = _pairs(workspace, base, newest, from_, to, _visited(request, workspace))
    labels = dict(points)
    return {
        "points": points,
        "pairs": pairs,
        "no_pair": not any(chosen for _, _, chosen, _ in pairs),
        "from_words": labels.get(str(from_), from_),
        "to_words": labels.get(str(to), to),
        "from_value": from_,
        "to_value": to,
        "may_use": request.caller.can("use_workspace", workspace.team_id),
        "is_up": workspace.state in (State.READY, State.PAUSED) and not workspace.trashed_at,
    }


def _found(request, workspace, comparison) -> dict:
    """Return the changed files, counted, and the diffs of one page. Raises Problem if the points cannot be read."""
    from_, to = comparison["from_value"], comparison["to_value"]
    may_restore = request.caller.can("restore", workspace.team_id) and not workspace.trashed_at
    back_to = from_ if may_restore and to == "live" and isinstance(from_, int) else None
    found = history.changes(workspace, from_, to)
    written, gits_own = [r for r in found if not r.is_gits_own], [r for r in found if r.is_gits_own]
    older, shown = _page(request, written, gits_own)
    options = {"raw": _raw_address(workspace, to), "until": deadline(), "back_to": back_to}
    return {
        "found": [(shown_path(row), row) for row in written[:SHOWN_ENTRIES]],
        "more": max(0, len(written) - SHOWN_ENTRIES),
        "additions": sum(row.additions for row in written),
        "deletions": sum(row.deletions for row in written),
        "count": len(written),
        "gits_own": [(shown_path(row), row) for row in gits_own[:SHOWN_ENTRIES]],
        "gits_own_count": len(gits_own),
        "diffs": [
            diff_of(*row, parts=comparison["is_up"], **options)
            for row in history.contents(workspace, shown)
            if row[1:] != (None, None)
        ],
        "older": older,
    }


def _pairs(workspace, base, last, from_, to, visited):
    """Return the predefined comparisons as (query, label, is selected, None)."""
    pairs = [(base, "live", gettext("Since setup")), (last, "live", gettext("Since the last snapshot"))]
    if visited:
        pairs.append((visited, "live", gettext("Since your last visit")))
    an_hour_ago = workspace.snapshots.filter(created_at__lte=clock.now() - timedelta(hours=1)).order_by("-number")
    if hourly := an_hour_ago.values_list("number", flat=True).first():
        pairs.append((hourly, "live", gettext("Last hour")))
    if last > 1:
        pairs.append((last - 1, last, gettext("Changes in the last snapshot")))
    seen = {}
    for a, b, words in pairs:
        seen.setdefault((a, b), words)
    return [(f"?from={a}&to={b}", words, (a, b) == (from_, to), None) for (a, b), words in seen.items()]


def _visited(request, workspace) -> int | None:
    """Return the newest snapshot at this session's last visit to these changes, and store the current one.

    A page that refreshes itself is no visit. It must not save the session either: the whole session is written, and
    without the notice that a form sent meanwhile has put there.
    """
    visits = request.session.get("visits", {})
    before = visits.get(str(workspace.pk))
    if takes_parts(request):
        return before
    if workspace.head and before != workspace.head.number:
        request.session["visits"] = visits | {str(workspace.pk): workspace.head.number}
    return before


def _page(request, found, gits_own):
    """Return (query of the next page, changes to show): the requested file, or DIFFS_PER_PAGE outside `.git`."""
    if wanted := path_in(request):
        return "", [row for row in (*found, *gits_own) if row.path == wanted]
    start = parse_point(request.GET.get("start", ""), 0)
    start = start if isinstance(start, int) else 0
    query = request.GET.copy()
    query["start"] = str(start + DIFFS_PER_PAGE)
    more = f"?{query.urlencode()}" if len(found) > start + DIFFS_PER_PAGE else ""
    return more, found[start : start + DIFFS_PER_PAGE]


def shown_path(row) -> str:
    return row.path.decode("utf-8", "surrogateescape")


def _raw_address(workspace, at) -> str:
    return f"{reverse('workspace-file-raw', args=[workspace.team.slug, workspace.key])}?at={at}&path="


def diff_of(
    change, old, new, *, until: float, raw: str = "", back_to: int | None = None, parts: bool = False
) -> FileDiff:
    """Return the diff to show. `raw`: the address of a file's bytes, without its path, if files can be downloaded.

    `back_to`: the snapshot that the file can be reverted to; `parts`: single hunks too.
    """
    path = shown_path(change)
    diff = compare(path, old, new, until=until)
    if back_to is not None:
        diff.from_ = back_to
        if parts and change.kind == "modified" and new is not None and diff.hunks:
            diff.seen = revert.digest_of(new)
    diff.kind, diff.binary = change.kind, diff.binary or change.binary
    diff.is_link = any(side is not None and side.type == "symlink" for side in (change.change.old, change.change.new))
    if change.old_path:
        diff.old_path = change.old_path.decode("utf-8", "surrogateescape")
    if change.too_large:
        shown = change.change.new or change.change.old
        diff.note = gettext("Too large to show (%(size)s).") % {"size": filesizeformat(shown.size)}
        diff.download = raw + quote_from_bytes(change.path) if raw and change.change.new else ""
    elif change.old_mode != change.new_mode and None not in (change.old_mode, change.new_mode) and not diff.hunks:
        modes = {"old": f"{change.old_mode:o}", "new": f"{change.new_mode:o}"}
        diff.note = gettext("Only its mode changed: %(old)s is %(new)s now.") % modes
    elif not diff.hunks and not diff.binary and not diff.note:
        diff.note = gettext("No line changed.")
    return diff


@signed_in
@require_safe
def patch(request, team, key):
    """Download all changes between two points as a patch for `git apply`."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "read", head.workspace.team_id)
    from_, to = parse_point(request.GET.get("from", ""), None), parse_point(request.GET.get("to", ""), "live")
    try:
        if from_ is None:
            raise Http404("no such point")
        chunks = history.patch(head.workspace, from_, to)
    except Problem as problem:
        return refused_download(problem)
    name = f"{key}-{from_}-{to}.patch"
    return download(request, chunks, name, "text/x-diff; charset=utf-8")
