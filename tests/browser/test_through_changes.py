"""A workspace's pages by thumb and by key: tabs, the menu, next file, next change, and what was seen."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import HERE

HALF = 422  # px of a screen of 844
TABS = {
    "": "#rail .row",
    "changes/": ".diff",
    "files/": ".file-rows .row",
    "terminals/": "#terminals",
    "snapshots/": "#snapshots .row",
    "checks/": "main > :not(header)",
    "notes/": "main > :not(header)",
    "conversations/": "main > :not(header)",
    "network/": "main > :not(header)",
}


@pytest.fixture(scope="module")
def changed(product, token, workspace):
    """A workspace with four changed files, one of them with two changes that are far apart; its key."""
    made = product.post(
        "/api/v1/workspaces", token, {"key": "thumbed", "source": {"git": str(product.sources / "shop")}}
    )
    assert made.status == 201, made.text
    here = "/api/v1/workspaces/thumbed"
    product.settled(here, token)
    lines = "".join(f"# {number}\n" for number in range(40))
    cart = f"def total(items):\n    return round(sum(items))\n{lines}def empty():\n    return ()\n"
    for name, text in (("cart.py", cart), ("one.py", "1\n"), ("sub/two.py", "2\n"), ("sub/three.py", "3\n")):
        product.call("PUT", f"{here}/files/{name}", token, text.encode())
    product.post(f"{here}/snapshots", token, {"label": "all"})
    product.settled(here, token)
    return "thumbed"


def focused(page) -> str:
    """The path of the file in which the focus is."""
    return page.evaluate("document.activeElement.closest('[data-file]')?.getAttribute('aria-label')")


@pytest.mark.parametrize("size", ["phone"])
def test_every_tab_begins_in_the_first_half_of_the_screen(product, person, changed):
    page = person("rita")
    for tab, first in TABS.items():
        page.goto(product.desk + HERE.format(key=changed) + tab)
        expect(page.locator(first).first).to_be_visible()
        assert page.locator(first).first.bounding_box()["y"] <= HALF, tab
        current = page.locator('#tabs [aria-current="page"]').bounding_box()
        row = page.locator("#tabs").bounding_box()
        assert row["x"] - 1 <= current["x"], tab
        assert current["x"] + current["width"] <= row["x"] + row["width"] + 1, tab
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), tab


def test_the_menu_opens_closes_by_escape_and_by_a_tap_outside(product, person, changed):
    page = person("lena", "lead")
    page.goto(product.desk + HERE.format(key=changed))
    menu = page.locator("#head-buttons details.menu")
    menu.locator("summary").click()
    expect(menu.get_by_role("link", name="Move to trash…")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu.get_by_role("link", name="Move to trash…")).to_be_hidden()
    menu.locator("summary").click()
    page.locator("h1").click()
    expect(menu.get_by_role("link", name="Move to trash…")).to_be_hidden()
    menu.locator("summary").click()
    menu.get_by_role("link", name="Reset to after setup…").click()
    expect(page.locator("main")).to_contain_text("Restore thumbed to snapshot 1?")


@pytest.mark.parametrize("size", ["desktop"])
def test_keys_go_from_file_to_file_and_from_change_to_change(product, person, changed):
    page = person("rita")
    page.goto(product.desk + HERE.format(key=changed) + "changes/")
    expect(page.locator(".diff").nth(3)).to_be_visible()
    for name in ("cart.py", "one.py", "sub/three.py"):
        page.keyboard.press("n")
        assert focused(page) == name
    for name in ("one.py", "cart.py"):
        page.keyboard.press("p")
        assert focused(page) == name
    page.keyboard.press("]")
    page.keyboard.press("]")
    assert (focused(page), page.evaluate("document.activeElement.className")) == ("cart.py", "hunk")
    page.keyboard.press("]")
    assert focused(page) == "one.py"
    page.keyboard.press("[")
    assert focused(page) == "cart.py"


@pytest.mark.parametrize("size", ["phone"])
def test_a_thumb_goes_from_file_to_file_and_marks_what_was_seen(product, person, changed):
    page = person("rita")
    page.goto(product.desk + HERE.format(key=changed) + "changes/")
    expect(page.locator("#seen-count")).to_have_text("0 of 4 seen")
    for name in ("cart.py", "one.py", "sub/three.py"):
        page.get_by_role("button", name="Next file").click()
        assert focused(page) == name
    page.get_by_role("button", name="Next change").click()
    assert page.evaluate("document.activeElement.matches('.hunk, [data-file]')")
    page.locator('.diff[aria-label="one.py"]').get_by_role("button", name="Mark as seen").click()
    expect(page.locator("#seen-count")).to_have_text("1 of 4 seen")
    page.reload()
    expect(page.locator("#seen-count")).to_have_text("1 of 4 seen")
    page.locator('.diff[aria-label="one.py"]').get_by_role("button", name="Seen").click()
    expect(page.locator("#seen-count")).to_have_text("0 of 4 seen")
