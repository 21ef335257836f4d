"""A reviewer says on a phone and on a desktop what need not be asked again, and for how long."""

import time

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import settle
from .test_every_page import SERIOUS

WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_a_tool_is_allowed_for_today_in_three_taps(product, token, person, ask):
    tool = f"mcp__chat__post_{time.time_ns()}"
    ask("", tool=tool, arguments={"channel": "#before"})
    card = ask("", tool=tool, arguments={"channel": "#dev", "text": "word " * 40 + "x" * 120})
    page = person("rita")
    page.add_init_script(AXE_SCRIPT)
    page.goto(f"{product.desk}/actions/{card['id']}/")
    settle(page)
    page.locator("#card summary", has_text="More").click()
    page.get_by_role("link", name="Don't ask again for…").click()
    settle(page)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []
        assert page.evaluate(WIDER) <= 0
    expect(page.get_by_text("would have covered 1 request")).to_be_visible()
    page.get_by_role("radio", name="of the MCP server chat").check()
    page.get_by_label("For", exact=True).select_option("today")
    page.get_by_role("button", name="Approve and don't ask again").click()
    expect(page.get_by_text("Auto-approved until")).to_be_visible()
    later = ask("", tool=tool, arguments={"channel": "#ops"})
    assert later["status"] == "approved"
