"""Render untrusted text so that every character is seen: nothing hidden, nothing stripped, nothing reordered.

The HTML decodes back to the exact bytes by one rule: an element with `data-bytes` stands for those bytes (hex),
repeated `data-times` times (default 1), whatever its text is; all other text stands for itself, in UTF-8. Put the
result in an element of class `exact` (white-space: pre-wrap, left to right), not right after `<pre>`, where HTML drops
a newline. The text of a folded block is the concatenation of its `exact` elements.
"""

import re
import unicodedata
from functools import lru_cache
from html import escape
from typing import NamedTuple

from django.template.defaultfilters import filesizeformat
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext, ngettext

RUN = 8  # blanks, or empty lines, in a row that are shown one by one
INDENT = 40  # blanks shown as they are at the start of a line, where they are indentation
ACCENTS = 3  # combining marks on one letter

# pattern: the look-behind lets each run of blanks begin once, and from each beginning it reads nine lines
_TOKENS = re.compile(
    # The look-behind keeps a long run of blanks from being retried at each of its positions.
    rf"(?P<lines>(?<![ \t])(?:[ \t]*\n){{{RUN + 1},}})"
    rf"|(?P<blanks> {{{RUN + 1},}}|\t{{{RUN + 1},}})"
    r"|(?P<tab>\t)|(?P<end>\n)|(?P<other>[^\x20-\x7e])"
)
# Blank or ignorable on screen although their category says letter, mark or symbol.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0\U0001d159")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
HEAD, TAIL, WHOLE = 24, 8, 40  # lines shown of a folded text; lines up to which a text is not folded
HEAD_OF_STRUCTURE, TAIL_OF_STRUCTURE, WHOLE_STRUCTURE = 5, 3, 12  # the same of a list or an object
HEAD_CHARS, TAIL_CHARS, WHOLE_CHARS = 3000, 1000, 5000
_COMBINING = frozenset({"Mn", "Me", "Mc"})
# Characters that a variation selector may follow, besides those that _has_emoji_form finds by category.
_EMOJI_BASES = frozenset("\u00a9\u00ae\u203c\u2049\u3030\u303d")
_RIGHT_TO_LEFT = frozenset({"R", "AL"})
_REORDERING = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
_ORDER_MARKS = frozenset("\u200e\u200f\u061c")
_WORD = re.compile(r"[^\s/\\:@\"'`()<>{}\[\]=,;|&$]+")
_LATIN = re.compile(r"[A-Za-z]")
_LOOK_ALIKE = (
    "CYRILLIC",
    "GREEK",
    "ARMENIAN",
    "CHEROKEE",
    "COPTIC",
    "LISU",
    "FULLWIDTH LATIN",
    "MATHEMATICAL",
    "LATIN LETTER SMALL CAPITAL",
)


def as_text(raw: str | bytes) -> str:
    """Decode UTF-8; each invalid byte becomes a lone surrogate, as in file names."""
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw


def visible(raw: str | bytes, *, one_line: bool = False) -> SafeString:
    """Return the text as HTML with marks; with one_line, line ends become marks too."""
    text = as_text(raw)
    strange = _look_alikes(text)
    parts, at = [], 0
    for token in _TOKENS.finditer(text):
        parts.append(escape(text[at : token.start()]))
        parts.append(_show(token, text, strange, one_line))
        at = token.end()
    parts.append(escape(text[at:]))
    return mark_safe("".join(parts))  # each part was escaped or generated here


def as_it_reads(raw: str | bytes) -> SafeString:
    """Return text with letters of right-to-left scripts once more, in the order in which it is read; "" for other text.

    Where it holds characters that change the order, only its exact view is shown. Its `data-bytes` are none.
    """
    text = as_text(raw)
    if text.isascii() or not any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return mark_safe("")
    if any(unicodedata.bidirectional(char) in _REORDERING or char in _ORDER_MARKS for char in text):
        return mark_safe("")
    words = "".join(f"[{_label(char)}]" if is_hidden(text, at) else char for at, char in enumerate(text))
    label = escape(gettext("As it reads"))
    return mark_safe(f'<span class="reads" data-bytes="" data-label="{label}" dir="auto">{escape(words)}</span>')


class Folded(NamedTuple):
    """A long text in three parts that join to the text; the middle is empty if the text is short."""

    head: str
    middle: str
    tail: str

    @property
    def words(self) -> str:
        lines = self.middle.count("\n")
        if lines > 1:
            return gettext("%(n)s more lines") % {"n": f"{lines:,}"}
        return gettext("%(n)s more characters") % {"n": f"{len(self.middle):,}"}

    @property
    def opens(self) -> str:
        """What a person has to do before the whole text was read."""
        lines = self.middle.count("\n")
        if lines > 1:
            return gettext("Open the %(n)s hidden lines to approve") % {"n": f"{lines:,}"}
        return gettext("Open the %(n)s hidden characters to approve") % {"n": f"{len(self.middle):,}"}


def fold(raw: str | bytes, *, is_structure: bool = False) -> Folded:
    """Split a long text into head, middle and tail; a short one stays whole."""
    text = as_text(raw)
    lines = text.count("\n") + 1
    limits = (HEAD_OF_STRUCTURE, TAIL_OF_STRUCTURE, WHOLE_STRUCTURE) if is_structure else (HEAD, TAIL, WHOLE)
    first, last, whole = limits
    if lines <= whole and len(text) <= WHOLE_CHARS:
        return Folded(text, "", "")
    head, tail = HEAD_CHARS, len(text) - TAIL_CHARS
    if lines > whole:
        head = min(head, _after_line(text, first))
        tail = max(tail, _before_last_lines(text, last))
    return Folded(text[:head], text[head:tail], text[tail:])


def _after_line(text: str, count: int) -> int:
    at = 0
    for _ in range(count):
        at = text.index("\n", at) + 1
    return at


def _before_last_lines(text: str, count: int) -> int:
    at = len(text)
    for _ in range(count):
        at = text.rindex("\n", 0, at)
    return at + 1


def hidden_characters(raw: str | bytes) -> list[str]:
    r"""Return the labels of the hidden characters, in order: ["U+200B", "\xFF"]."""
    text = as_text(raw)
    if text.isascii() and text.isprintable():
        return []
    found = (t for t in _TOKENS.finditer(text) if t.lastgroup == "other")
    return [_label(t[0]) for t in found if is_hidden(text, t.start())]


def hidden_note(raw: str | bytes, *, is_output: bool = False) -> str:
    """Return the note for a card; empty if there are no hidden characters. `is_output`: a program printed it."""
    labels = hidden_characters(raw)
    if not labels:
        return ""
    kinds = list(dict.fromkeys(labels))
    named = ", ".join(kinds[:3])
    if len(kinds) > 3:
        named = gettext("%(names)s and others") % {"names": named}
    found = ngettext(
        "Holds %(n)s hidden character, shown as %(names)s.",
        "Holds %(n)s hidden characters, shown as %(names)s.",
        len(labels),
    ) % {"n": f"{len(labels):,}", "names": named}
    runs = ngettext("It is part of what would run.", "They are part of what would run.", len(labels))
    return found if is_output else f"{found} {runs}"


def is_hidden(text: str, at: int) -> bool:
    """Return True if the character at this index is invisible or looks like a plain blank."""
    char = text[at]
    category = unicodedata.category(char)
    if category in _HIDDEN_CATEGORIES or char in _BLANK:
        return char not in " \n\t"
    if _is_selector(char):
        return not (char in "\ufe0e\ufe0f" and at and _has_emoji_form(text, at - 1))
    if category in _COMBINING:
        return _stands_alone(text, at)
    return False


def _is_selector(char: str) -> bool:
    return "\ufe00" <= char <= "\ufe0f" or "\U000e0100" <= char <= "\U000e01ef"


def _has_emoji_form(text: str, at: int) -> bool:
    char = text[at]
    if char in "#*0123456789":  # a keycap sequence; elsewhere the selector does not change the digit
        return text[at + 2 : at + 3] == "\u20e3"
    return char in _EMOJI_BASES or (char >= "\u2100" and unicodedata.category(char) in ("So", "Sm"))


def _stands_alone(text: str, at: int) -> bool:
    """Return True for a combining mark without a visible base, or with ACCENTS marks before it."""
    for place in range(at - 1, at - 1 - ACCENTS, -1):
        if place < 0 or text[place].isspace():
            return True
        char = text[place]
        if not _is_accent(char):
            return not "!" <= char <= "~" and is_hidden(text, place)
    return True


@lru_cache(1024)
def _is_accent(char: str) -> bool:
    """Return True for a combining mark that is seen on its base."""
    return unicodedata.category(char) in _COMBINING and not _is_selector(char) and char not in _BLANK


def _look_alikes(text: str) -> set[int]:
    """Return the indexes of non-Latin look-alikes in words that also contain Latin letters: аpple.com."""
    if text.isascii():
        return set()
    found = set()
    for word in _WORD.finditer(text):
        if not word[0].isascii() and _LATIN.search(word[0]):
            places = range(word.start(), word.end())
            found |= {i for i in places if text[i] > "\x7f" and unicodedata.name(text[i], "").startswith(_LOOK_ALIKE)}
    return found


def _show(token: re.Match, text: str, strange: set[int], one_line: bool) -> str:
    kind, part, at = token.lastgroup, token[0], token.start()
    if kind == "lines":
        return _fold_lines(part)
    if kind == "blanks":
        at_line_start = at == 0 or text[at - 1] == "\n"
        if part[0] == " " and at_line_start and len(part) <= INDENT and not one_line:
            return part
        return _mark("␣" if part[0] == " " else "⇥", part[0], times=len(part), css=" blank")
    if kind == "tab":
        return '<span class="tab">\t</span>'
    if kind == "end":
        return _mark("↵", "\n", css=" line-end") if one_line else "\n"
    if is_hidden(text, at):
        return _mark(_label(part), part)
    if at in strange:
        return f'<span class="odd" title="{_code(part)} {unicodedata.name(part)}">{part}</span>'
    return part


def _fold_lines(part: str) -> str:
    count = part.count("\n")
    mark = _mark(f"↵×{count}", part, css=" blank")
    return mark if len(part) != count else _mark("↵", "\n", times=count, css=" blank")


@lru_cache(1024)  # hidden characters often come in thousands, of a few kinds
def _mark(label: str, raw: str, *, times: int = 1, css: str = "") -> str:
    repeat = f' data-times="{times}"' if times > 1 else ""
    label = f"{label}×{times}" if times > 1 else label
    return f'<span class="mark{css}" data-bytes="{_bytes(raw).hex()}"{repeat}>{escape(label)}</span>'


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        return text.encode("utf-8", "surrogatepass")


def _label(char: str) -> str:
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02X}"
    return _code(char)


def _code(char: str) -> str:
    return f"U+{ord(char):04X}"


def plain_size(count: int) -> str:
    """Format a number of bytes for words that are stored: the no-break space of Django's format is shown as hidden."""
    return filesizeformat(count).replace("\xa0", " ")
