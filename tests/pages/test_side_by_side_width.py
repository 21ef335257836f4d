"""Two workspaces side by side are one column on a phone and two on a desktop: in a real browser."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import sync_playwright

from tests.pages.conftest import keep_tree, make_workspace
from tests.pages.test_side_by_side import BASE, HERE, LEFT, RIGHT, make_fork, set_tree
from tests.support.chromium import ARGUMENTS
from workspaces.changes import ignored

STYLES = ("tokens", "base", "forms", "layout", "parts", "code", "pages")
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
PLACES = """[...document.querySelectorAll('.beside')].map(pair => [...pair.children].map(side => {
    const {left, right, top} = side.getBoundingClientRect();
    return [left, right, top].map(Math.round);
}))"""


def measured(html: str, styles: str) -> dict[str, tuple[list, int]]:
    """{size: (the edges of both sides of each pair, how wide the page is)}"""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        found = {}
        for name, (width, height) in SIZES.items():
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_content(html)
            page.add_style_tag(content=styles)
            found[name] = page.evaluate(PLACES), page.evaluate("document.documentElement.scrollWidth")
        browser.close()
    return found


@pytest.fixture
def html(team, agent, alice, browser_of, read, tmp_path, monkeypatch):
    monkeypatch.setattr(ignored, "SECONDS", 100)
    parent = make_workspace(team, agent, "cart")
    set_tree(parent, 1, keep_tree(team, tmp_path / "base", BASE))
    set_tree(parent, 2, keep_tree(team, tmp_path / "right", RIGHT | {"long/" + "name" * 40 + ".txt": "x" * 900}))
    fork = make_fork(team, agent, "cart-fork", parent, 1)
    set_tree(fork, 2, keep_tree(team, tmp_path / "left", LEFT | {"long/" + "name" * 40 + ".txt": "y " * 500}))
    return read(browser_of(alice), f"{HERE}?at=2&with_at=2")


def test_the_sides_are_below_each_other_where_there_is_no_room(html, settings, require):
    if not (shutil.which("chromium") or shutil.which("google-chrome")):
        require("browser", "there is no Chromium on this machine")
    styles = "".join((settings.BASE_DIR / "static" / "css" / f"{name}.css").read_text() for name in STYLES)
    with ThreadPoolExecutor(1) as elsewhere:  # Playwright's loop must not run where Django asks the database
        found = elsewhere.submit(measured, html, styles).result()
    phone, desktop = found["phone"][0], found["desktop"][0]
    assert len(phone) == len(desktop) > 5
    assert all(left[0] == right[0] and left[2] < right[2] for left, right in phone)
    assert all(left[1] < right[0] and left[2] == right[2] for left, right in desktop)
    assert (found["phone"][1], found["desktop"][1]) == (390, 1280)
