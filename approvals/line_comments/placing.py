"""Put comments beside the lines that they are about; those whose lines are gone go to the head of their file."""

from collections import Counter, defaultdict
from urllib.parse import quote_from_bytes

from django.template.loader import render_to_string

from approvals.line_comments import lines
from approvals.line_comments.drafts import encoded
from approvals.models import Action, LineComment
from workspaces.changes import history
from workspaces.changes.diff import FileDiff
from workspaces.store import StoreError

MAX_SHOWN = 500  # comments on a workspace's changes, or a card; the newest
OUTDATED, ELSEWHERE = "outdated", "elsewhere"  # the lines are gone; they are none of those that are shown


def _rows(caller):
    related = ("user", "agent", "message", "decision__action", "workspace__team", "action")
    return LineComment.objects.visible_to(caller).select_related(*related).order_by("-at")


def on_section(section, caller):
    """Put the comments of a file of a workspace's changes into its diff; one query for all files of a page."""
    view, diff = section.view, section.diff
    workspace = view.workspace
    if "comments" not in view.loaded:
        view.loaded["comments"] = _by_path(_rows(caller).filter(workspace=workspace, action=None))
    found = view.loaded["comments"].get(quote_from_bytes(section.row.path), [])
    diff.takes_comments = caller.can("decide", workspace.team_id) and _has_lines(diff)
    if not found:
        return
    try:
        [(_, old, new)] = history.contents(view.comparison.new.workspace, [section.row])
    except StoreError:
        old = new = None
    _place(found, lines.of_contents(old, new), [diff] if _has_lines(diff) else [], at_file=diff)


def _by_path(rows) -> dict[str, list[LineComment]]:
    found = defaultdict(list)
    for comment in reversed(rows[:MAX_SHOWN]):
        found[comment.path].append(comment)
    return found


def _has_lines(diff: FileDiff) -> bool:
    """Whether the numbers that a page shows are those of the file's lines."""
    return bool(diff.hunks) and not diff.how and diff.table is None and not diff.is_link


def on_card(action: Action, shown: list[list[FileDiff]], caller):
    """Put the comments on a card into the diffs that it shows, each given as its parts.

    Of a path with several diffs the numbers of lines say nothing, so they take no comments.
    """
    if not shown:
        return
    paths = Counter(encoded(diffs[0].path) for diffs in shown)
    comments = _by_path(_rows(caller).filter(action=action))
    may = caller.can("decide", action.team_id)
    for diffs in shown:
        path = encoded(diffs[0].path)
        if paths[path] == 1:
            diffs[0].takes_comments = may and _has_lines(diffs[0])
            _place(comments.pop(path, []), lines.of_diffs(diffs), diffs, at_file=diffs[0])
    shown[0][0].comments += [(each, OUTDATED, each.lines) for rest in comments.values() for each in rest]


def _place(comments: list[LineComment], sides: lines.Sides, diffs: list[FileDiff], *, at_file: FileDiff):
    beside = defaultdict(list)
    for comment in comments:
        start = lines.find(sides, comment.side, comment.line, comment.quote)
        end = None if start is None else start + comment.end_line - comment.line
        if start is None:
            at_file.comments.append((comment, OUTDATED, comment.lines))
        elif hunk := _hunk_with(diffs, comment.side, end):
            beside[id(hunk), comment.side, end].append((comment, hunk))
        else:
            at_file.comments.append((comment, ELSEWHERE, str(start) if start == end else f"{start}-{end}"))
    for (_, side, number), found in beside.items():
        said = [comment for comment, _ in found]
        found[0][1].said[side, number] = render_to_string("approvals/_line_comments.html", {"comments": said})


def _hunk_with(diffs: list[FileDiff], side: str, number: int):
    for hunk in (hunk for diff in diffs for hunk in diff.hunks):
        if any(getattr(line, side) == number for line in hunk.lines):
            return hunk
    return None
