"""An agent's plan as HTML: it hides nothing, loads nothing and leads nowhere, whatever the agent wrote."""

import re
import time

import pytest

from approvals.pages.plan_markdown import MAX_BLOCKS, MAX_PARSED, blocks_of
from tests.dashboard.frontend.test_visible import PAYLOADS

PLAN = """# Release

Ship **today**, with `make ship`.

1. Tag it
2. Push it
   - to main

| step | who |
| --- | --- |
| tag | mia |

```sh
git push
```
"""


def html_of(plan: str) -> str:
    return "".join(block.html for block in blocks_of(plan))


def said(html: str) -> str:
    return re.sub(r"<[^>]*>", " ", html)


def test_each_part_is_a_block_with_its_line():
    found = [(block.line, block.first_line) for block in blocks_of(PLAN)]
    assert found == [
        (1, "# Release"),
        (3, "Ship **today**, with `make ship`."),
        (5, "1. Tag it"),
        (6, "2. Push it"),
        (9, "| step | who |"),
        (13, "```sh"),
    ]


def test_lists_of_a_plan_keep_their_numbers():
    html = html_of(PLAN)
    assert '<h2 class="exact">Release</h2>' in html
    assert "<strong>today</strong>" in html
    assert '<ol><li value="2">' in html
    assert '<th class="exact">step</th>' in html
    assert "<code>git push\n</code>" in html
    assert '<li value="7">' in html_of("1. one\n7. two\n")


HIDING = {
    "a definition": "Tidy up.\n\n[//]: # (Then delete prod)",
    "a definition with a title": '[x]: http://example.org "Then delete prod"',
    "a comment": "Tidy up. <!-- Then delete prod -->",
    "a block comment": "<!--\nThen delete prod\n-->\n\nTidy up.",
    "a script": "<script>Then delete prod</script>",
    "a style": "<style>Then delete prod</style>",
    "a closed fold": "<details><summary>Tidy</summary>Then delete prod</details>",
    "a hidden element": '<p hidden title="Then delete prod">Tidy up</p>',
    "cells beyond the columns": "| Tidy | up |\n| --- | --- |\n| a | b | Then delete prod |",
    "the words of an image": "![Then delete prod](http://example.org/x.png)",
    "the title of an image": '![x](http://example.org/x.png "Then delete prod")',
    "the title of a link": '[Tidy up](http://example.org "Then delete prod")',
    "an empty link": "[](http://example.org/Then-delete-prod)",
    "the info of a fence": "``` Then delete prod\ntidy up\n```",
    "a deep quote": ">" * 60 + " Then delete prod",
    "a deep list": "".join("  " * n + "- x\n" for n in range(60)) + "  " * 60 + "- Then delete prod",
    "entities": "&#84;hen &Tab;delete&nbsp;prod",
    "a fence that is never closed": "Tidy up\n\n```\nThen delete prod",
    "many blank lines": "Tidy up" + "\n" * 500 + "Then delete prod",
    "many blanks": "Tidy up" + " " * 500 + "Then delete prod",
    "indented code": "Tidy up\n\n        Then delete prod",
    "a setext heading": "Then delete prod\n---",
    "struck out": "~~Then delete prod~~",
    "an address": "<http://example.org/?Then-delete-prod>",
    "the end of a long plan": "Tidy up.\n" * 3000 + "\nThen delete prod",
    "beyond the blocks": "Tidy up.\n\n" * (MAX_BLOCKS + 50) + "Then delete prod",
    "a form feed": "Tidy up\x0cThen delete prod",
    "a carriage return": "Then delete prod\rTidy up",
    "a NUL": "Tidy\0 up. Then delete prod",
    "escapes": r"\Then \delete \prod",
    "a title in a definition of a list": '- a\n\n  [b]: c\n  "Then delete prod"',
}


@pytest.mark.parametrize("plan", HIDING.values(), ids=HIDING)
def test_markdown_hides_no_word(plan):
    found = said(html_of(plan))
    for word in ("hen", "delete", "prod"):
        assert word in found
    assert re.search("Then|&amp;#84;hen", found)


ATTACKS = [
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](vbscript:x)",
    "[x](data:text/html,<script>alert(1)</script>)",
    "<javascript:alert(1)>",
    "[https://good.example](https://evil.example)",
    "![x](http://evil.example/track.png)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    "[![x](http://evil.example/a)](http://evil.example/b)",
    "[x]\n\n[x]: javascript:alert(1)",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<img src=x onerror=alert(1)>",
    '<a href="javascript:alert(1)">x</a>',
    "<iframe src=http://evil.example></iframe>",
    "<svg onload=alert(1)>",
    "<form action=http://evil.example><button>Approve plan</button></form>",
    "</div></form><button form=own-form name=approve>Approve</button>",
    "<style>*{display:none}</style>",
    "<base href=http://evil.example>",
    "<meta http-equiv=refresh content=0>",
    '[x](http://a.example "\\" onmouseover=alert(1) x=\\"")',
    '``` "><script>alert(1)</script>\nx\n```',
    "`<script>alert(1)</script>`",
    "    <script>alert(1)</script>",
    "| <script>alert(1)</script> |\n| --- |\n| <img src=x> |",
    "# <script>alert(1)</script>",
    "{{ 7|add:7 }}{% now 'Y' %}",
    '1. x\n<li value="9">y</li>',
    "[x](http://evil.example/\u202egnp.exe)",
    "[p\u0430ypal.com](https://evil.example)",
    "http://evil.example",
    "www.evil.example",
    "<http://evil.example>",
]
TAGS = {"p", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "em", "strong", "s", "blockquote", "code", "pre", "hr"}
TAGS |= {"br", "span", "div", "table", "thead", "tbody", "tr", "th", "td"}
TEXTS = [payload for payload in PAYLOADS if isinstance(payload, str)]


@pytest.mark.parametrize("plan", [*ATTACKS, *TEXTS, *(f"# {text}\n\n- {text}\n\n`{text}`" for text in TEXTS)])
def test_nothing_runs_loads_leads_away_or_is_reordered(plan):
    html = html_of(plan)
    tags = {tag.lower() for tag in re.findall(r"<([A-Za-z][A-Za-z0-9]*)", html)}
    assert tags <= TAGS
    attributes = set(re.findall(r'<[a-z0-9]+((?: [a-z-]+="[^"<>]*")*)>', html))
    names = {name for found in attributes for name in re.findall(r' ([a-z-]+)="', found)}
    assert names <= {"class", "value", "data-bytes", "data-times", "title", "tabindex"}
    assert not re.search("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff]", html)


def test_the_address_of_a_link_stands_beside_its_text():
    html = html_of("[https://good.example](https://evil.example)")
    assert 'https://good.example <span class="plan-address">(https://evil.example)</span>' in html


@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "![",
        "*a ",
        "_a_",
        "`",
        "``` ",
        "> ",
        "- ",
        "<",
        "&",
        "[a](",
        "**a",
        "|a",
        "\\",
        "~~a",
        "1. ",
        "a\n> ",
        "[](",
    ],
)
def test_a_hostile_plan_is_shown_soon(piece):
    plan = (piece * MAX_PARSED)[: MAX_PARSED - 1]
    began = time.process_time()
    blocks_of(plan)
    assert time.process_time() - began < 4  # a bound for people: none took a second when this was written
