"""Rows of diffs and of the list of changed files: {% load diff_rows %}.

A page has thousands of them, and a template takes ten times as long for each.
"""

from urllib.parse import quote_from_bytes

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, gettext_lazy, ngettext

from dashboard.templatetags.handrail import thousands
from dashboard.text.visible_text import visible
from workspaces.changes.changed_tree import Folder
from workspaces.changes.diff.marks import words_of
from workspaces.store.diff import MODE, TYPE

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
            f'<td class="line exact"{_moved(line)}>{line.html}{_open(line)}</td></tr>{_comments_row(hunk, line, line)}'
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
            f"{_comments_row(hunk, left, right)}"
            for left, right in hunk.rows
        )
    )


def _half(line, side: str, says: str, ears: dict) -> str:
    if line is None:
        return '<td class="line-number" data-n=""></td><td class="line exact gone"></td>'
    number = f'<td class="line-number" data-n="{getattr(line, side) or ""}"></td>'
    if line.kind != says:
        return f'{number}<td class="line exact same">{line.html}{_open(line)}</td>'
    moved = " moved" if line.moved else ""
    return f'{number}<td class="line exact {says}{moved}"{_moved(line)}>{ears[says]}{line.html}{_open(line)}</td>'


def _comments_row(hunk, left, right) -> str:
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


def _open(line) -> str:
    """Return the mark of the last line of a text that does not end with a newline."""
    return f'<span class="no-newline">{escape(gettext("No newline at end of file"))}</span>' if line.is_open else ""


def _count(number: int | None) -> str:
    return "" if number is None else str(number) if number < 1000 else thousands(number)


KIND_WORDS = {
    "added": gettext_lazy("added"),
    "removed": gettext_lazy("removed"),
    "deleted": gettext_lazy("deleted"),
    "renamed": gettext_lazy("renamed"),
    MODE: gettext_lazy("mode changed"),
    TYPE: gettext_lazy("type changed"),
}


@register.filter
def kind_word(kind: str) -> str:
    """Return what happened to a file, in the reader's language."""
    return str(KIND_WORDS.get(kind, kind))


@register.filter
def says_more_than(kind: str, marks: list) -> bool:
    """Whether the kind of a change is said beside its marks: that of a type or mode says what the marks say."""
    return bool(kind) and kind != "modified" and not (marks and kind in (MODE, TYPE))


@register.filter
def marks(change) -> list[str]:
    """Return the words of what changed besides the lines."""
    return words_of(change.facts)


@register.filter
def moved_rows(rows, view) -> SafeString:
    """Return the rows of files that moved with their folder."""
    return mark_safe(
        "".join(
            f'<li><a href="?{escape(view.query())}&amp;path={quote_from_bytes(row.path)}'
            f'&amp;old={quote_from_bytes(row.old_path)}">'
            f"<code>{visible(row.old_path, one_line=True)} → {visible(row.path, one_line=True)}</code></a></li>"
            for row in rows
        )
    )


@register.filter
def tree_rows(folder) -> SafeString:
    """Return the rows of a tree of changed files (workspaces.changes.changed_tree): folders that fold, and files."""
    return mark_safe("".join(_tree_rows(folder)))  # the path, the addresses and the words are escaped


def _tree_rows(folder):
    for entry in folder.entries:
        yield _folder_row(entry) if isinstance(entry, Folder) else _file_row(*entry)


def _folder_row(folder) -> str:
    name, is_open = visible(folder.name, one_line=True), " open" if folder.is_open else ""
    return (
        f"<li{_seen(folder.seen == folder.files)}><details{is_open}><summary><code>{name}/</code>"
        f"{_files(folder.files)}{_counts(folder)}</summary><ul>{''.join(_tree_rows(folder))}</ul></details></li>"
    )


def _file_row(address: str, name: bytes, change, is_seen: bool) -> str:
    rows = getattr(change, "rows", None)  # of a folder that is gone
    chips = words_of(change.facts)
    chips = [kind_word(change.kind), *chips] if says_more_than(change.kind, chips) else chips
    about = "".join(f'<span class="chip">{visible(words, one_line=True)}</span>' for words in chips)
    if rows:
        about += _files(len(rows))
    elif change.additions is None:
        about += f'<span class="row-meta">{escape(gettext("lines not counted"))}</span>'
    if is_seen:
        about += f'<span class="chip">{escape(gettext("seen"))}</span>'
    shown = visible(name, one_line=True) + ("/" if rows else "")
    link = f'<a href="{escape(address)}"><code>{shown}</code></a>'
    return f"<li{_seen(is_seen)}>{link}{about}{_counts(change)}</li>"


def _seen(is_seen: bool) -> str:
    return " data-seen" if is_seen else ""


def _files(count: int) -> str:
    words = ngettext("%(n)s file", "%(n)s files", count) % {"n": thousands(count)}
    return f'<span class="row-meta">{escape(words)}</span>'


def _counts(change) -> str:
    """Return the lines added and removed, on one line."""
    added, removed = escape(gettext("lines added")), escape(gettext("lines removed"))
    plus = f'<span class="plus" title="{added}">+{_count(change.additions)}</span>' if change.additions else ""
    minus = f'<span class="minus" title="{removed}">−{_count(change.deletions)}</span>' if change.deletions else ""
    return f'<span class="counts">{plus} {minus}</span>'
