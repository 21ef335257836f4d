"""One file of the Changes tab: its diff when it is needed, its images, and whether a person has seen it."""

from django.http import Http404
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.problems import Problem
from dashboard.web.pages import parameters, signed_in
from workspaces.changes import changed_tree, history
from workspaces.changes.comparisons import digest_of, without_moves
from workspaces.pages import diff_sections, images
from workspaces.pages.changes import seen_counts, view_of
from workspaces.pages.diff_sections import Section
from workspaces.pages.header import load_header
from workspaces.pages.points import path_in
from workspaces.services import reviews


def section_of(request, workspace) -> Section:
    """Return the section of the file that a request names. Http404 if it is at neither point."""
    view = _view_of(request, workspace)
    try:
        row = view.comparison.row_of(path_in(request), path_in(request, "old"))
    except Problem as problem:
        raise Http404(problem.detail) from None
    return Section(row, view, diff_sections.LATER)


@signed_in
@require_safe
def file(request, team, key):
    """Return one file's section, or with `line` its next lines, for a page that loads them when they are needed."""
    head = load_header(request, team, key, "workspace-changes")
    section = diff_sections.fill(section_of(request, head.workspace))
    template = "workspaces/_more_lines.html" if section.view.line else "workspaces/_changed_file.html"
    return render(request, template, {"head": head, "section": section, "split": section.split})


@signed_in
@require_safe
def image(request, team, key):
    """Return one side of a changed image, for an <img> of the page."""
    head = load_header(request, team, key, "workspace-changes")
    section = section_of(request, head.workspace)
    side = parameters(request, "side")["side"] != "old"
    entry = (section.row.change.old, section.row.change.new)[side]
    if entry is None or entry.size > images.MAX_BYTES:
        raise Http404("no such image")
    [(_, *contents)] = history.contents(head.workspace, [section.row])
    return images.answer(contents[side] or b"")


@signed_in
@require_POST
def see(request, team, key):
    """Mark the change of a file, or of all files `under` a folder, as seen by this person, or no longer."""
    head = load_header(request, team, key, "workspace-changes")
    is_seen = parameters(request, "seen")["seen"] == "1"
    if folder := path_in(request, "under"):
        return _see_folder(request, head.workspace, folder, is_seen)
    section = section_of(request, head.workspace)
    reviews.set_seen(head.workspace, request.user, [section.digest], is_seen)
    if not request.htmx:
        here = reverse("workspace-changes", args=[team, key])
        return redirect(f"{here}?{section.view.query()}#{section.anchor}")
    section.state = diff_sections.SEEN if is_seen else diff_sections.LATER
    if not is_seen:
        diff_sections.fill(section)
    written, _ = without_moves(section.view.comparison.written(with_ignored=section.view.with_ignored))
    seen = reviews.seen_digests(section.view.comparison, request.user)
    context = {"head": head, "section": section, "split": section.split} | seen_counts(written, seen)
    return render(request, "workspaces/_seen_file.html", context)


def _see_folder(request, workspace, folder: bytes, is_seen: bool):
    view = _view_of(request, workspace)
    written, _ = without_moves(view.comparison.written(with_ignored=view.with_ignored))
    digests = [digest_of(row) for row in changed_tree.below(written, folder)]
    reviews.set_seen(workspace, request.user, digests, is_seen)
    here = reverse("workspace-changes", args=[workspace.team.slug, workspace.key])
    return redirect(f"{here}?{view.query()}#{diff_sections.anchor_of(folder)}")


def _view_of(request, workspace):
    try:
        return view_of(request, workspace, request.GET.get("from", ""), request.GET.get("to", ""))
    except Problem as problem:
        raise Http404(problem.detail) from None
