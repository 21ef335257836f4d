"""By keyboard, on a phone and a desktop: what has the focus shows it, no bar covers it, and nothing moves."""

import pytest
from playwright.sync_api import expect

from .conftest import settle

STOPS = 60
# The element itself, what it draws over its row, or its label carries the mark; a browser's own parts of a date field
# carry the browser's.
FOCUSED = """() => {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const marked = (style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
    const shown = [getComputedStyle(element), getComputedStyle(element, "::after")];
    if (element.closest("label")) shown.push(getComputedStyle(element.closest("label")));
    const {left, right, top, bottom} = element.getBoundingClientRect();
    const inside = (from, to, share, size) => Math.min(size - 1, Math.max(0, from + (to - from) * share));
    const seen = [0.05, 0.5, 0.95].some((across) => [0.1, 0.5, 0.9].some((down) => {
        const [x, y] = [inside(left, right, across, innerWidth), inside(top, bottom, down, innerHeight)];
        const found = document.elementFromPoint(x, y);
        return found && (element.contains(found) || found.contains(element) && found !== document.body);
    }));
    const words = (element.textContent || element.name || element.ariaLabel || "").trim().replace(/\\s+/g, " ");
    return {
        what: `${element.tagName} ${words.slice(0, 40)}`,
        marked: shown.some(marked) || ["date", "time", "datetime-local"].includes(element.type),
        seen: seen && bottom > 0 && top < innerHeight,
    };
}"""
MOVES = "() => document.getAnimations().map((one) => one.animationName ?? one.transitionProperty)"


@pytest.mark.parametrize("address", ["/", "/waiting/", "card", "/me/notifications/", "/policy/", "/workspaces/new/"])
def test_what_has_the_focus_is_marked_and_in_sight(person, product, ask, address):
    asked = [ask(f"git push origin main:focus-{number}") for number in range(4)]
    page = person("lea", "lead", reduced_motion="reduce")
    page.goto(product.desk + (f"/actions/{asked[0]['id']}/" if address == "card" else address))
    expect(page.locator("main").first).to_be_visible()
    settle(page)
    faults, stops = [], 0
    for _ in range(STOPS):
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        if found is None:
            break
        stops += 1
        faults += [found] if not (found["marked"] and found["seen"]) else []
    assert stops > 5
    assert faults == []
    assert page.evaluate(MOVES) == []
