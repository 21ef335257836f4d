"""Moments as pages write them: relative, by the clock, or as the end of a time that is counted down.

static/js/time.js writes the same words and keeps them current.
"""

from datetime import date
from functools import lru_cache
from math import ceil

from django.utils import timezone
from django.utils.dateformat import format as formatted
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import get_language, gettext, ngettext, pgettext


def ago(moment) -> str:
    """Format how long ago, or how long until: "just now", "4 min ago", "in 27 min"."""
    if not moment:
        return gettext("never")
    seconds = (timezone.now() - moment).total_seconds()
    span = abs(seconds)
    if span < 45:
        return gettext("just now") if seconds >= 0 else gettext("in less than a minute")
    if (count := round(span / 60)) < 60:
        return (gettext("%(n)s min ago") if seconds >= 0 else gettext("in %(n)s min")) % {"n": count}
    if (count := round(span / 3600)) < 36:
        return (gettext("%(n)s h ago") if seconds >= 0 else gettext("in %(n)s h")) % {"n": count}
    if (count := round(span / 86400)) < 45:
        past, future = (
            ngettext("%(n)s day ago", "%(n)s days ago", count),
            ngettext("in %(n)s day", "in %(n)s days", count),
        )
        return (past if seconds >= 0 else future) % {"n": count}
    return dated(timezone.localtime(moment))


def dated(local) -> str:
    """Format a local moment or day as "3 Nov 2026"."""
    return _dated(local.year, local.month, local.day, get_language())


@lru_cache(maxsize=4000)  # a list names the same few days hundreds of times
def _dated(year: int, month: int, day: int, language: str | None) -> str:
    return formatted(date(year, month, day), pgettext("format of a date", "j M Y"))


def long_date(day) -> str:
    """Format a day as "Tuesday 3 November 2026"."""
    return formatted(day, pgettext("format of a date with its weekday", "l j F Y"))


def exact(local) -> str:
    """Format a local moment as "3 Nov 2026 14:05:09"."""
    return f"{dated(local)} {local:%H:%M:%S}"


def when(moment) -> str:
    """Return a relative <time> with the exact one on hover."""
    if not moment:
        return gettext("never")
    local = timezone.localtime(moment)
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact(local), ago(moment))


def clock(moment) -> str:
    """Return a <time> by the clock: "14:05", with the day if it is not today."""
    if not moment:
        return ""
    local, today = timezone.localtime(moment), timezone.localtime()
    shown = f"{local:%H:%M}"
    if local.year != today.year:
        shown = f"{dated(local)} {shown}"
    elif local.date() != today.date():
        shown = f"{formatted(local, pgettext('format of a day in this year', 'j M'))} {shown}"
    return format_html('<time datetime="{}" data-clock title="{}">{}</time>', moment.isoformat(), exact(local), shown)


def until(moment) -> str:
    """Return a <time> of an expiry: "until 14:05"; the script counts the last minutes down."""
    local = timezone.localtime(moment)
    words = gettext("until %(time)s") % {"time": f"{local:%H:%M}"}
    return format_html('<time datetime="{}" data-until title="{}">{}</time>', moment.isoformat(), exact(local), words)


COUNTED_SECONDS = 300  # before an end, within which rows count down


def countdown(moment) -> str:
    """Return a <time> that counts the last five minutes before a moment down: "1:52"; it is empty before them."""
    left = max(0, ceil((moment - timezone.now()).total_seconds()))
    local, ends = timezone.localtime(moment), left <= COUNTED_SECONDS
    return format_html(
        '<time datetime="{}" data-left{} title="{}">{}</time>',
        moment.isoformat(timespec="seconds"),
        mark_safe(" data-ends" if ends else ""),
        exact(local),
        f"{left // 60}:{left % 60:02}" if ends else "",
    )


def age(moment) -> str:
    """Return a <time> of how old something is, in few letters: "now", "4 min", "3 h", "2 d"."""
    seconds = max(0, (timezone.now() - moment).total_seconds())
    if seconds < 45:
        words = gettext("now")
    elif (count := round(seconds / 60)) < 60:
        words = gettext("%(n)s min") % {"n": count}
    elif (count := round(seconds / 3600)) < 36:
        words = gettext("%(n)s h") % {"n": count}
    else:
        words = gettext("%(n)s d") % {"n": round(seconds / 86400)}
    local = timezone.localtime(moment)
    mark = '<time datetime="{}" data-age title="{}">{}</time>'
    return format_html(mark, moment.isoformat(timespec="seconds"), exact(local), words)
