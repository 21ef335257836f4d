"""What decides a card is on the first screen of a phone, above its buttons, which stand in one row."""

import time

import pytest
from playwright.sync_api import expect

from .conftest import settle

HEIGHTS = (844, 640)
SQL = "psql shop <<'SQL'\nBEGIN;\nALTER TABLE refunds ADD COLUMN reason text;\nDROP TABLE refunds_old;\nCOMMIT;\nSQL"
REASON = "The customer was charged twice, and the ticket of the shop says so, with the numbers of both charges."
CARDS = {
    "push": ("Bash", lambda mark: {"command": f"git push origin HEAD:{mark}"}),
    "delete": ("Bash", lambda mark: {"command": f"rm -rf ~/{mark} ~/old-projects"}),
    "sql": ("Bash", lambda mark: {"command": f"{SQL} # {mark}"}),
    "refund": ("mcp__stripe__create_refund", lambda mark: {"charge": mark, "amount": 12990, "currency": "eur"}),
    "command": ("Bash", lambda mark: {"command": f"npm install left-pad@1.3.0 {mark}"}),
}
PARTS = (".card-top", ".card-title", ".card-who", ".call", ".card-reason", "#evidence", ".agent-words > summary")
ROW = """(bar) => new Set([...bar.children].map(
    (each) => (each.querySelector("button") ?? each).getBoundingClientRect().top)).size"""
WIDER = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.fixture
def size():
    return "phone"


@pytest.mark.parametrize("kind", CARDS)
def test_each_part_stands_above_the_buttons_and_the_rest_under_more(product, person, ask, kind):
    tool, arguments = CARDS[kind]
    action = ask("", tool=tool, arguments=arguments(f"first-{time.time_ns()}"), reasoning=REASON)
    page = person("rita")
    page.goto(f"{product.desk}/actions/{action['id']}/")
    settle(page)
    expect(page.locator("#evidence[aria-busy]")).to_have_count(0)
    for height in HEIGHTS:
        page.set_viewport_size({"width": 390, "height": height})
        top = page.locator("#bar").bounding_box()["y"]
        boxes = {part: page.locator(f"#card {part}").first.bounding_box() for part in PARTS}
        assert {part: box["y"] + box["height"] <= top for part, box in boxes.items()} == dict.fromkeys(PARTS, True)
        assert [box["y"] for box in boxes.values()] == sorted(box["y"] for box in boxes.values())
        assert page.locator("#bar .bar-buttons").first.evaluate(ROW) == 1
        assert page.evaluate(WIDER) <= 0
    expect(page.get_by_text("Digest", exact=True)).to_be_hidden()
    page.locator("#card summary", has_text="More").click()
    expect(page.get_by_text("Digest", exact=True)).to_be_visible()
    page.locator("#card .agent-words > summary").click()
    expect(page.locator("#card .agent-words .said")).to_have_text(REASON)
