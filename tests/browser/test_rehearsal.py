"""Try it first, on a phone and on a desktop: the card shows the result by itself, and one button applies it."""

import os

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from tests.approvals.actions.test_rehearsals import Rehearsing
from tests.support.product import Product

from .conftest import settle
from .test_every_page import SERIOUS


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    product = Product(tmp_path_factory.mktemp("tried") / "home", HANDRAIL_HELD="1")
    product.start()
    yield product
    product.clean_up()


@pytest.fixture(scope="module")
def desk(product):
    return Rehearsing(product)


@pytest.fixture(scope="module")
def signed_in():
    return {}  # others sign in to another product


def test_a_command_is_tried_seen_and_applied(desk, person, size):
    desk.put("notes.txt", f"before, on a {size}\n".encode())
    asked = desk.ask_for(f"echo after >> notes.txt; curl -s http://example.org/; seq 300 > {size}.txt")
    page = person("ruth", "reviewer")
    page.add_init_script(AXE_SCRIPT)
    page.goto(f"{desk.product.desk}/actions/{asked['id']}/")
    settle(page)
    page.get_by_role("button", name="Try it first").click()
    expect(page.locator("#rehearsal")).to_contain_text("2 paths changed")
    expect(page.locator("#rehearsal")).to_contain_text("Connect to example.org:80")
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    # axe takes a link for small where the bar of decisions covers a part of it.
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    assert page.evaluate(SERIOUS) == []
    if shots := os.environ.get("HANDRAIL_SHOTS"):
        page.screenshot(path=f"{shots}/{size}.png", full_page=True)
    apply = page.get_by_role("button", name="Approve: apply this result")
    apply.scroll_into_view_if_needed()
    settle(page)
    apply.click()
    assert desk.over(asked)["status"] == "succeeded"
    assert desk.file("notes.txt") == f"before, on a {size}\nafter\n".encode()
