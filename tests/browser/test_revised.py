"""A request after a denial: both cards link to each other, and the words that changed are marked."""

import time

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import settle
from .test_every_page import SERIOUS

WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def look():
    """`look(page)`: in both themes nothing is wider than the screen and axe finds nothing serious."""

    def check(page):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(SERIOUS) == []
            assert page.evaluate(WIDER) <= 0

    return check


def test_the_request_after_a_denial_shows_the_words_and_the_change(product, person, ask, look):
    mark = f"{time.time()}"
    first = ask(f"git push --force origin talk-{mark}", session=mark)
    page = person("rita")
    page.add_init_script(AXE_SCRIPT)
    page.goto(f"{product.desk}/actions/{first['id']}/deny/")
    page.get_by_label("Tell the agent what to do instead").fill("pull rebase first")
    settle(page)
    page.get_by_role("button", name="Deny", exact=True).click()
    page.wait_for_load_state()
    again = ask(f"git push origin talk-{mark}", session=mark)
    page.goto(f"{product.desk}/actions/{again['id']}/")
    part = page.get_by_label("Asked again after a denial")
    expect(part).to_contain_text("pull rebase first")
    expect(part.locator("del")).to_have_text("--force ")
    look(page)
    part.get_by_role("link").click()
    expect(page.get_by_label("Asked again", exact=True)).to_contain_text(f"A-{again['number']}")
    look(page)
