"""Labels, icons and filters that all pages share: {% load handrail %}."""

import json
from typing import NamedTuple

from django import template
from django.template.defaultfilters import filesizeformat
from django.templatetags.static import static
from django.urls import Resolver404, resolve
from django.utils import timezone
from django.utils.html import format_html, format_html_join

from dashboard import visible_text as shown
from dashboard.event_log.sentences import in_words

register = template.Library()
register.filter("event_words", in_words)


class Page(NamedTuple):
    """A page in the navigation; `name` is also the name of its icon."""

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


# The same order everywhere: phone bar, "More", desktop rail. Set-up begins with Environments.
FIRST = [
    Page("desk", "/", "Desk"),
    Page("waiting", "/waiting/", "Approvals"),
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
    Page("me", "/me/", "Me"),
    Page("environments", "/environments/", "Environments"),
    Page("storage", "/storage/", "Storage"),
    Page("status", "/status/", "Status"),
    Page("stop", "/stop/", "Stop everything"),
]

# status or state: (label, tone)
ACTION_STATES = {
    "pending": ("Needs approval", "amber"),
    "approved": ("Approved – the agent hasn't picked it up", "accent"),
    "running": ("Running", "accent"),
    "succeeded": ("Done", "calm"),
    "failed": ("Failed", "red"),
    "denied": ("Denied", "red"),
    "expired": ("Expired, did not run", "quiet"),
    "cancelled": ("Cancelled", "quiet"),
    "uncertain": ("Outcome unknown", "amber"),
}
WORKSPACE_STATES = {
    "creating": ("Creating", "accent"),
    "setting_up": ("Creating", "accent"),
    "ready": ("Ready", "calm"),
    "running": ("Working", "accent"),
    "working": ("Working", "accent"),
    "paused": ("Paused", "quiet"),
    "stopped": ("Stopped", "quiet"),
    "archived": ("Archived", "quiet"),
    "failed": ("Failed", "red"),
    "deleted": ("In trash", "quiet"),
    "unreachable": ("Unreachable", "amber"),
}
OPERATION_PHASES = {
    "due": ("Queued", "quiet"),
    "claimed": ("Starting", "accent"),
    "started": ("Running", "accent"),
    "settled": ("Done", "calm"),
    "uncertain": ("Outcome unknown", "amber"),
}
STATES = {"action": ACTION_STATES, "workspace": WORKSPACE_STATES, "operation": OPERATION_PHASES}
TIERS = {
    "low": ("Low", "calm"),
    "medium": ("Medium", "quiet"),
    "high": ("High", "amber"),
    "critical": ("Critical", "plum"),
    "forbidden": ("Forbidden", "red"),
}
UNDO = {
    "yes": ("Reversible", "calm", "undo"),
    "partly": ("Partly reversible", "amber", "partly"),
    "unknown": ("Unknown if reversible", "amber", "partly"),
    "no": ("Can't be undone", "red", "no-undo"),
    "kept": ("No snapshot of it", "quiet", "partly"),
    "gone": ("Can't be undone now: its snapshot was deleted", "quiet", "no-undo"),
}


@register.filter
def visible(raw) -> str:
    """Render untrusted text for an element of class "exact": hidden characters as marks."""
    return shown.visible(_text(raw))


@register.filter
def visible_line(raw) -> str:
    """Render untrusted text on one line: line ends are marks too."""
    return shown.visible(_text(raw), one_line=True)


def _text(value) -> str | bytes:
    """Return text as it is, and a model instance's name: agents' names are untrusted too."""
    return value if isinstance(value, str | bytes) else str(value)


@register.filter
def beginning(text: str, count: int) -> str:
    """Cut text before it goes to `visible`. Django's truncatechars would normalize it."""
    return text if len(text) <= count else f"{text[:count]}…"


@register.filter
def hidden_note(raw) -> str:
    return shown.hidden_note(raw)


@register.inclusion_tag("parts/code.html")
def code_block(raw, *, must_read: bool = False, title: str = "", copy: bool = False, is_output: bool = False):
    """Show exact bytes, folded if long; with must_read, Approve stays off until the fold was read to its end."""
    return {
        "parts": shown.fold(raw),
        "end": f"end-{len(raw)}",
        "note": shown.hidden_note(raw, is_output=is_output),
        "must_read": must_read,
        "title": title,
        "copy": copy,
    }


@register.inclusion_tag("parts/code_lines.html")
def code_lines(lines):
    """Show one numbered line for each sub-command."""
    return {"lines": lines, "note": shown.hidden_note("".join(map(shown.as_text, lines)))}


@register.inclusion_tag("parts/code_parts.html")
def code_parts(parts):
    """Show a command once, with a number where each of its sub-commands begins."""
    pieces = []
    for part in parts:
        if part.number:  # an empty element: the number is no text of the command
            mark = '<span class="part-mark" data-n="{}" data-tone="{}"></span>'
            pieces.append(format_html(mark, part.number, part.tone))
        pieces.append(shown.visible(part.text))
    note = shown.hidden_note("".join(part.text for part in parts))
    return {"marked": format_html_join("", "{}", ((piece,) for piece in pieces)), "note": note}


@register.simple_tag
def nav_pages() -> Pages:
    """Return the pages whose path is routed, in order."""
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
    """Return the URL of one of our scripts."""
    return static(f"js/{name}.js")


@register.simple_tag
def font(name: str) -> str:
    """Return the URL of one of our fonts."""
    return static(f"vendor/fontsource-variable/{name}/files/{name}-latin-wght-normal.woff2")


@register.simple_tag
def xterm_addon(name: str) -> str:
    """Return the URL of an add-on of the terminal."""
    return static(f"vendor/xterm/addon-{name}/lib/addon-{name}.mjs")


@register.simple_tag
def poll(url: str, element: str, *, seconds: int) -> str:
    """Return the attributes of an element that htmx fetches again every few seconds; `element` is its id."""
    return format_html('hx-get="{}" hx-trigger="every {}s" hx-select="#{}" hx-swap="outerHTML"', url, seconds, element)


@register.filter
def as_json(value) -> str:
    """Format for an attribute that a script reads."""
    return json.dumps(value)


@register.filter
def as_lines(texts) -> str:
    """Return one text a line. In a template itself a line break is one space."""
    return "".join(f"{text}\n" for text in texts)


@register.filter
def words(text: str) -> list[str]:
    return text.split()


@register.simple_tag
def icon(name: str, css: str = "") -> str:
    """Return an icon from static/icons.svg; the text beside it carries the meaning."""
    return format_html(
        '<svg class="icon {}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        css,
        static("icons.svg"),
        name,
    )


@register.simple_tag
def row_mark(name: str) -> str:
    """Return the icon at the start of a row: snapshot, asked, command, message or event."""
    return format_html(
        '<svg class="row-mark" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("icons.svg"),
        name,
    )


@register.simple_tag
def tier_chip(tier: str, word: str = "", tone: str = "") -> str:
    """Return the chip of a tier, with a word for what is at stake and another tone, if they are given."""
    label, own_tone = TIERS[tier]
    label, tone = f"{label}: {word}" if word else label, tone or own_tone
    return format_html('<span class="chip tier" data-tone="{}">{}{}</span>', tone, icon(f"tier-{tier}"), label)


@register.simple_tag
def undo_chip(undo: str, part: str = "") -> str:
    """Return the chip that says if an action can be undone; `part` names the part that cannot, if not all of it."""
    label, tone, sign = UNDO[undo]
    if part and undo == "no":
        label = f"{part} can't be undone"
    return format_html('<span class="chip undo" data-tone="{}">{}{}</span>', tone, icon(sign), label)


@register.filter
def message_tone(level: str) -> str:
    """Return the tone of a notice, by the level of Django's message."""
    return {"error": "red", "warning": "amber", "success": "calm"}.get(level, "accent")


@register.filter
def approved_by(by: dict | None) -> str:
    """Return ", approved by ruth" for what an agent did with an approval, else nothing."""
    name = (by or {}).get("approved_by")
    return format_html(", approved by {}", visible_line(name)) if name else ""


@register.filter
def action_tone(action) -> str:
    """Return the tone of an action: of its tier while it is pending, of its outcome afterwards."""
    return tier_tone(action.tier) if action.status == "pending" else state_tone(action.status)


@register.filter
def tier_tone(tier: str) -> str:
    return TIERS[tier][1]


@register.filter
def state_words(state: str, kind: str = "action") -> str:
    """Return the label of a state: of an action, or with :"workspace" or :"operation" of one of those."""
    return STATES[kind][state][0]


@register.filter
def state_tone(state: str, kind: str = "action") -> str:
    return STATES[kind][state][1]


@register.simple_tag
def state_line(state: str, kind: str = "action", since=None) -> str:
    """Return dot, label, and since when."""
    since = format_html(' <span class="since">since {}</span>', when(since)) if since else ""
    return format_html(
        '<span class="state" data-tone="{}">{}{}</span>', state_tone(state, kind), state_words(state, kind), since
    )


@register.filter
def thousands(count) -> str:
    """Format 83915 as 83,915."""
    return f"{count:,}"


@register.filter
def size(count) -> str:
    """Format a number of bytes."""
    return filesizeformat(count)


@register.filter
def minutes(seconds) -> str:
    """Format 75.2 seconds as 1:15."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@register.filter
def ago(moment) -> str:
    """Format how long ago, or how long until: "just now", "4 min ago", "in 27 min"."""
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
    """Return a relative <time> with the exact one on hover; static/js/time.js keeps it current."""
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
    """Return a <time> by the clock: "14:05", with the day if it is not today."""
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


@register.filter
def until(moment) -> str:
    """Return a <time> of an expiry: "until 14:05"; static/js/time.js counts the last minutes down."""
    local = timezone.localtime(moment)
    return format_html(
        '<time datetime="{}" data-until title="{}">until {}</time>',
        moment.isoformat(),
        local.strftime("%-d %b %Y %H:%M:%S"),
        local.strftime("%H:%M"),
    )


@register.simple_tag
def delivery_words(delivery) -> str:
    """Return what is known of a notification: "sent 14:02, shown 14:02, opened 14:05", or why it was not sent."""
    steps = (("sent", delivery.sent_at), ("shown", delivery.shown_at), ("opened", delivery.opened_at))
    known = format_html_join(", ", "{} {}", ((word, clock(at)) for word, at in steps if at))
    if known:
        return known
    waits = "on its way" if not delivery.tries else "tried again soon"
    return f"{delivery.problem.rstrip('.') or waits}" if delivery.next_try_at is None or delivery.tries else waits
