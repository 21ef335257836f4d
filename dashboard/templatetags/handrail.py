"""Labels, icons and filters that all pages share: {% load handrail %}."""

import json
import re
from functools import lru_cache
from itertools import pairwise

from django import template
from django.conf import settings
from django.template.defaultfilters import filesizeformat
from django.templatetags.static import static
from django.utils.formats import number_format
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import get_language, gettext, ngettext

from dashboard.event_log.sentences import in_words
from dashboard.text import own_commands, quorum_words, recorded_text
from dashboard.text import visible_text as shown
from dashboard.text.labels import REFUSALS, STATES, TIERS, UNDO
from dashboard.text.moments import age, ago, clock, countdown, dated, long_date, until, when
from dashboard.text.texts import texts_version
from dashboard.web.navigation import ENTRIES, ON_THE_BAR, STOP, Page, entry_of, tabs_at

register = template.Library()
register.filter("event_words", in_words)
register.filter("day", dated)
for time_filter in (age, ago, when, clock, countdown, until, long_date):
    register.filter(time_filter)


register.simple_tag(own_commands.manage, name="manage")
register.simple_tag(own_commands.manage_here, name="manage_here")

PACKAGE_PARTS = {
    "xterm": "xterm/addon-{0}/lib/addon-{0}.mjs",
    "codemirror": "codemirror/{0}/dist/index.js",
    "uplot": "uplot/dist/{0}",
}


@register.filter
def visible(raw) -> str:
    """Render untrusted text for an element of class "exact": hidden characters as marks, and once more as it reads."""
    return shown.visible(_text(raw)) + shown.as_it_reads(_text(raw))


@register.filter
def with_code(words: str) -> str:
    """Render our own sentence with what stands between backticks as code."""
    return mark_safe(re.sub(r"`([^`]+)`", r"<code>\1</code>", conditional_escape(words)))


@register.filter
def with_focus(field):
    """Render a field of a form; the first one with an error has the focus when the page opens."""
    form = field.form
    first = next((each.name for each in form.visible_fields() if each.name in form.errors), None)
    return field.as_widget(attrs={"autofocus": True} if field.name == first else None)


@register.filter
def as_it_reads(raw) -> str:
    """Render untrusted text of a right-to-left script as it reads, to stand beside its exact view; else ""."""
    return shown.as_it_reads(_text(raw))


@register.filter
def with_marks(value) -> str:
    """Return the text of a form field with its hidden characters as marks, to stand below the field; "" if none.

    `value` is the text, or a field of a form; a field that never shows its text has none.
    """
    if hasattr(value, "as_widget"):
        value = value.field.widget.get_context(value.html_name, value.value(), {})["widget"]["value"]
    note = shown.hidden_note(value, is_output=True) if isinstance(value, str) else ""
    marked = '<div class="help field-marks"><p>{}</p><code class="exact">{}</code></div>'
    return format_html(marked, note, shown.visible(value)) if note else ""


@register.filter
def visible_line(raw) -> str:
    """Render untrusted text on one line: line ends are marks too."""
    return shown.visible(_text(raw), one_line=True)


@register.filter
def reason_line(raw) -> str:
    """Render a reason on one line as `recorded` does, with what stands between backticks as code."""
    return mark_safe(re.sub(r"`([^`<]+)`", r"<code>\1</code>", recorded(raw)))


@register.filter
def beginning_of_reason(text: str) -> str:
    """Return the first line of a reason; where it announces what follows, with the first line of that."""
    lines = [line for line in text.split("\n") if line.strip()]
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1])


@register.simple_tag
def marked_line(line: str, words: list[str]) -> str:
    """Render untrusted text on one line, with the words that were searched for marked, in any case."""
    # pattern: words without a repeat
    parts = re.split("(" + "|".join(map(re.escape, words)) + ")", line, flags=re.IGNORECASE)
    pieces = (
        format_html("<mark>{}</mark>", visible_line(part)) if place % 2 else visible_line(part)
        for place, part in enumerate(parts)
    )
    return format_html_join("", "{}", ((piece,) for piece in pieces))


@register.simple_tag
def marked_spans(line: str, spans: list[list[int]]) -> str:
    """Render untrusted text on one line, with its parts [begin, end] marked, which are in order."""
    bounds = [0, *(place for span in spans for place in span), len(line)]
    parts = (line[begin:end] for begin, end in pairwise(bounds))
    pieces = (
        format_html("<mark>{}</mark>", visible_line(part)) if place % 2 and part else visible_line(part)
        for place, part in enumerate(parts)
    )
    return format_html_join("", "{}", ((piece,) for piece in pieces))


@register.filter
def recorded(raw) -> str:
    """Render on one line a text that is recorded in English: in the reader's language if one of our forms says it."""
    text = _text(raw)
    if not text or not isinstance(text, str) or get_language() == settings.LANGUAGE_CODE:
        return visible_line(text)
    if (translated := recorded_text.in_own_language(text)) is not None:
        return visible_line(translated)
    return in_language(text, settings.LANGUAGE_CODE)


@register.filter
def own_title(action) -> str:
    """Render the title of an action on one line, in the reader's language if it can be said in it.

    Of an action that is known only as {"title"}, the title as `recorded` says it.
    """
    if isinstance(action, dict):
        return recorded(action["title"])
    said = recorded_text.own_titles[0](action)
    return in_language(action.title, settings.LANGUAGE_CODE) if said is None else visible_line(said)


@register.filter
def tier_word(tier: str) -> str:
    return TIERS[tier][0] if tier in TIERS else tier


@register.filter
def refusal_word(kind: str) -> str:
    return REFUSALS.get(kind, kind)


@register.filter
def in_language(text: str, language: str) -> str:
    """Render text on one line; `language` is the one that it is in, "" if it is the reader's."""
    return format_html('<span lang="{}">{}</span>', language, visible_line(text)) if language else visible_line(text)


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
def code_block(raw, *, must_read=False, title: str = "", size: str = "", copy=False, is_output=False, values: str = ""):
    """Show exact bytes, folded if long; with must_read, Approve stays off until the fold was read to its end.

    `size`: that of a list or an object, of which fewer lines are shown beside the fold. `values`: how the values of a
    call are read back from it (static/js/attest.js).
    """
    return {
        "parts": shown.fold(raw, is_structure=bool(size)),
        "end": f"end-{len(raw)}",
        "note": shown.hidden_note(raw, is_output=is_output),
        "must_read": must_read,
        "title": title,
        "size": size,
        "copy": copy,
        "values": values,
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
    text = "".join(part.text for part in parts)
    note = shown.hidden_note(text)
    pieces.append(shown.as_it_reads(text))
    return {"marked": format_html_join("", "{}", ((piece,) for piece in pieces)), "note": note}


@register.simple_tag(takes_context=True)
def navigation(context) -> dict:
    """Return the pages of the navigation, and the name of the current entry."""
    path = getattr(context.get("request"), "path", "")
    return {
        "entries": ENTRIES,
        "bar": [page for page in ENTRIES if page.name in ON_THE_BAR],
        "rest": [page for page in ENTRIES if page.name not in ON_THE_BAR],
        "bar_names": ON_THE_BAR,
        "stop": STOP,
        "current": entry_of(context.get("nav", ""), path),
    }


@register.simple_tag(takes_context=True)
def page_tabs(context) -> list[tuple[Page, bool]]:
    """Return the pages beside the shown one as tabs, and whether each is the shown one."""
    path = getattr(context.get("request"), "path", "")
    return [(page, page.path == path) for page in tabs_at(path)]


@register.simple_tag
def module(name: str) -> str:
    """Return the URL of one of our scripts."""
    return static(f"js/{name}.js")


@register.simple_tag
def texts_address() -> str:
    """Return the URL of the scripts' texts in the page's language; "" for English, which the scripts hold."""
    code = get_language() or settings.LANGUAGE_CODE
    return "" if code == settings.LANGUAGE_CODE else f"/texts.js?{code}-{texts_version()}"


@register.simple_tag
def font(name: str) -> str:
    """Return the URL of one of our fonts."""
    return static(f"vendor/fontsource-variable/{name}/files/{name}-latin-wght-normal.woff2")


@register.simple_tag
def package_part(package: str, name: str) -> str:
    """Return the URL of a part of a package from npm, such as an add-on of the terminal."""
    return static(f"vendor/{PACKAGE_PARTS[package].format(name)}")


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
    return _drawn(f"icon {css}", name)


@lru_cache(maxsize=1000)  # a list has hundreds
def _drawn(css: str, name: str) -> str:
    drawn = '<svg class="{}" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>'
    return format_html(drawn, css, static("icons.svg"), name)


@register.simple_tag
def row_mark(name: str) -> str:
    """Return the icon at the start of a row: snapshot, asked, command, message or event."""
    return _drawn("row-mark", name)


@register.simple_tag
def row_sign(sign) -> str:
    """Return the sign at the start of an action's row: an icon, and its words for those who don't see it."""
    return format_html('{}<span class="for-ears">{}: </span>', _drawn("row-sign", sign.icon), sign.words)


@register.simple_tag
def tier_chip(tier: str, word: str = "", tone: str = "") -> str:
    """Return the chip of a tier, with a word for what is at stake and another tone, if they are given."""
    label, own_tone = TIERS[tier]
    label, tone = f"{label}: {word}" if word else label, tone or own_tone
    return format_html('<span class="chip tier" data-tone="{}">{}{}</span>', tone, icon(f"tier-{tier}"), label)


@register.simple_tag
def takes_words(takes) -> str:
    """Say who approves, by a Takes of approvals.policy.people."""
    return quorum_words.takes(takes.people, takes.role, takes.groups)


@register.simple_tag
def stake_chip(action, severity) -> str:
    """Return the chip of what a card is about: how many people a critical one takes, else what it touches, if known."""
    if not action.takes_one:
        return tier_chip(
            action.tier, quorum_words.takes(action.quorum, action.quorum_role, action.quorum_groups), severity.tone
        )
    if not severity.touches:
        return "" if action.tier == "high" else tier_chip(action.tier)
    return format_html('<span class="chip stake" data-tone="{}">{}</span>', severity.tone, severity.touches)


@register.simple_tag
def undo_chip(undo: str, part: str = "") -> str:
    """Return the chip that says if an action can be undone; `part` names the part that cannot, if not all of it."""
    label, tone, sign = UNDO[undo]
    if part and undo == "no":
        label = gettext("%(part)s can't be undone") % {"part": part}
    return format_html('<span class="chip undo" data-tone="{}">{}{}</span>', tone, icon(sign), label)


@register.filter
def message_tone(level: str) -> str:
    """Return the tone of a notice, by the level of Django's message."""
    return {"error": "red", "warning": "amber", "success": "calm"}.get(level, "accent")


@register.filter
def approved_by(by: dict | None) -> str:
    """Return ", approved by ruth" for what an agent did with an approval, else nothing."""
    name = (by or {}).get("approved_by")
    return format_html(gettext(", approved by {}"), visible_line(name)) if name else ""


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
    """Format 83915 as 83,915, or as 83.915 in German."""
    return number_format(count, force_grouping=True)


@register.filter
def file_count(count) -> str:
    """Format how many files and folders a tree has: "1 file or folder", "83,915 files and folders"."""
    return ngettext("%(n)s file or folder", "%(n)s files and folders", count) % {"n": thousands(count)}


@register.filter
def size(count) -> str:
    """Format a number of bytes."""
    return filesizeformat(count)


@register.filter
def minutes(seconds) -> str:
    """Format 75.2 seconds as 1:15."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


@register.simple_tag
def delivery_words(delivery) -> str:
    """Return what is known of a notification: "sent 14:02, shown 14:02, opened 14:05", or why it was not sent."""
    steps = (
        (gettext("sent {}"), delivery.sent_at),
        (gettext("shown {}"), delivery.shown_at),
        (gettext("opened {}"), delivery.opened_at),
    )
    known = mark_safe(", ".join(format_html(words, clock(at)) for words, at in steps if at))
    if known:
        return known
    waits = gettext("on its way") if not delivery.failures else gettext("tried again soon")
    return f"{delivery.problem.rstrip('.') or waits}" if delivery.next_try_at is None or delivery.failures else waits
