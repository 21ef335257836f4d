"""Who else has a terminal open, and who types, as pages show it."""

from playwright.sync_api import expect

from tests.workspaces.terminals.screens import PHONE, ready, serious, shows


def test_two_people_see_each_other_come_type_and_go(person, opened, at):
    terminal = opened("echo ready; cat")
    lead = ready(person("lead", **PHONE), at(terminal))
    shows(lead, "ready")
    height = "document.getElementById('terminal-screen').offsetHeight"
    alone = lead.evaluate(height)
    expect(lead.locator("#terminal-people")).to_be_hidden()
    vera = ready(person("viewer"), at(terminal))
    expect(lead.locator("#terminal-people")).to_have_text("viewer-at-terminals has this open")
    expect(vera.locator("#terminal-people")).to_have_text("lead-at-terminals has this open")
    expect(vera.locator("#terminal-typing")).to_be_hidden()
    lead.locator("textarea.xterm-helper-textarea").press_sequentially("x")
    expect(vera.locator("#terminal-typing")).to_have_text("lead-at-terminals is typing")
    expect(lead.locator("#terminal-typing")).to_be_hidden()
    assert lead.evaluate(height) == alone  # else each who comes would change the size of the program's window
    assert (serious(lead), serious(vera)) == ([], [])
    expect(vera.locator("#terminal-typing")).to_be_hidden()
    vera.close()
    expect(lead.locator("#terminal-people")).to_be_hidden()


def test_ones_own_other_page_is_said_to_be_one(person, opened, at):
    terminal = opened("echo ready; cat")
    pages = [ready(person("lead"), at(terminal)) for _ in range(2)]
    for page in pages:
        expect(page.locator("#terminal-people")).to_have_text("You have it open elsewhere too")
    pages[0].locator("textarea.xterm-helper-textarea").press_sequentially("x")
    expect(pages[1].locator("#terminal-typing")).to_have_text("You are typing elsewhere")
