"""What an agent makes as large as it can: its card and its evidence stay small and come soon."""

import json

import pytest

from approvals.broker.broker import next_content
from approvals.evidence import changes
from approvals.evidence.changes import MAX_RESULT, TooLarge, change_of
from approvals.pages.json_text import MAX_PRETTY, pretty
from bench.policy import hostile
from dashboard.problems import Problem
from workspaces.changes.diff import TOO_LARGE, compare
from workspaces.store.lines import MAX_LINES
from workspaces.store.text import text_diff

LONG = 100_000  # lines


def nested(depth, inner):
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.django_db
@pytest.mark.parametrize("depth", [50, 300, 450])
def test_the_card_of_a_deep_call_opens(ask, bob, browser_of, read, depth):
    action = ask({"x": nested(depth, [1] * 200)}, tool="mcp__a__b")
    text = read(browser_of(bob), f"/actions/{action.pk}/")
    assert "mcp" in text
    assert len(text) < 3 * MAX_PRETTY


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["marks", "ligatures", "doubling", "loops", "brackets", "here"])
def test_the_card_of_a_hostile_command_opens(ask, bob, browser_of, read, name):
    action = ask({"command": hostile.commands()[name]})
    assert "Approve" in read(browser_of(bob), f"/actions/{action.pk}/")


def test_arguments_that_are_mostly_indentation_stay_on_one_line():
    arguments = {"x": nested(250, [1] * 15_000)}
    assert pretty(arguments) == json.dumps(arguments)
    assert pretty({"x": [1]}) == '{\n  "x": [\n    1\n  ]\n}'


def test_edits_that_multiply_are_not_carried_out_for_the_card():
    growing = {"old_string": "a", "new_string": "a" * 1000, "replace_all": True}
    for tool, arguments in (("Edit", growing), ("MultiEdit", {"edits": [growing] * 20})):
        _, change = change_of(tool, {"file_path": "a", **arguments})
        with pytest.raises(TooLarge):
            change(b"a" * 500_000)
        assert change(b"ab") == b"a" * 1000 + b"b" if tool == "Edit" else True
    same = {"old_string": "x", "new_string": "x", "replace_all": True}
    _, change = change_of("MultiEdit", {"file_path": "a", "edits": [same] * 100})
    with pytest.raises(TooLarge):
        change(b"x" * changes.FILE_BYTES)


def test_a_carried_out_edit_that_multiplies_is_refused(settings):
    settings.HANDRAIL_FILE_BYTES = 10_000
    edit = {"file_path": "a", "old_string": "a", "new_string": "b" * 100, "replace_all": True}
    assert next_content(edit, b"a" * 100) == b"b" * 10_000
    with pytest.raises(Problem) as refused:
        next_content(edit, b"a" * 101)
    assert refused.value.status == 409


def test_a_notebook_that_is_mostly_indentation_is_not_printed():
    book = {"cells": [{"id": "c", "source": []}], "deep": nested(200, [1] * 100_000)}
    _, change = change_of("NotebookEdit", {"notebook_path": "a.ipynb", "cell_id": "c", "new_source": "x"})
    with pytest.raises(TooLarge):
        change(json.dumps(book).encode())
    # One that is too deep to read has no difference, and no error.
    assert change(b'{"cells": [{"id": "c"}], "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}") is None
    assert len(change(json.dumps(book | {"deep": []}).encode())) < MAX_RESULT


def test_a_region_of_many_lines_is_not_compared():
    old = b"".join(b"%d\n" % (n % 7) for n in range(MAX_LINES))
    new = b"".join(b"%d\n" % (n % 5) for n in range(MAX_LINES))
    diff = text_diff(old, new)
    assert (diff.too_large, diff.hunks) == (True, [])
    shown = compare("a.txt", old, new)
    assert (shown.note, shown.hunks, shown.binary) == (TOO_LARGE, [], False)


def test_a_small_change_of_a_long_file_is_compared():
    lines = [b"%d\n" % n for n in range(LONG)]
    changed = [*lines[:100], b"new\n", *lines[101:]]
    diff = text_diff(b"".join(lines), b"".join(changed))
    assert (diff.too_large, diff.additions, diff.deletions) == (False, 1, 1)
    grown = text_diff(b"".join(lines), b"".join(lines[:9] + lines))
    assert (grown.too_large, grown.additions) == (False, 9)
    added = text_diff(b"", b"".join(lines), max_bytes=1 << 24)
    assert (added.too_large, added.additions) == (False, LONG)
