"""Lines of a text that match a pattern, with those around them, within the limits of an answer."""

import pytest

from workspaces.programs.kept_text import grep
from workspaces.programs.kept_text.lines import Refused, lines_of

TEXT = b"".join(b"line %d\n" % number for number in range(1, 21))


def found(text=TEXT, pattern="", **wish):
    answer = grep.search([text], pattern, **wish)
    return [(line["n"], line["text"], line["matches"]) for line in answer["lines"]], answer["more_from"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_lines_are_the_same_however_the_bytes_come(size):
    text = b"one\r\n\ntwo\xff\xc3\xa9\nlast"
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert list(lines_of(pieces)) == ["one", "", "two\ufffdé", "last"]


def test_a_line_that_takes_too_much_memory_is_refused():
    megabyte = b"a" * 1024**2
    assert grep.search([megabyte] * 64 + [b"\n"] + [megabyte], "b")["found"] == 0
    with pytest.raises(Refused, match="A line has more than 64 MB, which can't be searched"):
        grep.search([megabyte] * 65, "b")


def test_matches_are_numbered_and_their_places_said():
    assert found(pattern="[57]$") == (
        [(5, "line 5", [[5, 6]]), (7, "line 7", [[5, 6]]), (15, "line 15", [[6, 7]]), (17, "line 17", [[6, 7]])],
        None,
    )


def test_lines_around_come_once_and_in_order():
    lines, _ = found(pattern="(5|7)$", before=1, after=2, limit=2)
    assert [(number, bool(matches)) for number, _, matches in lines] == [
        (4, False),
        (5, True),
        (6, False),
        (7, True),
        (8, False),
        (9, False),
    ]


def test_a_limit_says_where_to_go_on_and_the_last_match_has_none():
    assert [line[0] for line in found(pattern="1$", limit=1)[0]] == [1]
    assert found(pattern="1$", limit=1)[1] == 11
    assert found(pattern="1$", limit=1, from_line=11) == ([(11, "line 11", [[6, 7]])], None)


def test_a_pattern_can_be_the_text_itself_and_ignore_case():
    text = b"a.b\nA.B\naxb\n"
    assert [line[0] for line in found(text, "a.b")[0]] == [1, 3]
    assert [line[0] for line in found(text, "a.b", fixed=True)[0]] == [1]
    assert [line[0] for line in found(text, "a.b", fixed=True, ignore_case=True)[0]] == [1, 2]


def test_a_long_line_is_shown_around_its_first_match():
    line = b"x" * 50_000 + b"here" + b"y" * 50_000
    (shown,) = grep.search([line], "here")["lines"]
    assert (shown["column"], len(shown["text"]), shown["length"]) == (49_800, 2000, 100_004)
    begin, end = shown["matches"][0]
    assert shown["text"][begin:end] == "here"


def test_an_answer_has_a_size():
    text = b"".join(b"z" * 2000 + b"\n" for _ in range(1500))
    answer = grep.search([text], "z", limit=1000, before=100, after=100)
    assert sum(len(line["text"]) for line in answer["lines"]) <= grep.MAX_ANSWER + 2000
    further = grep.search([text], "z", limit=1000, from_line=answer["more_from"])
    assert further["lines"][0]["n"] == answer["more_from"] == answer["lines"][-1]["n"] + 1


@pytest.mark.parametrize("pattern", ["(", "[z", "*", "(?P<a>x)(?P<a>y)", "a{99999999999}", "(?a)(?u)x", "(" * 900])
def test_what_is_no_pattern_is_refused(pattern):
    with pytest.raises(Refused, match="The pattern cannot be read"):
        grep.search([TEXT], pattern)
