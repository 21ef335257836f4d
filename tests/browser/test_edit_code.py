"""The code editor of the edit page: what is typed is what is sent, the change is marked, and Tab leaves it."""

import time

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import settle
from .test_every_page import SERIOUS

WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def editor(product, person):
    """`editor(asked)`: the edit page of an action, and its field for the command."""

    def opened(asked, label="Command"):
        page = person("rita")
        page.add_init_script(AXE_SCRIPT)
        page.goto(f"{product.desk}/actions/{asked['id']}/edit/")
        settle(page)
        field = page.get_by_role("textbox", name=label, exact=True)
        expect(page.locator(".cm-editor").first).to_be_visible()
        return page, field

    return opened


def test_an_edit_is_marked_while_typing_and_is_what_is_approved(product, token, ask, editor):
    name = f"branch-{time.time_ns()}"
    asked = ask(f"git push origin {name} && \\\n  echo done")
    page, field = editor(asked)
    assert page.locator(".cm-changedText, .cm-deletedText").count() == 0
    field.press("Control+Home")
    page.keyboard.type("echo first; ")
    page.keyboard.press("Control+End")
    page.keyboard.press("Control+Backspace")
    page.keyboard.type("'gone' 1 # and why")
    expect(page.locator(".cm-changedText").first).to_be_visible()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []
        assert page.evaluate(WIDER) <= 0
    page.get_by_role("button", name="Preview difference").click()
    settle(page)
    expect(page.locator("tr.added .line").first).to_contain_text("echo first;")
    expect(page.locator(".cm-changedText").first).to_be_visible()
    page.get_by_role("button", name="Approve edited version").click()
    expect(page.locator(".notice").first).to_contain_text("Changed and approved")
    found = product.get(f"/api/v1/actions/{asked['id']}", token).json
    assert found["arguments"]["command"] == f"echo first; git push origin {name} && \\\n  echo 'gone' 1 # and why"


def test_hidden_characters_are_shown_and_stay(product, token, ask, editor):
    command = f"git push origin a\u200bb\u202ec-{time.time_ns()}"
    asked = ask(command)
    page, field = editor(asked)
    assert page.locator(".cm-editor .mark").all_text_contents() == ["U+200B", "U+202E"]
    field.press("Control+End")
    page.keyboard.type(" x")
    held = page.locator("textarea[name=command]").evaluate("field => field.value")
    assert held == f"{command} x"


def test_tab_leaves_the_editor_and_undo_is_its_own(ask, editor):
    page, field = editor(ask(f"git push origin tab-{time.time_ns()}"))
    field.press("Control+End")
    page.keyboard.type("!!")
    page.keyboard.press("Control+z")
    held = page.locator("textarea[name=command]")
    assert not held.evaluate("field => field.value").endswith("!!")
    field.press("Tab")
    assert page.evaluate("document.activeElement.closest('.cm-editor') === null")


def test_each_text_of_a_call_has_an_editor_and_nothing_is_lost_in_it(product, token, ask, editor):
    text = "\n first line\n\ttab and two  blanks \n\n"
    asked = ask("", tool="mcp__chat__post", arguments={"text": text, "channel": f"#{time.time_ns()}"})
    page, field = editor(asked, label="channel")
    field.press("Control+End")
    page.keyboard.type("-x")
    page.get_by_role("button", name="Preview difference").click()
    settle(page)
    page.get_by_role("button", name="Approve edited version").click()
    expect(page.locator(".notice").first).to_contain_text("Changed and approved")
    found = product.get(f"/api/v1/actions/{asked['id']}", token).json["arguments"]
    assert (found["text"], found["channel"]) == (text, asked["arguments"]["channel"] + "-x")
