"""A reviewer asks the agent on its card: the request waits on, and the answer comes on the same card by itself."""

import time

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import settle
from .test_every_page import SERIOUS

WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
MARK = "<b>bold</b> \u202e‮ `x`"


def check(page):
    """In both themes nothing is wider than the screen and axe finds nothing serious."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []
        assert page.evaluate(WIDER) <= 0


def test_a_question_and_its_answer_stand_on_the_card(product, token, person, ask):
    asked = ask(f"git push origin asking-{time.time()}")
    page = person("rita")
    page.add_init_script(AXE_SCRIPT)
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    settle(page)
    page.get_by_role("button", name="Ask…").click()
    field = page.get_by_label("Ask the agent")
    expect(field).to_be_focused()
    field.fill("Why this branch?")
    check(page)
    page.get_by_role("button", name="Ask", exact=True).click()
    talk = page.get_by_label("Questions and answers")
    expect(talk).to_contain_text("Why this branch?")
    expect(talk).to_contain_text("gets the question when it next hears")
    heard = product.get(f"/api/v1/actions/{asked['id']}?wait=20", token).json
    assert heard["question"]["text"] == "Why this branch?"
    sent = product.post(f"/api/v1/actions/{asked['id']}/messages", token, {"text": f"Because {MARK}"})
    assert sent.status == 201
    expect(talk).to_contain_text("answered")
    expect(talk.locator(".said").last).to_contain_text("<b>bold</b>")
    assert talk.locator("b").count() == 0
    assert "\u202e" not in talk.inner_text()
    check(page)
    settle(page)
    page.get_by_role("button", name="Approve…").click()
    settle(page)
    page.get_by_role("button", name="Confirm: approve").click()
    page.wait_for_load_state()
    assert product.get(f"/api/v1/actions/{asked['id']}", token).json["status"] == "approved"


@pytest.mark.parametrize("size", ["phone"], indirect=False)
def test_without_a_script_asking_is_a_page_of_its_own(product, person, ask, size):
    asked = ask(f"git push origin asking-plainly-{time.time()}")
    page = person("rita")
    page.goto(f"{product.desk}/actions/{asked['id']}/ask/")
    settle(page)
    page.get_by_label("Ask the agent").fill("Why?")
    page.get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_label("Questions and answers")).to_contain_text("Why?")
