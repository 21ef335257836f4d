"""A list or object among the arguments has its size on the card, and is read to its end like any long text."""

import json
import re

import pytest

from approvals.pages.structures import lines_of, structure_of

ROWS = [{"id": number, "price": 0.1, "name": f"row {number}"} for number in range(600)]
NESTED = {"services": {f"s{number}": {"image": "x", "ports": [80, 443]} for number in range(40)}}


def card_of(client, action) -> str:
    return re.sub(r"[ \n]+", " ", client.get(f"/actions/{action.pk}/").content.decode())


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        ({"rows": ROWS}, "600 rows · id, name, price"),
        ({"spec": NESTED}, "1 entry · services"),
        ({"ids": list(range(5000))}, "5,000 values"),
        ({"deep": [[[number] * 3] for number in range(300)]}, "300 values"),
        (
            {"wide": [{f"c{column}": 1 for column in range(30)}] * 100},
            "100 rows · c0, c1, c10, c11, c12, c13, c14, c15 and 22 more",
        ),
    ],
)
@pytest.mark.parametrize("tool", ["mcp__warehouse__load", "Bash"])
def test_a_structure_shows_its_size_folded_and_must_be_read(ask, bob, browser_of, arguments, size, tool):
    action = ask(arguments | ({"command": "git push"} if tool == "Bash" else {}), tool=tool)
    text = card_of(browser_of(bob), action)
    assert size in text
    assert "data-must-read" in text
    fold = re.search(r"<details class=\"code-fold\".*?</details>", text)[0]
    assert len(fold) > 500
    assert json.dumps(arguments) not in text


SIZES = (13, 600)
SHAPES = {
    "rows": lambda count: {"rows": [{"id": number, "sql": "DROP TABLE t"} for number in range(count)]},
    "words": lambda count: {"words": [f"word {number} of a list" for number in range(count)]},
    "an object": lambda count: {"spec": {f"service-{number}": {"replicas": number} for number in range(count)}},
    "a tree": lambda count: {"tree": [[{"a": {"b": [number]}}] for number in range(count)]},
    "a list in an object": lambda count: {"spec": {"images": [f"registry/app:{number}" for number in range(count)]}},
    "many short arguments": lambda count: {f"argument_{number}": number for number in range(count)},
    "two structures": lambda count: {
        "a": [{"id": 1, "b": "x" * 20}] * 9,
        "b": [{"n": n, "w": "y" * 9} for n in range(count)],
    },
}
TOOLS = {
    "an MCP tool": ("mcp__warehouse__load", lambda arguments: arguments),
    "the generic tool": ("mcp", lambda given: {"server": "warehouse", "tool": "load", "arguments": given}),
    "another tool": ("LaunchRocket", lambda arguments: arguments),
    "a command": ("Bash", lambda arguments: {"command": "git push"} | arguments),
}


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("tool", TOOLS)
def test_each_structure_of_each_tool_is_folded_with_its_size_before_it_can_be_approved(
    ask, bob, browser_of, tool, shape, count
):
    name, wrapped = TOOLS[tool]
    client = browser_of(bob)
    action = ask(wrapped(SHAPES[shape](count)), tool=name)
    for address in (f"/actions/{action.pk}/", f"/actions/{action.pk}/approve/"):
        text = re.sub(r"[ \n]+", " ", client.get(address).content.decode())
        opens = r"Open the [\d,]+ hidden (?:lines|rows) to approve"
        fold = re.search(rf"<details class=\"code-fold\" open data-must-read data-opens=\"{opens}\">", text)
        assert fold is not None
        assert re.search(r"<small>\d[\d,]* (?:rows?|values?|entry|entries)", text[: fold.start()])
        buttons = re.findall(r"<(?:a|button)[^>]*data-decide[^>]*>(?= ?(?:Approve|Confirm: approve))", text)
        assert buttons
        assert [button for button in buttons if "data-needs-reading" not in button] == []


def test_a_list_of_like_objects_is_a_table_with_its_first_and_last_rows_beside_the_fold(ask, bob, browser_of):
    action = ask({"rows": ROWS}, tool="mcp__warehouse__load")
    page = browser_of(bob).get(f"/actions/{action.pk}/").content.decode()
    shown = page[page.index('class="code argument-table"') : page.index('class="card-reason"')]
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", shown, re.DOTALL)]
    assert [row for row in cells if row] == [[str(n), f"row {n}", "0.1"] for n in range(600)]
    fold = re.search(r"<details.*?</details>", shown, re.DOTALL)[0]
    assert ("row 2<" in fold, "row 3<" in fold, "row 598<" in fold, "row 599<" in fold) == (False, True, True, False)
    assert 'data-opens="Open the 596 hidden rows to approve"' in fold


def test_amounts_of_one_currency_are_added_up(ask, bob, browser_of):
    rows = [{"id": n, "amount": f"{n}.50", "currency": "EUR"} for n in range(100)]
    assert "amount adds up to 5,000.00 (EUR)" in card_of(browser_of(bob), ask({"rows": rows}, tool="mcp__bank__load"))
    rows[3] |= {"currency": "USD"}
    text = card_of(browser_of(bob), ask({"rows": rows}, tool="mcp__bank__load"))
    assert "amount adds up to 5,000.00<" in text.replace(" <", "<")
    rows[4] |= {"amount": "NaN"}
    assert "adds up" not in card_of(browser_of(bob), ask({"rows": rows}, tool="mcp__bank__load"))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("1", '"1"'),
        (1, "1"),
        ("true", '"true"'),
        (True, "true"),
        (None, "null"),
        ("", '""'),
        ("–", '"–"'),
        ("a b", "a b"),
    ],
)
def test_no_value_of_a_table_looks_like_another(value, shown):
    rows = [{"a": value, "b": "x" * 60}, {"b": "y" * 60}]
    table = structure_of("rows", rows).table
    assert [row[0].text for row in table.head] == [shown, "–"]


@pytest.mark.parametrize("row", [{"a": [1]}, {"a": "x" * 201}, {"a": "one\ntwo"}, {f"column {n}": n for n in range(7)}])
def test_what_a_phone_cannot_show_in_a_table_is_an_outline(row):
    assert structure_of("rows", [row, row]).table is None
    assert structure_of("rows", [row, row]).text


def test_short_lists_and_objects_are_lines_without_braces():
    assert lines_of("where", {"repo": "shop", "n": 1, "a b": "1"}) == [
        ("where.repo", "shop", "plain"),
        ("where.n", "1", "plain"),
        ('where."a b"', '"1"', "plain"),
    ]
    assert lines_of("labels", ["bug", "a, b", 3]) == [("labels", 'bug, "a, b", 3', "list")]
    assert lines_of("deep", [[1]]) == [("deep", "[[1]]", "json")]
    assert lines_of("none", []) == [("none", "[]", "json")]


def test_what_is_short_stands_on_one_line(ask, bob, browser_of):
    action = ask({"labels": ["bug", "ui"], "where": {"repo": "shop"}}, tool="mcp__github__label")
    text = re.sub(r"</?span[^>]*>", "", card_of(browser_of(bob), action)).replace("&quot;", '"')
    assert "labels: bug, ui" in text
    assert "where.repo: shop" in text
    assert "data-must-read" not in text


def test_a_structure_of_many_lines_is_not_decided_in_a_group(ask, bob, browser_of):
    many = [ask({"ids": [1] * 300, "n": number}, tool="mcp__a__b") for number in range(3)]
    page = browser_of(bob).get(f"/waiting/alike/{many[0].pk}/").content.decode()
    assert page.count("Too long to show here") == 3
    assert " checked" not in page
