"""*Do this first…* in a browser: words go back, and the agent's next call shows them with what it did in between."""

import time

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import press, settle
from .test_asking import check
from .test_unreachable import card, decision

WORDS = "Pull with rebase <b>now</b>"


def test_a_call_goes_back_and_comes_again_as_a_revision(product, token, person, ask, size):
    mark = f"first-{time.time_ns()}"
    first = ask(f"git push origin {mark}", session=mark)
    page = person("rita")
    page.add_init_script(AXE_SCRIPT)
    page.goto(card(product, first))
    settle(page)
    if size == "desktop":
        press(page, "q")
    else:
        page.get_by_role("button", name="Deny…").click()
    page.get_by_role("textbox").fill(WORDS)  # it goes along to the other step
    page.get_by_role("button", name="Do this first…").click()
    field = page.get_by_label("What the agent should do first")
    expect(field).to_be_focused()
    expect(field).to_have_value(WORDS)
    settle(page)
    check(page)
    page.get_by_role("button", name="Send back").click()
    expect(page.locator(".notice").first).to_contain_text("Sent back: Push to")
    said = decision(product, token, first)["decision"]
    assert (said["verdict"], said["do_first"], said["comment"]) == ("deny", True, WORDS)
    between = ask(f"git pull --rebase origin {mark}", session=mark)
    again = ask(f"git push origin {mark}", session=mark)
    page.goto(card(product, again))
    part = page.get_by_label("Asked again after a denial")
    expect(part).to_contain_text(WORDS)
    expect(part.locator("li a")).to_have_text(between["title"])
    expect(part).to_contain_text("Nothing was changed: it is the same call.")
    check(page)


def test_without_a_script_it_is_a_page_of_its_own(product, token, person, ask):
    asked = ask(f"git push origin first-plainly-{time.time_ns()}")
    page = person("rita", java_script_enabled=False)
    page.goto(card(product, asked))
    page.get_by_role("button", name="Deny…").click()
    page.get_by_role("button", name="Do this first…").click()
    page.get_by_label("What the agent should do first").fill(WORDS)
    page.get_by_role("button", name="Send back").click()
    expect(page.locator(".notice").first).to_contain_text("Sent back: Push to")
    assert decision(product, token, asked)["decision"]["do_first"] is True
