"""What agents write in the rows of the list, the tables of alike calls, and the choices on buttons: sixty attacks.

Each text is in sight, with what is hidden in it marked, and decodes back to its exact bytes by the rule of
dashboard/text/visible_text.py. None of it becomes an element, an attribute, a button or a link of the page.
"""

import re
from html.parser import HTMLParser

import pytest

from approvals.models import Action
from approvals.pages.alike_table import MAX_CELL
from approvals.pages.row_part import MAX_ANSWER, MAX_QUESTION, MAX_TITLE
from dashboard.models import Agent
from dashboard.people.tokens import make_token

# {attack: (the text, what of it must not stand in the page as it is)}
TEXTS = {
    "an override of the order": ("Push to \u202eniam\u202c", "\u202e"),
    "an embedding of the other order": ("Push \u202bmain\u202c now", "\u202b"),
    "an isolate": ("Delete \u2067dist\u2069", "\u2067"),
    "a mark of the order": ("Delete \u200fdist", "\u200f"),
    "an Arabic mark of the order": ("Delete \u061cdist", "\u061c"),
    "an isolate of the first strong letter": ("Read \u2068dist\u2069", "\u2068"),
    "a space without a width": ("rm -rf build\u200b/", "\u200b"),
    "a joiner": ("ma\u200din", "\u200d"),
    "no joiner": ("ma\u200cin", "\u200c"),
    "a word joiner": ("ma\u2060in", "\u2060"),
    "a mark of the byte order": ("\ufeffmain", "\ufeff"),
    "a soft hyphen": ("ma\u00adin", "\u00ad"),
    "a grapheme joiner": ("ma\u034fin", "\u034f"),
    "a filler": ("to\u3164prod", "\u3164"),
    "a blank of Braille": ("to\u2800prod", "\u2800"),
    "invisible letters of tags": ("go" + "".join(chr(0xE0000 + ord(c)) for c in "to prod"), "\U000e0074"),
    "a selector of variants": ("main\ufe00", "\ufe00"),
    "an invisible operator": ("a\u2062b", "\u2062"),
    "a deprecated format": ("a\u206ab", "\u206a"),
    "an annotation": ("a\ufff9b\ufffbc", "\ufff9"),
    "a blank that is none": ("to\u00a0prod", "\u00a0"),
    "a blank of a quad": ("to\u2003prod", "\u2003"),
    "an ideographic blank": ("to\u3000prod", "\u3000"),
    "a line separator": ("main\u2028prod", "\u2028"),
    "a paragraph separator": ("main\u2029prod", "\u2029"),
    "a line end": ("main\nApprove", "main\nApprove"),
    "a carriage return": ("safe\rrm -rf /", "\r"),
    "a form feed": ("safe\x0crm", "\x0c"),
    "an escape": ("\x1b[2Jmain", "\x1b"),
    "a bell": ("\x07main", "\x07"),
    "a backspace": ("prod\x08\x08\x08\x08test", "\x08"),
    "a C1 control": ("a\x9b31mb", "\x9b"),
    "a private letter": ("a\ue000b", "\ue000"),
    "no character": ("a\ufdd0b", "\ufdd0"),
    "a pile of accents": ("e" + "\u0301" * 40, "\u0301" * 5),
    "an accent on nothing": ("\u0301main", None),
    "a script": ("<script>alert(1)</script>", "<script>alert"),
    "an image": ("<img src=x onerror=alert(1)>", "<img"),
    "an end of the row": ("</a></li></ul><h1>Approved</h1>", "<h1>Approved"),
    "a button": ("<button name=verdict value=approve>OK</button>", "<button name=verdict"),
    "a form": ("<form method=post action=/stop/>", "<form method=post action=/stop"),
    "an attribute": ('" onmouseover="alert(1)" x="', '" onmouseover="'),
    "an attribute in single quotes": ("' autofocus onfocus='alert(1)", "' autofocus"),
    "an entity": ("&lt;b&gt;&#8203;&nbsp;", "&lt;b&gt;&#8203;&nbsp;<"),
    "a mark that is none": ('<span class="mark" data-bytes="00">U+200B</span>', '<span class="mark" data-bytes="00">'),
    "a comment": ("<!-- --> <![CDATA[x]]>", "<!-- -->"),
    "a tag of a template": ("{{ csrf_token }}{% include 'x' %}", None),
    "an address that runs": ("javascript:alert(1)", "href=javascript"),
    "a state that is none": ("● Approved by alice", None),
    "a sign that is none": ("↩ Reversible", None),
    "a count that is none": ("2 of 2 approved · takes 1 person", None),
    "words of a button": ("Approve", None),
    "the end of a list": ("Nothing needs approval.", None),
    "a letter of another script": ("git push \u043erigin", "git push \u043erigin"),
    "Greek among Latin": ("m\u03b1in", "m\u03b1in"),
    "wide letters": ("\uff52m -rf", "\uff52m -rf"),
    "wide digits": ("\uff11\uff12\uff13 EUR", None),
    "digits of another script": ("\u0661\u0662\u0663 EUR", None),
    "letters of mathematics": ("\U0001d42bm -rf x", "\U0001d42bm"),
    "many blanks": ("safe" + " " * 60 + "rm", "safe" + " " * 60 + "rm"),
    "many tabs": ("safe" + "\t" * 30 + "rm", "\t" * 30),
    "a huge word": ("x" * 4000 + "prod", "x" * 4000),
}
VOID = {"input", "meta", "link", "br", "img", "path", "use", "col", "hr"}
OWN = {"li", "a", "span", "code", "svg", "use", "form", "input", "button", "time", "small", "details", "summary", "b"}
OWN |= {"div", "table", "thead", "tbody", "tr", "th", "td", "p"}


class Elements(HTMLParser):
    """What a browser makes of a part of a page: for each element its tag, classes, attributes, exact bytes and text."""

    def __init__(self, html: str):
        super().__init__(convert_charrefs=True)
        self.found, self._open = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        element = {"tag": tag, "classes": (attrs.get("class") or "").split(), "attrs": attrs, "bytes": b"", "seen": ""}
        self.found.append(element)
        if "data-bytes" in attrs:
            for each in self._open:
                each["bytes"] += bytes.fromhex(attrs["data-bytes"]) * int(attrs.get("data-times", 1))
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        while self._open and self._open.pop()["tag"] != tag:
            pass

    def handle_data(self, data):
        is_mark = any("data-bytes" in each["attrs"] for each in self._open)
        for each in self._open:
            each["seen"] += data
            each["bytes"] += b"" if is_mark else data.encode("utf-8", "surrogatepass")

    def of(self, tag: str, css: str = "") -> list[dict]:
        return [each for each in self.found if each["tag"] == tag and (not css or css in each["classes"])]


def row_of(page: str, action) -> str:
    [row] = re.findall(rf'<li class="row asked[^>]*id="action-{action.pk}".*?</li>', page, re.DOTALL)
    return row


def nothing_is_injected(html: str, strange: str | None, *, buttons: int = 0) -> Elements:
    """Fail if the text is in the markup as it is, or is more than text; return what a browser makes of it."""
    if strange is not None:
        assert strange not in html
    elements = Elements(html)
    assert {each["tag"] for each in elements.found} <= OWN
    assert not [name for each in elements.found for name in each["attrs"] if name.startswith("on")]
    assert len(elements.of("button")) == buttons
    links = [each["attrs"]["href"] for each in elements.of("a")]
    assert [link for link in links if not link.startswith(("/actions/", "/waiting/"))] == []
    return elements


def cut(text: str, most: int) -> bytes:
    return (text if len(text) <= most else f"{text[:most]}…").encode("utf-8", "surrogatepass")


@pytest.fixture
def listed(bob, browser_of):
    client = browser_of(bob)
    return lambda address="/waiting/": client.get(address).content.decode()


@pytest.mark.parametrize("attack", TEXTS)
def test_a_title_and_a_command_in_a_row(ask, listed, attack):
    text, strange = TEXTS[attack]
    action = ask({"command": "git push origin main"})
    Action.objects.filter(pk=action.pk).update(title=text[:300])
    elements = nothing_is_injected(row_of(listed(), action), strange if len(text) <= 300 else None)
    [title] = elements.of("a", "row-title")
    assert title["bytes"] == text[:300].encode("utf-8", "surrogatepass")
    [sign] = elements.of("span", "for-ears")
    assert sign["seen"].strip() == "Can't be undone:"


@pytest.mark.parametrize("attack", TEXTS)
def test_the_name_of_an_agent_in_a_row_and_in_the_menu(team, ask, listed, attack):
    text, strange = TEXTS[attack]
    name = text[:80]
    named = Agent.objects.create(team=team, name=name)
    action = ask({"command": "git push origin main"}, token=make_token(team, agent=named))
    ask({"command": "git push origin other"})
    page = listed()
    elements = nothing_is_injected(row_of(page, action), strange)
    [meta] = elements.of("span", "row-meta")
    assert meta["bytes"].lstrip().startswith(name.strip().encode("utf-8", "surrogatepass"))
    menu = Elements(page[page.index('id="waiting-filters"') : page.index('id="waiting-rows"')])
    assert name.strip().encode() in [each["bytes"].strip() for each in menu.of("span")]
    assert {each["tag"] for each in menu.found} <= {"nav", "a", "span", "details", "summary", "div"}


@pytest.mark.parametrize("attack", TEXTS)
def test_a_question_and_its_choices(ask, listed, attack):
    text, strange = TEXTS[attack]
    options = [{"label": text}, {"label": "no"}]
    action = ask({"questions": [{"question": text, "options": options}]}, tool="AskUserQuestion")
    row = row_of(listed(), action)
    hides = bool(re.search(r"[^\x20-\x7e]|  ", text)) or len(text) > MAX_ANSWER
    buttons = len(Elements(row).of("button"))
    elements = nothing_is_injected(row, strange, buttons=buttons)
    [title] = elements.of("a", "row-title")
    assert title["bytes"] == cut(text.lstrip("# "), MAX_TITLE)
    [sign] = elements.of("span", "for-ears")
    assert sign["seen"].strip() == "Question:"
    if buttons:  # each shows its whole choice, and names nothing but its number
        assert len(text) <= min(MAX_ANSWER, MAX_QUESTION)
        assert [each["bytes"].strip() for each in elements.of("button")] == [text.strip().encode(), b"no"]
        assert [each["attrs"]["value"] for each in elements.of("button")] == ["1", "2"]
    else:
        assert hides


@pytest.mark.parametrize("attack", TEXTS)
def test_a_plan_in_a_row(ask, listed, attack):
    text, strange = TEXTS[attack]
    action = ask({"plan": f"x{text}"}, tool="ExitPlanMode")
    elements = nothing_is_injected(row_of(listed(), action), strange)
    [title] = elements.of("a", "row-title")
    first = next(line.strip() for line in f"x{text}".splitlines() if line.strip())
    assert title["bytes"] == cut(first, MAX_TITLE)
    assert "Plan:" in elements.of("span", "for-ears")[0]["seen"]


@pytest.mark.parametrize("attack", TEXTS)
def test_names_and_values_in_the_table_of_alike_calls(ask, listed, attack):
    text, strange = TEXTS[attack]
    text = text[:1500]
    actions = [ask({"id": n, "same": text, text: f"{n}{text}"}, tool="mcp__crm__update_contact") for n in range(5)]
    page = listed()
    [row] = re.findall(r'<li class="row asked group".*?</li>', page, re.DOTALL)
    nothing_is_injected(row, strange)
    assert "5 contact changes (crm)" in row
    table = listed(f"/waiting/alike/{actions[0].pk}/table/")
    elements = nothing_is_injected(table[table.index("group-open") - 12 : table.index("</main>")], strange)
    heads = [each["bytes"] for each in elements.of("th") if each["attrs"].get("scope") == "col"]
    assert sorted(heads) == sorted([b"Request", b"id", text.encode("utf-8", "surrogatepass")])
    cells = [each["bytes"].strip() for each in elements.of("td")]
    wanted = [cell for n in range(5) for cell in (str(n).encode(), cut(f"{n}{text}", MAX_CELL))]
    assert sorted(cells) == sorted(cell.strip() for cell in wanted)
    said = [each["bytes"] for each in elements.of("code") if each["bytes"] not in cells]
    assert cut(text, MAX_CELL) in said
