"""A list or object among the arguments has its size on the card, and is read to its end like any long text."""

import json
import re

import pytest

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
        fold = re.search(
            r"<details class=\"code-fold\" open data-must-read data-opens=\"Open the [\d,]+ hidden lines to approve\">",
            text,
        )
        assert fold is not None
        assert re.search(r"<small>\d[\d,]* (?:rows?|values?|entry|entries)", text[: fold.start()])
        buttons = re.findall(r"<(?:a|button)[^>]*data-decide[^>]*>(?= ?(?:Approve|Confirm: approve))", text)
        assert buttons
        assert [button for button in buttons if "data-needs-reading" not in button] == []


def test_each_row_of_a_flat_list_is_a_line(ask, bob, browser_of):
    action = ask({"rows": ROWS}, tool="mcp__warehouse__load")
    page = browser_of(bob).get(f"/actions/{action.pk}/").content.decode()
    lines = [line for line in page.replace("&quot;", '"').splitlines() if '"name": "row ' in line]
    assert len(lines) == 600


def test_what_is_short_stands_on_one_line(ask, bob, browser_of):
    action = ask({"labels": ["bug", "ui"], "where": {"repo": "shop"}}, tool="mcp__github__label")
    text = card_of(browser_of(bob), action).replace("&quot;", '"')
    assert 'labels: ["bug", "ui"]' in text
    assert "data-must-read" not in text


def test_a_structure_of_many_lines_is_not_decided_in_a_group(ask, bob, browser_of):
    many = [ask({"ids": [1] * 300, "n": number}, tool="mcp__a__b") for number in range(3)]
    page = browser_of(bob).get(f"/waiting/alike/{many[0].pk}/").content.decode()
    assert page.count("Too long to show here") == 3
    assert " checked" not in page
