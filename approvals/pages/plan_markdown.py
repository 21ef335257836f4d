"""An agent's plan, written in Markdown, as HTML that hides nothing, loads nothing and leads nowhere.

The library only parses; the HTML is made here, with `visible` for every text. Markdown can leave out what it was given
(cells beyond a table's columns, what is nested too deep), so a block whose HTML lacks a word of its source is shown as
its source.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser

from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from dashboard.text.visible_text import visible

logger = logging.getLogger("handrail.pages")
MAX_PARSED = 20_000  # characters; a longer plan is shown as its text
MAX_BLOCKS = 300  # with a comment each; what is beyond is one block
LISTS = {"bullet_list_open": "ul", "ordered_list_open": "ol"}
SIMPLE = {"em": "em", "strong": "strong", "s": "s", "blockquote": "blockquote"}
SIMPLE |= {name: name for name in ("thead", "tbody", "tr")}
LEAVES = {"paragraph": "p", "th": "th", "td": "td"}  # elements whose text keeps its blanks and direction
_WORDS = re.compile(r"[^\W_]+")


def _parser() -> MarkdownIt:
    found = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # A reference definition and an entity would hide text that the agent reads: they stay as they were written.
    return found.disable(["reference", "entity", "html_block", "html_inline"])


_PARSER = _parser()


@dataclass(frozen=True)
class Block:
    """A part of the plan that can be commented on: its HTML, its source, and the number of its first line."""

    line: int
    source: str
    html: SafeString

    @property
    def first_line(self) -> str:
        return next((line.strip() for line in self.source.splitlines() if line.strip()), "")


def blocks_of(plan: str) -> list[Block]:
    """Return the plan in blocks: paragraphs, headings, items of lists, tables, code; together they hold all of it."""
    lines = re.split(r"\r\n|\r|\n", plan)
    if len(plan) > MAX_PARSED:
        return _limited([_as_source(lines, begin, end) for begin, end in _paragraphs(lines, 0, len(lines))], lines)
    try:
        parsed = list(_parsed_blocks(lines))
    except Exception:
        # Broad on purpose: whatever a hostile text does to the parser, a person sees the text.
        logger.exception("a plan could not be parsed as Markdown")
        parsed = [(begin, end, None) for begin, end in _paragraphs(lines, 0, len(lines))]
    found, at = [], 0
    for begin, end, html in parsed:
        if begin < at:  # never seen: blocks that overlap. Their lines are shown once
            continue
        found += [_as_source(lines, first, last) for first, last in _paragraphs(lines, at, begin)]
        source = "\n".join(lines[begin:end])
        is_whole = html is not None and _shows_every_word(html, source)
        found.append(Block(begin + 1, source, mark_safe(html)) if is_whole else _as_source(lines, begin, end))
        at = end
    found += [_as_source(lines, first, last) for first, last in _paragraphs(lines, at, len(lines))]
    return _limited(found, lines)


def _limited(found: list[Block], lines: list[str]) -> list[Block]:
    if len(found) <= MAX_BLOCKS:
        return found
    kept = found[: MAX_BLOCKS - 1]
    return [*kept, _as_source(lines, found[MAX_BLOCKS - 1].line - 1, len(lines))]


def _paragraphs(lines: list[str], begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield (first line, line after the last) of each run of lines that are not blank."""
    start = None
    for number in range(begin, end):
        if lines[number].strip():
            start = number if start is None else start
        elif start is not None:
            yield start, number
            start = None
    if start is not None:
        yield start, end


def _as_source(lines: list[str], begin: int, end: int) -> Block:
    source = "\n".join(lines[begin:end])
    return Block(begin + 1, source, mark_safe(f'<p class="exact">{visible(source)}</p>'))


def _parsed_blocks(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (first line, line after the last, HTML) of each block and of each item of an outer list."""
    tokens, around = _PARSER.parse("\n".join(lines)), ""
    start, depth = 0, 0
    for number, token in enumerate(tokens):
        if depth == 0 and token.type in LISTS:
            around = LISTS[token.type]
            continue
        if depth == 0 and token.type.endswith("_list_close"):
            around = ""
            continue
        if depth == 0:
            start = number
        depth += token.nesting
        if depth == 0:
            begin, end = tokens[start].map
            html = _html(tokens[start : number + 1])
            yield begin, end, f"<{around}>{html}</{around}>" if around else html


def _html(tokens: list[Token]) -> str:
    return "".join(_element(token) for token in tokens)


def _element(token: Token) -> str:
    """Return one token's HTML; of a token that is not known, its text."""
    name, _, edge = token.type.rpartition("_")
    if token.type == "inline":
        return _inline(token.children or [])
    if edge in ("open", "close"):
        return _tag(name, token, is_open=edge == "open")
    if token.type in ("fence", "code_block"):
        info = f'<span class="row-meta exact">{visible(token.info)}</span>' if token.info.strip() else ""
        return f'{info}<pre class="exact"><code>{visible(token.content)}</code></pre>'
    if token.type == "hr":
        return "<hr>"
    return str(visible(token.content))


def _tag(name: str, token: Token, *, is_open: bool) -> str:
    slash = "" if is_open else "/"
    if name in SIMPLE:
        return f"<{slash}{SIMPLE[name]}>"
    if name in LEAVES:
        return f'<{LEAVES[name]} class="exact">' if is_open else f"</{LEAVES[name]}>"
    if name == "heading":  # the card's title is the page's first
        level = min(int(token.tag[1:]) + 1, 6)
        return f'<h{level} class="exact">' if is_open else f"</h{level}>"
    if name in ("bullet_list", "ordered_list"):
        return f"<{slash}{'ul' if name == 'bullet_list' else 'ol'}>"
    if name == "list_item":
        number = f' value="{int(token.info)}"' if is_open and token.info.isascii() and token.info.isdigit() else ""
        return f"<{slash}li{number}>"
    if name == "table":
        return '<div class="table-box" tabindex="0"><table>' if is_open else "</table></div>"
    return ""


def _inline(tokens: list[Token]) -> str:
    """Return the HTML of a line's tokens. A link is its text and its address, an image its words: neither loads."""
    shown, links = [], []
    for token in tokens:
        if token.type in ("softbreak", "hardbreak"):
            shown.append("<br>")
        elif token.type == "code_inline":
            shown.append(f"<code>{visible(token.content)}</code>")
        elif token.type == "link_open":
            links.append(_address(token, "href"))
        elif token.type == "link_close":
            shown.append(links.pop() if links else "")
        elif token.type == "image":
            shown.append(f'<span class="plan-address">[image: {visible(token.content)}]</span>{_address(token, "src")}')
        else:
            shown.append(_element(token))
    return "".join(shown)


def _address(token: Token, name: str) -> str:
    """Return an address and a title as text: what a reader of the page would not see otherwise."""
    title = f" “{visible(str(token.attrs['title']))}”" if token.attrs.get("title") else ""
    return f' <span class="plan-address">({visible(str(token.attrs.get(name, "")))}{title})</span>'


class _VisibleWords(HTMLParser):
    """Collects the words that a reader of the HTML sees, with the numbers of list items."""

    def __init__(self):
        super().__init__()
        self.parts, self._in_mark, self._in_odd = [], False, False

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        css = (values.get("class") or "").split()
        self._in_mark, self._in_odd = "mark" in css, "odd" in css
        # A letter that looks like another is an element of its own within its word; every other element ends a word.
        self.parts.append("" if self._in_odd else f" {values.get('value') or ''} ")

    def handle_endtag(self, tag):
        self.parts.append("" if self._in_odd else " ")
        self._in_mark = self._in_odd = False

    def handle_data(self, data):
        if not self._in_mark:
            self.parts.append(data)


def _shows_every_word(html: str, source: str) -> bool:
    """Return whether each word of the source stands in the HTML, as often as there."""
    said = _VisibleWords()
    said.feed(html)
    said.close()
    return Counter(_WORDS.findall(source)) <= Counter(_WORDS.findall("".join(said.parts)))
