"""The Changes tab: the differences between two points in time."""

from datetime import timedelta

from django.contrib import messages
from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext
from django.views.decorators.http import require_safe

from dashboard.database import clock
from dashboard.problems import Problem
from dashboard.web.background_requests import takes_parts
from dashboard.web.pages import download, must, parameters, signed_in
from workspaces import extensions
from workspaces.changes import changed_tree, history
from workspaces.changes.changed_tree import GoneFolder
from workspaces.changes.comparisons import Comparison, compare, digest_of, find_point, lines_of, without_moves
from workspaces.changes.diff import SHOWN_LINES
from workspaces.models import State
from workspaces.pages import diff_sections
from workspaces.pages.diff_sections import Section, View, sections_of, shown_path
from workspaces.pages.header import load_header
from workspaces.pages.pictures.screenshots import shown_at
from workspaces.pages.points import SHOWN_ENTRIES, parse_point, path_in, points_of, refused_download
from workspaces.services import reviews

FILES_PER_PAGE = 50
LAYOUT = "handrail-diff"  # the cookie of who chose a layout
LAYOUTS = ("unified", "split")
WIDE = "handrail-wide"  # the cookie in which static/js/list-place.js says how wide the screen is


@signed_in
@require_safe
def changes(request, team, key):
    head = load_header(request, team, key, "workspace-changes")
    if "point" in request.GET:
        return _ticked(request, team, key)
    points = points_of(head.workspace)
    context = {"nav": "workspaces", "head": head}
    if len(points) == 1:
        context["nothing"] = gettext("No snapshots to compare yet.")
        return render(request, "workspaces/changes.html", context)
    context |= _chosen(request, head.workspace, points)
    if "X-Handrail-Refresh" not in request.headers:  # which takes the header only
        try:
            lines = SHOWN_LINES if path_in(request) else diff_sections.FIRST_LINES
            points = context["from_value"], context["to_value"]
            view = view_of(request, head.workspace, *points, first_lines=lines)
            context |= _changed_files(request, view)
        except Problem as problem:
            if problem.status == 404:
                raise Http404(problem.detail) from None
            context["refused"] = problem.detail
    response = render(request, "workspaces/changes.html", context)
    if (layout := request.GET.get("view")) in LAYOUTS:
        response.set_cookie(LAYOUT, layout, max_age=365 * 24 * 3600, secure=request.is_secure(), samesite="Lax")
    return response


def _ticked(request, team, key):
    """Lead on to the comparison of the snapshots that were ticked in their list: two, or one with now."""
    numbers = sorted(
        {found for text in request.GET.getlist("point") if isinstance(found := parse_point(text, None), int)}
    )
    if not 1 <= len(numbers) <= 2:
        messages.error(request, gettext("Tick two snapshots to compare them, or one to compare it with now."))
        return redirect("workspace-snapshots", team, key)
    from_, to = (*numbers, history.LIVE)[:2]
    return redirect(f"{reverse('workspace-changes', args=[team, key])}?from={from_}&to={to}")


def _chosen(request, workspace, points) -> dict:
    """Return what the page says about the two points that it compares."""
    oldest, newest = int(points[-1][0]), int(points[1][0])
    base = workspace.baseline.number if workspace.baseline else oldest
    from_ = _point_text(request, "from", str(base))
    to = _point_text(request, "to", str(newest) if workspace.trashed_at else history.LIVE)
    pairs = _pairs(workspace, base, newest, from_, to, _visited(request, workspace))
    labels = dict(points)
    foreign = [(text, text) for text in (from_, to) if text not in labels]
    return {
        "points": [*points, *dict.fromkeys(foreign)],
        "pairs": pairs,
        "pair_words": next((words for _, words, is_chosen in pairs if is_chosen), ""),
        "from_words": labels.get(from_, from_),
        "to_words": labels.get(to, to),
        "from_value": from_,
        "to_value": to,
        "may_use": request.caller.can("use_workspace", workspace.team_id),
        "is_up": workspace.state in (State.READY, State.PAUSED) and not workspace.trashed_at,
        "others": reviews.others(workspace, request.caller),
        "drafts": extensions.ports.drafts_on(workspace, request.caller),
    }


def _point_text(request, name: str, default: str) -> str:
    """Return a point of the address: "12", "live", "fork:12"; `default` for what is none."""
    key, colon, at = request.GET.get(name, "").rpartition(":")
    at = str(parse_point(at, ""))
    if not at:
        return default
    workspace = parameters(request, f"{name}_in")[f"{name}_in"] if not colon else key
    return f"{workspace}:{at}" if workspace else at


def view_of(request, workspace, from_: str, to: str, *, first_lines: int = diff_sections.FIRST_LINES) -> View:
    """Return how the request wants its comparison shown. Raises Problem if a point cannot be read."""
    old, new = (find_point(text, workspace, request.caller) for text in (from_, to))
    trees = diff_sections.signed_trees(request.POST.get("trees") or request.GET.get("trees", ""), workspace)
    line = parse_point(request.GET.get("line", ""), 0)
    layout = request.GET.get("view") or request.COOKIES.get(LAYOUT)
    is_wide = request.COOKIES.get(WIDE) == "1"
    may_restore = request.caller.can("restore", workspace.team_id) and not workspace.trashed_at
    is_up = workspace.state in (State.READY, State.PAUSED)
    raw = reverse("workspace-file-raw", args=[new.workspace.team.slug, new.workspace.key])
    return View(
        workspace,
        Comparison(old, new, trees) if trees else compare(old, new),
        {"from": from_, "to": to},
        ignore_space=request.GET.get("w") == "1",
        with_ignored=request.GET.get("ignored") == "1",
        as_is=request.GET.get("text") == "1",
        split=layout == "split" if layout in LAYOUTS else is_wide,
        line=line if isinstance(line, int) else 0,
        count=diff_sections.MORE_LINES if line else first_lines,
        raw=f"{raw}?at={new.at}&path=",
        may_restore=may_restore,
        may_restore_parts=may_restore and is_up,
        caller=request.caller,
    )


def _changed_files(request, view: View) -> dict:
    """Return the changed files, and the sections of one page of them. Raises Problem if the points cannot be read."""
    comparison = view.comparison
    every = comparison.written(with_ignored=view.with_ignored)
    written, moves = without_moves(every)
    seen = reviews.seen_digests(comparison, request.user)
    under = path_in(request, "under")
    items = changed_tree.below(written, under) if under else changed_tree.with_gone(written, comparison.gone_folders)
    shown, start = _page(request, comparison, items)
    one = path_in(request)
    comparison.count(shown if one else [*(row for row in shown if not isinstance(row, GoneFolder)), *every])
    sections = (
        [diff_sections.fill(Section(shown[0], view, diff_sections.LATER))] if one else sections_of(view, shown, seen)
    )
    more = {"under": under} if under else {}
    return {
        "view": view,
        "split": view.split,
        "trees": diff_sections.signed(comparison),
        **({} if one else _listed(view, items, sections, seen, start, more)),
        "under": under.decode("utf-8", "surrogateescape"),
        "moves": moves,
        "count": len(every),
        "total": None if one else lines_of(every),
        **seen_counts(written, seen),
        "left_out_count": len(comparison.left_out),
        "gits_own": [(shown_path(row), row) for row in comparison.gits_own[:SHOWN_ENTRIES]],
        "gits_own_count": len(comparison.gits_own),
        "gits_own_more": max(0, len(comparison.gits_own) - SHOWN_ENTRIES),
        "sections": sections,
        "one_file": bool(one),
        "is_wide": request.COOKIES.get(WIDE) == "1",
        "older": f"?{view.query(**more, start=start + FILES_PER_PAGE)}" if len(items) > start + FILES_PER_PAGE else "",
        "newer": f"?{view.query(**more, start=max(0, start - FILES_PER_PAGE))}" if start else "",
        "with_ignored": view.query(ignored="1"),
        "without_ignored": view.query(ignored=""),
        "layouts": _layouts(view),
        "switches": _switches(view),
        "pictures": shown_at([comparison.old, comparison.new]) if not one else [],
    }


def seen_counts(written, seen: frozenset[str]) -> dict:
    return {"seen_count": sum(digest_of(row) in seen for row in written), "file_count": len(written)}


def _page(request, comparison: Comparison, items) -> tuple[list, int]:
    """Return what one page shows and the number of the first: the requested file, or FILES_PER_PAGE of the items."""
    if wanted := path_in(request):
        every = {row.path: row for row in comparison.rows}
        if wanted not in every:
            raise Http404("no such change")
        return [every[wanted]], 0
    start = parse_point(request.GET.get("start", ""), 0)
    start = start if isinstance(start, int) else 0
    return items[start : start + FILES_PER_PAGE], start


def _listed(view: View, items, sections, seen, start: int, more: dict) -> dict:
    """Return the tree of SHOWN_ENTRIES of the files, those around the page's; and where the others are listed."""
    first = start - start % SHOWN_ENTRIES
    shown = items[first : first + SHOWN_ENTRIES]
    others = range(0, len(items), SHOWN_ENTRIES)
    return {
        "tree": changed_tree.tree_of(_files(view, items, sections, seen, more)[first : first + SHOWN_ENTRIES]),
        "more": len(items) - len(shown),
        "lists": [(f"?{view.query(**more, start=at)}", at + 1, min(at + SHOWN_ENTRIES, len(items))) for at in others],
    }


def _files(view: View, items, sections, seen, more: dict) -> list[tuple]:
    """Return (address, change, was seen) for the list of files: on this page, or on the one that has it."""
    here = {section.anchor for section in sections}
    pages = [f"?{view.query(**more, start=start)}" for start in range(0, len(items), FILES_PER_PAGE)]
    found = []
    for number, item in enumerate(items):
        anchor = diff_sections.anchor_of(item.path)
        is_seen = item.is_seen(seen) if isinstance(item, GoneFolder) else digest_of(item) in seen
        found.append((f"{'' if anchor in here else pages[number // FILES_PER_PAGE]}#{anchor}", item, is_seen))
    return found


def _layouts(view: View) -> list[tuple]:
    """Return (query, label, is chosen) of the two layouts, for a screen that is wide enough for both."""
    return [
        (f"?{view.query(view='unified')}", gettext("Unified"), not view.split),
        (f"?{view.query(view='split')}", gettext("Side by side"), view.split),
    ]


def _switches(view: View) -> list[tuple]:
    """Return (query, label, is chosen) of the other ways to show the same comparison."""
    return [(f"?{view.query(w='' if view.ignore_space else '1')}", gettext("Without whitespace"), view.ignore_space)]


def _pairs(workspace, base, last, from_, to, visited):
    """Return the predefined comparisons as (query, label, is selected)."""
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
        seen.setdefault((str(a), str(b)), words)
    return [(f"?from={a}&to={b}", words, (a, b) == (from_, to)) for (a, b), words in seen.items()]


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


@signed_in
@require_safe
def patch(request, team, key):
    """Download the changes between two points as a patch for `git apply`; ignored files are left out by default."""
    head = load_header(request, team, key, "workspace-changes")
    must(request.caller, "read", head.workspace.team_id)
    from_, to = _point_text(request, "from", ""), _point_text(request, "to", "live")
    if not from_:
        raise Http404("no such point")
    try:
        old, new = (find_point(text, head.workspace, request.caller) for text in (from_, to))
        chunks = compare(old, new).patch(with_ignored=request.GET.get("ignored") == "1")
    except Problem as problem:
        return refused_download(problem)
    name = f"{key}-{from_}-{to}.patch".replace(":", "-")
    return download(request, chunks, name, "text/x-diff; charset=utf-8")
