"""Syntax colours come from processes that are ended: a file that keeps a lexer busy for minutes is shown plain."""

import threading

import pytest

from dashboard.workers.pool import Late, Worker, Workers
from tests.approvals.evidence.conftest import Person, text_of
from workspaces.changes import highlight
from workspaces.changes.highlight import coloured_lines

# Each is a text on which a lexer of Pygments tries ways to read it whose number grows with a power of its length.
SLOW = {
    "A.java": "\n".join(["a " * 900] * 40),
    "a.md": "\n " * 20_000,
    "a.c": "\n\n" * 20_000,
    "a.rst": "\n\n" * 20_000,
    "a.sql": "\n".join(["[" * 1900] * 20),
}
CODE = "def f():\n    return 'x\u202e'  # <b>\n"


@pytest.fixture(scope="module")
def person(product):
    return Person(product, "colours-reviewer")


def test_a_text_is_coloured_escaped_and_marked():
    first, second = coloured_lines(CODE, "a.py")
    assert first.startswith('<span class="k">def</span><span class="w"> </span><span class="nf">f</span>')
    assert text_of(first) == "def f():"
    assert "&lt;b&gt;" in second
    assert 'data-bytes="e280ae"' in second
    assert "\u202e" not in second


@pytest.mark.parametrize(("text", "lines"), [("", []), ("a", ["a"]), ("a\n", ["a"]), ("a\n\nb", ["a", "", "b"])])
def test_there_are_as_many_lines_as_in_the_text(text, lines):
    assert coloured_lines(text, "x.nosuch") == lines
    assert [text_of(line) for line in coloured_lines(text, "x.py")] == lines


@pytest.mark.parametrize("name", SLOW)
def test_a_text_that_holds_a_lexer_is_plain(name, monkeypatch):
    mine = Workers(lambda: Worker("workspaces.changes.lexing"), 1)
    monkeypatch.setattr(highlight, "painters", mine)
    monkeypatch.setattr(highlight, "COLOUR_SECONDS", 0.5)
    with pytest.raises(Late, match="it took too long"):
        mine.ask({"text": SLOW[name], "path": name}, 3)
    assert mine.idle == []
    assert coloured_lines(SLOW[name], name) == SLOW[name].removesuffix("\n").split("\n")


def test_the_texts_of_one_page_share_its_time(monkeypatch):
    monkeypatch.setattr(highlight, "painters", None)  # nobody is asked any more
    until = highlight.deadline() - highlight.COLOUR_SECONDS
    assert coloured_lines("x = 1\n", "late.py", until=until) == ["x = 1"]


def test_a_page_with_a_hostile_file_answers_and_holds_nobody(desk, person, product):
    key = desk.create()["key"]
    for name, text in SLOW.items():
        desk.call("PUT", f"/workspaces/{key}/files/{name}", text.encode(), 201)
    pages = {}

    def look(name):
        pages[name] = person.get(f"/w/main/{key}/files/?path={name}")

    looking = [threading.Thread(target=look, args=[name]) for name in SLOW]
    for thread in looking:
        thread.start()
    while any(thread.is_alive() for thread in looking):
        assert product.get("/healthz", timeout=10).status == 200
    assert set(pages) == set(SLOW)
    assert "a a a a" in text_of(pages["A.java"])
    assert '<span class="n">' not in pages["A.java"]
