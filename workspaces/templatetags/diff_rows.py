"""Rows of diffs and of the list of changed files: {% load diff_rows %}.

A page has thousands of them, and a template takes ten times as long for each.
"""

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext

from dashboard.templatetags.handrail import thousands
from dashboard.visible_text import visible

register = template.Library()


@register.filter
def unified_rows(hunk) -> SafeString:
    """Return the lines of a hunk as rows, the old and the new number before each."""
    signs = {
        "added": f'<span aria-hidden="true">+</span><span class="for-ears">{gettext("added")}</span>',
        "removed": f'<span aria-hidden="true">−</span><span class="for-ears">{gettext("removed")}</span>',
    }
    return mark_safe(
        "".join(
            f'<tr class="{line.kind}{" moved" if line.moved else ""}">'
            f'<td class="line-number old" data-n="{line.old or ""}"></td>'
            f'<td class="line-number" data-n="{line.new or ""}"></td>'
            f'<td class="sign">{signs.get(line.kind, "")}</td>'
            f'<td class="line exact"{_moved(line)}>{line.html}</td></tr>{_said(hunk, line, line)}'
            for line in hunk.lines
        )
    )


@register.filter
def split_rows(hunk) -> SafeString:
    """Return the lines of a hunk as rows, the old text beside the new."""
    ears = {name: f'<span class="for-ears">{gettext(name)}</span>' for name in ("removed", "added")}
    return mark_safe(
        "".join(
            f"<tr>{_half(left, 'old', 'removed', ears)}{_half(right, 'new', 'added', ears)}</tr>"
            f"{_said(hunk, left, right)}"
            for left, right in hunk.rows
        )
    )


def _half(line, side: str, says: str, ears: dict) -> str:
    if line is None:
        return '<td class="line-number" data-n=""></td><td class="line exact gone"></td>'
    number = f'<td class="line-number" data-n="{getattr(line, side) or ""}"></td>'
    if line.kind != says:
        return f'{number}<td class="line exact same">{line.html}</td>'
    moved = " moved" if line.moved else ""
    return f'{number}<td class="line exact {says}{moved}"{_moved(line)}>{ears[says]}{line.html}</td>'


def _said(hunk, left, right) -> str:
    """Return the row with the comments on a line: those on its old and on its new text."""
    if not hunk.said:
        return ""
    keys = (("old", left and left.old), ("new", right and right.new))
    html = "".join(hunk.said.get(key, "") for key in keys)
    return f'<tr class="said-row"><td colspan="4">{html}</td></tr>' if html else ""


def _moved(line) -> str:
    if not line.moved:
        return ""
    words = gettext("Moved from line %(number)s") if line.kind == "added" else gettext("Moved to line %(number)s")
    return f' title="{escape(words % {"number": line.moved})}"'


def _count(number: int) -> str:
    return str(number) if number < 1000 else thousands(number)


@register.filter
def file_rows(files) -> SafeString:
    """Return the rows of the list of changed files; `files` are (address, path, change, was seen)."""
    added, removed = escape(gettext("lines added")), escape(gettext("lines removed"))
    seen = f'<span class="chip">{escape(gettext("seen"))}</span>'
    rows = []
    for address, path, change, is_seen in files:
        kind = f'<span class="chip">{change.kind}</span>' if change.kind != "modified" else ""
        plus = f'<span class="plus" title="{added}">+{_count(change.additions)}</span>' if change.additions else ""
        minus = f'<span class="minus" title="{removed}">−{_count(change.deletions)}</span>'
        rows.append(
            f'<li{" data-seen" if is_seen else ""}><a href="{escape(address)}">'
            f"<code>{visible(path, one_line=True)}</code></a>{kind}{seen if is_seen else ''}"
            f"<span>{plus} {minus if change.deletions else ''}</span></li>"
        )
    return mark_safe("".join(rows))  # the path, the addresses and the words are escaped
