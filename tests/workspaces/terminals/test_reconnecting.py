"""A page whose connection breaks: no byte lost or doubled, and nothing that was typed goes late unseen."""

import pytest
from playwright.sync_api import expect

from tests.support.chromium import fetch
from tests.workspaces.terminals.screens import PHONE, Cable, ready, serious, shows

LAST = 700


@pytest.fixture
def cabled(person, opened, at):
    """`cabled("cat")`: a phone's page of a terminal that runs a command, its cable and its address."""

    def open_one(command):
        page = person("lead", **PHONE)
        cable = Cable(page)
        address = at(opened(command))
        ready(page, address)
        page.wait_for_function("() => Number(document.querySelector('[data-terminal]').dataset.drawn) >= 5")  # ready
        return page, cable, address

    return open_one


def state(page):
    return page.locator("#terminal-state")


def typing(page):
    return page.locator("textarea.xterm-helper-textarea")


def connected(page):
    expect(state(page)).to_have_text("Connected")


def test_a_counter_is_whole_although_the_connection_is_cut_again_and_again(cabled, product):
    page, cable, address = cabled(f"echo ready; for i in $(seq 1 {LAST}); do echo $i; sleep 0.01; done; read -r")
    cuts = 0
    while int(page.locator("[data-terminal]").get_attribute("data-drawn") or 0) < 4 * LAST:
        cable.cut(lost_ms=30 + 40 * (cuts % 4))
        cuts += 1
        cable.until_opened(cuts + 1)
        connected(page)
        page.wait_for_timeout(250)
    assert cuts >= 5
    shows(page, f"{LAST}\n")
    recorded = fetch(page, product, f"{address}log/").body()
    assert recorded == b"ready\r\n" + b"".join(b"%d\r\n" % number for number in range(1, LAST + 1))
    expect(page.locator("[data-terminal]")).to_have_attribute("data-drawn", str(len(recorded)))
    page.get_by_role("button", name="Copy", exact=True).tap()
    text = page.locator("#terminal-plain").text_content()
    assert text == "\n".join(["ready", *map(str, range(1, LAST + 1))])


def test_what_is_typed_meanwhile_is_in_view_and_arrives_once(cabled, lead):
    page, cable, _ = cabled("stty raw -echo; printf ready; head -c 26 > typed-meanwhile; echo done; sleep 60")
    letters = "abcdefghijklmnopqrstuvwxyz"
    unsent = page.locator("#terminal-unsent")
    for at in range(0, 24, 6):
        typing(page).press_sequentially(letters[at : at + 3])
        cable.broken = True
        cable.cut(lost_ms=0)
        expect(state(page)).to_have_text("Reconnecting…")
        typing(page).press_sequentially(letters[at + 3 : at + 6])
        expect(unsent).to_contain_text("Not sent yet:")
        expect(unsent).to_contain_text(letters[at + 3 : at + 6])
        cable.broken = False
        page.evaluate("dispatchEvent(new Event('online'))")
        connected(page)
        if page.get_by_role("button", name="Send").is_visible():  # a slow machine: it became late
            page.get_by_role("button", name="Send").tap()
        expect(unsent).to_be_hidden()
    typing(page).press_sequentially("yz")
    shows(page, "done")
    assert lead.get("/workspaces/terminals/files/typed-meanwhile").body.decode() == letters


def away_for_long(page, cable, text: str):
    """Cut, type, and come back when it is late."""
    cable.broken = True
    cable.cut(lost_ms=0)
    expect(state(page)).to_have_text("Reconnecting…")
    typing(page).press_sequentially(text)
    page.wait_for_timeout(5_500)
    expect(page.locator("#terminal-unsent")).to_contain_text("Not sent. Send it when the connection is back:")
    cable.broken = False
    page.evaluate("dispatchEvent(new Event('online'))")
    connected(page)


def test_what_is_late_is_sent_only_when_the_person_says_so(cabled):
    page, cable, _ = cabled("stty -echo; echo ready; cat -n")
    away_for_long(page, cable, "rm it\r")
    unsent = page.locator("#terminal-unsent")
    expect(unsent).to_contain_text("Not sent. Send it when the connection is back:")
    expect(unsent.locator("code")).to_have_text("rm it⏎")
    typing(page).press_sequentially("now\r")  # waits behind it
    expect(unsent.locator("code")).to_have_text("rm it⏎now⏎")
    assert serious(page) == []
    page.wait_for_timeout(300)
    page.get_by_role("button", name="Send").tap()
    expect(unsent).to_be_hidden()
    shows(page, "now")
    page.get_by_role("button", name="Copy", exact=True).tap()
    lines = page.locator("#terminal-plain").text_content().split("\n")
    assert [line.split() for line in lines if line.startswith("   ")] == [["1", "rm", "it"], ["2", "now"]]


def test_what_is_discarded_never_arrives_and_what_comes_after_it_does(cabled):
    page, cable, _ = cabled("stty -echo; echo ready; cat -n")
    typing(page).press_sequentially("first\r")
    shows(page, "first")
    away_for_long(page, cable, "rm it\r")
    page.get_by_role("button", name="Discard").tap()
    expect(page.locator("#terminal-unsent")).to_be_hidden()
    connected(page)
    typing(page).press_sequentially("second\r")
    shows(page, "second")
    page.get_by_role("button", name="Copy", exact=True).tap()
    lines = page.locator("#terminal-plain").text_content().split("\n")
    assert [line.split() for line in lines if line.startswith("   ")] == [["1", "first"], ["2", "second"]]


def test_a_network_that_is_gone_without_a_word_is_noticed(cabled):
    """As when a phone changes from one network to another: both ends believe that the connection stands."""
    page, cable, _ = cabled("stty -echo; echo ready; cat -n")
    cable.silence()
    typing(page).press_sequentially("still\r")
    page.evaluate("dispatchEvent(new Event('online'))")
    cable.until_opened(2)
    connected(page)
    if page.get_by_role("button", name="Send").is_visible():
        page.get_by_role("button", name="Send").tap()
    shows(page, "still")
    assert len(cable.opened) == 2


def test_a_connection_that_says_nothing_is_given_up(cabled):
    page, cable, _ = cabled("stty -echo; echo ready; cat -n")
    cable.deaf = True
    cable.cut()
    cable.until_opened(2)
    cable.deaf = False
    page.evaluate("dispatchEvent(new Event('online'))")
    cable.until_opened(3)
    connected(page)


def test_who_is_signed_out_meanwhile_sees_what_was_not_sent(cabled):
    page, cable, _ = cabled("stty -echo; echo ready; cat -n")
    cable.broken = True
    cable.cut(lost_ms=0)
    expect(state(page)).to_have_text("Reconnecting…")
    typing(page).press_sequentially("half a word")
    cable.broken, cable.refusal = False, 4401
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(state(page)).to_contain_text("You are signed out.")
    expect(page.locator("#terminal-unsent")).to_contain_text("Not sent: half a word")
    expect(page.get_by_role("button", name="Send")).to_be_hidden()
    page.get_by_role("button", name="Discard").tap()
    expect(page.locator("#terminal-unsent")).to_be_hidden()
