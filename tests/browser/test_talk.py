"""A reviewer writes to an agent from its card, interrupts it, sees what it did and what was heard, and lifts it."""

import re
import time
import uuid

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import settle
from .test_every_page import SERIOUS

WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
MARK = f"<b>bold</b> \u202e {'x' * 200}"


def check(page):
    """In both themes nothing is wider than the screen and axe finds nothing serious."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []
        assert page.evaluate(WIDER) <= 0
    page.emulate_media(color_scheme="light")


def test_a_message_and_an_interrupt_from_the_card(product, token, person, ask):
    session = uuid.uuid4().hex
    asked = ask(f"git push origin told-{time.time()}", session=session)
    page = person("rita")
    page.add_init_script(AXE_SCRIPT)
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    settle(page)
    check(page)
    page.locator("#card summary", has_text="More").click()
    page.get_by_role("link", name="Message or interrupt").click()
    expect(page).to_have_url(re.compile(f"session={session}"))
    settle(page)
    page.get_by_role("textbox", name="Message").fill(f"Pull first. {MARK}")
    check(page)
    page.get_by_role("button", name="Send").click()
    said = page.get_by_role("region", name="Messages")
    expect(said).to_contain_text("Pull first.")
    expect(said).to_contain_text("Not read yet")
    assert said.locator("b").count() == 0
    assert "\u202e" not in said.inner_text()
    (heard,) = product.get(f"/api/v1/actions/{asked['id']}", token).json["messages"]
    expect(said).to_contain_text("not acknowledged yet")
    assert product.post(f"/api/v1/messages/{heard['id']}/read", token).status == 200

    settle(page)
    page.get_by_text("Interrupt this session…").click()
    expect(page.locator("#talk-preview")).to_contain_text(f"A-{asked['number']}")
    check(page)
    page.get_by_label("What the agent is told").fill(f"Frozen. {MARK}")
    page.get_by_role("button", name="Interrupt", exact=True).click()
    held = page.get_by_role("region", name="Interrupted")
    expect(held).to_contain_text("The agent was not told yet")
    expect(held).to_contain_text(f"A-{asked['number']}")
    check(page)
    again = {"tool": "Bash", "arguments": {"command": "pwd"}, "session": session}
    assert product.post("/api/v1/actions", token, again).json["code"] == "interrupted"
    expect(held).to_contain_text("The agent was told at")
    settle(page)
    page.get_by_role("button", name="Let it go on").click()
    expect(held).to_have_count(0)
    page.get_by_text("Earlier interrupts: 1").click()
    expect(page.get_by_text("rita let it go on at")).to_be_visible()
    check(page)
    assert product.post("/api/v1/actions", token, again).status == 201
    page.goto(f"{product.desk}/agents/")
    settle(page)
    check(page)
