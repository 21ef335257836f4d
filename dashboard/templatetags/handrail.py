"""What every page says in the same words and shows with the same signs: {% load handrail %}."""

from typing import NamedTuple

from django import template
from django.template.defaultfilters import filesizeformat
from django.templatetags.static import static
from django.urls import Resolver404, resolve
from django.utils import timezone
from django.utils.html import format_html

from dashboard import visible as shown

register = template.Library()


class Page(NamedTuple):
    name: str
    path: str
    label: str

    @property
    def icon(self) -> str:
        return self.name


class Pages(NamedTuple):
    first: list
    rest: list

    @property
    def all(self) -> list:
        return self.first + self.rest

    @property
    def rest_names(self) -> list:
        return [page.name for page in self.rest]


# The same names in the same order everywhere: phone bar, "More", desktop rail.
FIRST = [
    Page("desk", "/", "Desk"),
    Page("waiting", "/waiting/", "Waiting"),
    Page("workspaces", "/workspaces/", "Workspaces"),
]
REST = [
    Page("agents", "/agents/", "Agents"),
    Page("history", "/actions/", "History"),
    Page("log", "/log/", "Log"),
    Page("policy", "/policy/", "Policy"),
    Page("measures", "/measures/", "Measures"),
    Page("connect", "/connect/", "Connect"),
    Page("team", "/team/", "Team"),
    Page("environments", "/environments/", "Environments"),
    Page("storage", "/storage/", "Storage"),
    Page("me", "/me/", "Me"),
    Page("status", "/status/", "Status"),
    Page("stop", "/stop/", "Stop everything"),
]

# status or state: (words, tone)
ACTION_STATES = {
    "pending": ("Waiting", "amber"),
    "approved": ("Approved, not collected yet", "accent"),
    "running": ("Running", "accent"),
    "succeeded": ("Done", "calm"),
    "failed": ("Failed", "red"),
    "denied": ("Denied", "red"),
    "expired": ("Expired, did not run", "quiet"),
    "cancelled": ("Withdrawn", "quiet"),
    "uncertain": ("Unclear", "amber"),
}
WORKSPACE_STATES = {
    "creating": ("Getting ready", "accent"),
    "setting_up": ("Getting ready", "accent"),
    "ready": ("Ready", "calm"),
    "running": ("Working", "accent"),
    "working": ("Working", "accent"),
    "paused": ("Asleep", "quiet"),
    "stopped": ("Stopped", "quiet"),
    "archived": ("Put away", "quiet"),
    "failed": ("Broken", "red"),
    "deleted": ("In the trash", "quiet"),
    "unreachable": ("Out of reach", "amber"),
}
EFFECT_PHASES = {
    "due": ("Waiting for the runner", "quiet"),
    "claimed": ("Starting", "accent"),
    "started": ("Running", "accent"),
    "settled": ("Done", "calm"),
    "uncertain": ("Unclear", "amber"),
}
STATES = {"action": ACTION_STATES, "workspace": WORKSPACE_STATES, "effect": EFFECT_PHASES}
TIERS = {
    "low": ("Low", "calm"),
    "medium": ("Medium", "quiet"),
    "high": ("High", "amber"),
    "critical": ("Critical", "plum"),
    "forbidden": ("Forbidden", "red"),
}
UNDO = {
    "yes": ("Can be undone", "calm", "undo"),
    "partly": ("Partly undone", "amber", "partly"),
    "no": ("Cannot be undone", "red", "no-undo"),
}


@register.filter
def visible(raw) -> str:
    """Text from strangers, in an element of class "exact": hidden characters as marks."""
    return shown.visible(_text(raw))


@register.filter
def visible_line(raw) -> str:
    """The same where there is one line: line ends are marks too."""
    return shown.visible(_text(raw), one_line=True)


def _text(value) -> str | bytes:
    """A row stands for its name: agents' names are text from strangers too."""
    return value if isinstance(value, str | bytes) else str(value)


@register.filter
def beginning(text: str, count: int) -> str:
    """The first characters as they are, before `visible`: Django's truncatechars would put them into another form."""
    return text if len(text) <= count else f"{text[:count]}…"


@register.filter
def hidden_note(raw) -> str:
    return shown.hidden_note(raw)


@register.inclusion_tag("parts/code.html")
def code_block(raw, *, must_read: bool = False, title: str = "", copy: bool = False):
    """Bytes as they are, long ones folded; with must_read the card's Approve waits until the fold was read."""
    return {
        "parts": shown.fold(raw),
        "note": shown.hidden_note(raw),
        "must_read": must_read,
        "title": title,
        "copy": copy,
    }


@register.inclusion_tag("parts/code_lines.html")
def code_lines(lines):
    """One numbered line for each sub-command."""
    return {"lines": lines, "note": shown.hidden_note("".join(map(shown.as_text, lines)))}


@register.simple_tag
def nav_pages() -> Pages:
    """The pages of this release, in order: a page that has no address yet is left out."""
    return Pages([p for p in FIRST if has_page(p.path)], [p for p in REST if has_page(p.path)])


@register.simple_tag
def has_page(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


@register.simple_tag
def module(name: str) -> str:
    """The address of one of our scripts."""
    return static(f"js/{name}.js")


@register.filter
def words(text: str) -> list[str]:
    return text.split()


@register.simple_tag
def icon(name: str, css: str = "") -> str:
    """A sign from static/icons.svg; words beside it carry the meaning."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        css,
        static("icons.svg"),
        name,
    )


@register.simple_tag
def row_mark(name: str) -> str:
    """The shape of a thing on the rail: snapshot, asked, command, message or event."""
    return format_html(
        '<svg class="row-mark" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("icons.svg"),
        name,
    )


@register.simple_tag
def tier_chip(tier: str) -> str:
    label, tone = TIERS[tier]
    return format_html('<span class="chip tier" data-tone="{}">{}{}</span>', tone, icon(f"tier-{tier}"), label)


@register.simple_tag
def undo_chip(undo: str) -> str:
    label, tone, sign = UNDO[undo]
    return format_html('<span class="chip undo" data-tone="{}">{}{}</span>', tone, icon(sign), label)


@register.filter
def tier_tone(tier: str) -> str:
    return TIERS[tier][1]


@register.filter
def state_words(state: str, kind: str = "action") -> str:
    """The words for a state: of an action, or with :"workspace" or :"effect" of one of those."""
    return STATES[kind][state][0]


@register.filter
def state_tone(state: str, kind: str = "action") -> str:
    return STATES[kind][state][1]


@register.simple_tag
def state_line(state: str, kind: str = "action", since=None) -> str:
    """Dot, words, since when."""
    since = format_html(' <span class="since">since {}</span>', when(since)) if since else ""
    return format_html(
        '<span class="state" data-tone="{}">{}{}</span>', state_tone(state, kind), state_words(state, kind), since
    )


@register.filter
def thousands(count) -> str:
    """83915 as 83,915."""
    return f"{count:,}"


@register.filter
def size(count) -> str:
    """Bytes in words."""
    return filesizeformat(count)


@register.filter
def minutes(seconds) -> str:
    """75.2 as 1:15."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@register.filter
def ago(moment) -> str:
    """How long ago, or how long until, in the words of the pages: "just now", "4 min ago", "in 27 min"."""
    if not moment:
        return "never"
    seconds = (timezone.now() - moment).total_seconds()
    span = abs(seconds)
    if span < 45:
        return "just now" if seconds >= 0 else "in less than a minute"
    for unit, length, limit in (("min", 60, 60), ("h", 3600, 36), ("days", 86400, 45)):
        count = round(span / length)
        if count < limit:
            unit = "day" if (unit, count) == ("days", 1) else unit
            return f"{count} {unit} ago" if seconds >= 0 else f"in {count} {unit}"
    return timezone.localtime(moment).strftime("%-d %b %Y")


@register.filter
def when(moment) -> str:
    """A time as <time>, relative, with the exact one on hover; static/js/time.js keeps it current."""
    if not moment:
        return "never"
    local = timezone.localtime(moment)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        moment.isoformat(),
        local.strftime("%-d %b %Y %H:%M:%S"),
        ago(moment),
    )


@register.filter
def clock(moment) -> str:
    """A time as <time>, by the clock: "14:05", with the day when it is not today."""
    if not moment:
        return ""
    local, today = timezone.localtime(moment), timezone.localtime()
    shape = "%H:%M" if local.date() == today.date() else "%-d %b %H:%M"
    if local.year != today.year:
        shape = "%-d %b %Y %H:%M"
    return format_html(
        '<time datetime="{}" data-clock title="{}">{}</time>',
        moment.isoformat(),
        local.strftime("%-d %b %Y %H:%M:%S"),
        local.strftime(shape),
    )
