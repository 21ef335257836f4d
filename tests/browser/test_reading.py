"""A long call is approved once its end was seen, by whichever way it was read; a tap that does nothing says why."""

import time

import pytest
from playwright.sync_api import expect

from .conftest import settle

LINES = "\n".join(f"echo {number}" for number in range(400))


@pytest.fixture
def opened(product, person, ask):
    page = person("rita")
    action = ask(f"git push origin main\n{LINES}\necho end-{time.time()}")
    page.goto(f"{product.desk}/actions/{action['id']}/")
    settle(page)
    expect(approve(page)).to_have_attribute("aria-disabled", "true")
    expect(page.get_by_text("Open the 370 hidden lines to approve")).to_be_visible()
    return page


def approve(page):
    return page.get_by_role("button", name="Approve…")


def test_scrolling_through_it_counts(opened):
    for _ in range(60):
        opened.mouse.move(190, 300)
        opened.mouse.wheel(0, 600)
        opened.wait_for_timeout(30)
    expect(approve(opened)).not_to_have_attribute("aria-disabled", "true")


def test_see_the_end_counts(opened):
    opened.get_by_text("See the end").click()
    expect(approve(opened)).not_to_have_attribute("aria-disabled", "true")


def test_a_tap_on_the_grey_button_leads_to_what_is_unread(opened):
    approve(opened).click(force=True)
    expect(opened.locator("details[data-must-read]")).to_have_attribute("open", "")
    expect(opened.locator("details[data-must-read] > summary")).to_be_in_viewport()
    expect(opened.get_by_role("button", name="Confirm: approve")).to_have_count(0)
    expect(approve(opened)).to_have_attribute("aria-disabled", "true")
    opened.locator("details[data-must-read] .fold-end").scroll_into_view_if_needed()
    expect(approve(opened)).not_to_have_attribute("aria-disabled", "true")


def test_what_is_not_scrolled_to_is_not_read(opened):
    opened.wait_for_timeout(500)
    expect(approve(opened)).to_have_attribute("aria-disabled", "true")


def test_a_step_opens_at_once_and_its_button_says_why_it_rests(product, person, ask):
    page = person("rita")
    action = ask(f"git push origin at-once-{time.time()}")
    page.goto(f"{product.desk}/actions/{action['id']}/")
    page.evaluate("document.dispatchEvent(new CustomEvent('changed'))")
    approve(page).click(force=True)
    confirm = page.get_by_role("button", name="Confirm: approve")
    confirm.click(force=True)
    answer = page.locator("[data-hint], .notice")  # by then it may be ready
    expect(answer.first).to_be_visible()


def test_a_table_of_many_rows_is_read_first(product, token, person):
    page = person("rita")
    rows = [{"id": number, "price": 0.1} for number in range(600)]
    body = {"tool": "mcp__warehouse__load", "arguments": {"rows": rows, "at": time.time()}}
    action = product.post("/api/v1/actions", token, body).json
    page.goto(f"{product.desk}/actions/{action['id']}/")
    settle(page)
    expect(page.get_by_text("600 rows · id, price")).to_be_visible()
    assert page.locator("#card, main").first.bounding_box()["height"] < 4000
    expect(approve(page)).to_have_attribute("aria-disabled", "true")
    page.get_by_text("See the end").click()
    expect(approve(page)).not_to_have_attribute("aria-disabled", "true")


EXPIRES_LATER = """
from datetime import timedelta
from django.utils import timezone
from approvals.models import Action
Action.objects.filter(pk={pk!r}).update(expires_at=timezone.now() + timedelta(hours=5))
"""

NOTE_MORPH = """
document.addEventListener("changed", ({ target }) => { if (target.id === "card") document.body.dataset.morphed = "" })
"""


def test_what_was_read_stays_read_when_another_part_of_the_card_changes(product, opened, ask):
    opened.get_by_text("See the end").click()
    expect(approve(opened)).not_to_have_attribute("aria-disabled", "true")
    opened.evaluate("scrollTo(0, 0)")
    action = opened.url.rstrip("/").rsplit("/", 1)[1]
    opened.evaluate(NOTE_MORPH)
    product.shell(EXPIRES_LATER.format(pk=action))
    ask(f"git push origin beside-{time.time()}")  # an event, at which pages read themselves again
    expect(opened.locator("body")).to_have_attribute("data-morphed", "")
    settle(opened)
    expect(opened.locator("details[data-must-read]")).to_have_attribute("open", "")
    expect(approve(opened)).not_to_have_attribute("aria-disabled", "true")


def test_what_is_not_read_stays_unread_when_another_part_of_the_card_changes(product, opened, ask):
    action = opened.url.rstrip("/").rsplit("/", 1)[1]
    opened.evaluate(NOTE_MORPH)
    product.shell(EXPIRES_LATER.format(pk=action))
    ask(f"git push origin beside-{time.time()}")
    expect(opened.locator("body")).to_have_attribute("data-morphed", "")
    settle(opened)
    expect(approve(opened)).to_have_attribute("aria-disabled", "true")
    opened.get_by_text("See the end").click()
    expect(approve(opened)).not_to_have_attribute("aria-disabled", "true")
