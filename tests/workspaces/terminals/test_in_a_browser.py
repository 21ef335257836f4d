"""Terminals in a real Chromium: typing, touch, escape sequences that must do nothing, and a line that breaks."""

import asyncio
import json
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect

from tests.support.chromium import fetch
from tests.support.desk import Desk
from tests.workspaces.terminals.screens import DESKTOP, PHONE, SPOKEN, ready, serious, shows, typed_by
from tests.workspaces.terminals.viewers import Viewer


def test_a_shell_is_opened_typed_into_and_ended(person, place):
    page = person("lead")
    page.goto(f"/w/main/{place}/terminals/")
    page.get_by_role("button", name="Open", exact=True).click()
    page.wait_for_selector("[data-state=live]")
    expect(page.locator("#terminal-state")).to_have_text("Connected")
    expect(page.locator("textarea.xterm-helper-textarea")).to_be_focused()
    page.keyboard.type("echo $((6*7))ok; stty size\n")
    shows(page, "42ok")
    rows, cols = re.search(r"(\d+) (\d+)\n", page.evaluate(SPOKEN)[page.evaluate(SPOKEN).index("42ok\n") :]).groups()
    assert (int(cols) > 100, int(rows) > 25) == (True, True)  # the window gives the size, not 80 by 24
    page.keyboard.type("exit 5\n")
    expect(page.locator("#terminal-state")).to_have_text("Exited (5).")
    assert serious(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_it_fits_the_screen_in_both_themes_and_nothing_is_serious(person, opened, at, size, scheme):
    page = ready(person("lead", scheme, **size), at(opened("printf '\\033[31mred\\033[0m'; sleep 60")))
    shows(page, "red")
    width, height = size["viewport"]["width"], size["viewport"]["height"]
    assert page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]") == [
        width,
        height,
    ]
    assert page.locator("#terminal-keys").is_visible() == (size is PHONE)
    assert serious(page) == []
    ground = page.evaluate("getComputedStyle(document.getElementById('terminal-screen')).backgroundColor")
    assert ground == {"light": "rgb(236, 234, 227)", "dark": "rgb(15, 19, 18)"}[scheme]


def test_the_keys_of_a_touch_screen(person, opened, at):
    """Arrows in both cursor-key modes, Tab, Shift Tab, Esc, ^C and the sticky Ctrl, as a program reads them."""
    command = "stty raw -echo; printf 'ready '; head -c 19 | xxd -p -c 99; printf '\\033[?1h go '; head -c 3 | xxd -p"
    page = ready(person("lead", **PHONE), at(opened(f"{command}; sleep 60")))
    shows(page, "ready")
    for name in ("Esc", "Tab", "Shift Tab", "Control C", "Up", "Down", "Left", "Right"):
        page.get_by_role("button", name=name, exact=True).tap()
    expect(page.locator("[data-send=ctrl]")).to_have_attribute("aria-pressed", "false")
    page.locator("[data-send=ctrl]").tap()
    expect(page.locator("[data-send=ctrl]")).to_have_attribute("aria-pressed", "true")
    page.locator("textarea.xterm-helper-textarea").press_sequentially("a")
    expect(page.locator("[data-send=ctrl]")).to_have_attribute("aria-pressed", "false")
    shows(page, "1b091b5b5a031b5b411b5b421b5b441b5b4301")
    shows(page, "go")
    page.get_by_role("button", name="Up", exact=True).tap()
    shows(page, "1b4f41")


ESCAPES = [
    b"\x1b]52;c;c3RvbGVu\x07",  # the clipboard
    b"\x1b]52;c;?\x07",
    b"\x1b]0;owned\x07\x1b]2;owned\x1b\\",  # the title
    b"\x1b[21t\x1b[20t\x1b[18t\x1b[14t",  # reports of title and size
    b"\x1b[c\x1b[>c\x1b[=c\x1b[5n\x1b[6n\x1b[?6n\x1b[>q",  # DA, DSR, version
    b"\x1b]10;?\x07\x1b]11;?\x07\x1b]12;?\x07\x1b]4;1;?\x07",  # colours
    b'\x1bP$q"p\x1b\\\x1bP+q544e\x1b\\\x1b[?2026$p\x1b[4$p',  # DECRQSS, termcap, modes
    b"\x1b]8;;javascript:alert(1)\x07run\x1b]8;;\x07 \x1b]8;;https://evil.example/\x07click\x1b]8;;\x07",
    b"\x1bPq#0;2;0;0;0#0~~@@vv@@~~$-\x1b\\",  # sixel
    b"\x1b[?1004h\x1b[?1000h\x1b[?1003h\x1b[?1006h",  # focus and mouse
    b"\x05\x1bZ\x1b[x",  # answer-back, DECID, DECREQTPARM
    b"\x1b[31m DONE \x1b]0;and no end",
]


def type_go(product, lead, terminal):
    """Somebody else types, over the API."""

    async def main():
        async with Viewer(product, lead.token, terminal) as other:
            await other.sees(b"ready")
            await other.type(b"go")
            await other.rests(0.3)

    # Playwright has a loop of its own in this thread.
    with ThreadPoolExecutor(1) as elsewhere:
        elsewhere.submit(asyncio.run, main()).result()


@pytest.fixture
def escaping(product, lead, place, opened):
    body = b"".join(ESCAPES)
    answer = product.call("PUT", f"/api/v1/workspaces/{place}/files/escapes", lead.token, body)
    assert answer.status in (200, 201, 204), answer.text
    return opened(
        "stty raw -echo; printf 'ready\\r\\n'; head -c 2 >/dev/null; cat escapes;"
        " timeout --foreground 3 cat > typed; printf '\\033\\\\ OVER'; sleep 60"
    )


def test_escapes_make_an_observer_say_nothing(person, product, lead, place, escaping, at):
    vera = ready(person("viewer"), at(escaping))
    shows(vera, "ready")
    title = vera.title()
    vera.evaluate("navigator.clipboard.writeText('before')")
    type_go(product, lead, escaping)
    shows(vera, "DONE")
    vera.mouse.move(600, 300)
    vera.mouse.down()
    vera.mouse.up()
    vera.keyboard.type("rm -rf /\n")
    vera.evaluate("window.dispatchEvent(new Event('blur'))")
    shows(vera, "OVER")
    assert typed_by(vera) == []
    assert lead.get(f"/workspaces/{place}/files/typed").body == b""
    assert vera.evaluate("navigator.clipboard.readText()") == "before"
    assert (vera.title(), vera.url) == (title, product.desk + at(escaping))
    assert len(vera.context.pages) == 1


def test_of_two_who_may_type_one_answers_what_the_program_asks(person, product, lead, place, opened, at):
    terminal = opened(
        "stty raw -echo; printf 'ready\\r\\n'; head -c 2 >/dev/null; printf '\\033[5n\\033[c\\033[5n';"
        " timeout --foreground 3 cat > typed; printf OVER; sleep 60"
    )
    pages = [ready(person("lead"), at(terminal)) for _ in range(2)]
    for page in pages:
        shows(page, "ready")
    pages[1].bring_to_front()
    pages[1].locator("textarea.xterm-helper-textarea").focus()
    pages[1].keyboard.type("go")
    for page in pages:
        shows(page, "OVER")
    assert lead.get(f"/workspaces/{place}/files/typed").body == b"\x1b[0n\x1b[?1;2c\x1b[0n"


def test_a_page_that_is_loaded_again_does_not_answer_old_questions(person, lead, place, opened, at):
    terminal = opened(
        "stty raw -echo; printf '\\033[5n asked'; head -c 4 > first; timeout --foreground 4 cat > typed; sleep 60"
    )
    page = ready(person("lead"), at(terminal))
    shows(page, "asked")
    ready(page, at(terminal))
    shows(page, "asked")
    page.wait_for_timeout(500)
    assert lead.get(f"/workspaces/{place}/files/first").body == b"\x1b[0n"
    assert lead.get(f"/workspaces/{place}/files/typed").body == b""


def test_a_link_opens_only_after_its_address_was_read(person, opened, at):
    page = ready(person("viewer"), at(opened("printf 'see https://example.invalid/x\\r\\n'; sleep 60")))
    shows(page, "example.invalid")
    box = page.locator(".xterm-screen").bounding_box()
    page.mouse.move(box["x"] + 8 * 10, box["y"] + 10)
    page.wait_for_timeout(300)
    page.mouse.click(box["x"] + 8 * 10, box["y"] + 10)
    expect(page.locator("#terminal-address")).to_have_text("https://example.invalid/x")
    page.get_by_role("button", name="Cancel").click()
    assert len(page.context.pages) == 1


def test_web_and_runner_are_killed_and_the_page_goes_on(person, product, opened, at):
    page = ready(person("lead"), at(opened("cat -n")))
    page.keyboard.type("one\n")
    shows(page, "1\tone".expandtabs()[-3:])
    for name in ("web", "runner"):
        os.kill(product.part_pid(name), signal.SIGKILL)
    expect(page.locator("#terminal-state")).to_have_text("Reconnecting…")
    page.keyboard.type("two\n")
    expect(page.locator("#terminal-state")).to_have_text("Connected", timeout=60_000)
    if page.locator("#terminal-unsent").is_visible():  # it took long: what was typed meanwhile waits for a word
        page.get_by_role("button", name="Send").click()
    page.keyboard.type("three\n")
    # Rows are read out one by one and anew when they change: what was looked at is what is compared.
    whole = f"() => {{ const text = {SPOKEN}; return /2\\s+two[^]*3\\s+three/.test(text) && text; }}"
    text = page.wait_for_function(whole, timeout=20_000).json_value()
    assert [line.split() for line in text.splitlines() if re.match(r"\s+\d", line)] == [
        ["1", "one"],
        ["2", "two"],
        ["3", "three"],
    ]
    product.wait_for("/readyz", within=60)


def test_a_recording_is_played_searched_and_moved_about_in(person, product, opened, at, lead, place):
    page = person("viewer")
    terminal = opened("for i in 1 2 3 4; do echo step $i; sleep 0.2; done")
    ready(page, at(terminal))
    expect(page.locator("#terminal-state")).to_have_text("Exited (0).")
    page.goto(at(terminal, "recording/"))
    page.wait_for_selector("[data-loaded]")
    shows(page, "step 4")  # it opens on its last frame
    expect(page.locator("#terminal-state")).to_have_text("The end of the recording")
    page.select_option("#terminal-player select", "5")
    page.get_by_role("button", name="Play", exact=True).click()
    shows(page, "step 4")
    expect(page.locator("#terminal-state")).to_have_text("The end of the recording")
    events = [json.loads(line) for line in fetch(page, product, at(terminal, "cast/")).text().splitlines()[1:]]
    second = next(time for time, kind, text in events if kind == "o" and "step 2" in text)
    moment = round(second + 0.05, 2)
    printed = "".join(text for time, kind, text in events if kind == "o" and time <= moment).count("step ")
    page.locator("#terminal-player input").fill(f"{moment:.2f}")
    page.wait_for_function(f"() => !({SPOKEN}).includes('step 4')")
    shows(page, "step 2")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("searchbox", name="Search in the terminal").press_sequentially("step")
    expect(page.locator("#terminal-found")).to_have_text(re.compile(rf"\d of {printed}$"))  # 2, on a machine with time
    assert serious(page) == []


def test_text_is_copied_by_key_and_on_a_phone(person, opened, at):
    terminal = opened("echo first line; echo second line; sleep 60")
    page = ready(person("lead"), at(terminal))
    shows(page, "second line")
    page.evaluate("document.querySelector('textarea.xterm-helper-textarea').focus()")
    box = page.locator(".xterm-screen").bounding_box()
    page.mouse.dblclick(box["x"] + 12, box["y"] + 8)  # the word there
    page.keyboard.press("Control+Shift+C")
    page.wait_for_function("async () => (await navigator.clipboard.readText()) === 'first'")
    assert typed_by(page) == []
    phone = ready(person("lead", **PHONE), at(terminal))
    shows(phone, "second line")
    phone.get_by_role("button", name="Copy", exact=True).tap()
    expect(phone.locator("#terminal-plain")).to_have_text("first line\nsecond line")
    assert phone.evaluate("getComputedStyle(document.getElementById('terminal-plain')).userSelect") == "text"
    phone.get_by_role("button", name="Copy all").tap()
    expect(phone.locator("#terminal-copied")).to_have_text("Copied.")


def test_an_ended_terminal_offers_a_new_one(person, opened, at):
    page = ready(person("lead"), at(opened("echo once")))
    page.get_by_role("button", name="Open another").click()
    page.wait_for_selector("[data-state=over]")
    shows(page, "once")
    viewer = ready(person("viewer"), at(opened("echo once")))
    expect(viewer.get_by_role("button", name="Open another")).to_have_count(0)


def test_from_an_action_to_its_place_in_the_recording_and_back(person, product, lead):
    agent = Desk(product, product.agent_token("asks-in-a-terminal"))
    key = agent.create()["key"]
    argv = ["bash", "-c", "echo before; read -r; echo after; sleep 0.5"]
    terminal = lead.post(f"/workspaces/{key}/terminals", {"argv": argv}).json["id"]
    page = person("lead")
    ready(page, f"/w/main/{key}/terminals/{terminal}/")
    shows(page, "before")
    ask = {"tool": "Bash", "arguments": {"command": "git push"}, "mode": "gate", "workspace": key}
    asked = agent.post("/actions", ask).json
    page.wait_for_timeout(300)
    page.locator("textarea.xterm-helper-textarea").focus()
    page.keyboard.type("\n")
    expect(page.locator("#terminal-state")).to_have_text("Exited (0).")
    page.goto(f"/actions/{asked['id']}/")
    page.keyboard.press("t")
    page.wait_for_selector("[data-loaded]")
    expect(page.locator("#terminal-state")).to_have_text("Paused")
    shows(page, "before")
    assert "after" not in page.evaluate(SPOKEN)
    page.locator("#terminal-player input").fill("100")
    shows(page, "after")
    page.locator("#terminal-asked summary").click()
    page.locator("#terminal-asked [data-at]").click()
    page.wait_for_function(f"() => !({SPOKEN}).includes('after')")
    page.locator("#terminal-asked summary").click()
    page.get_by_role("link", name=re.compile("^A-")).click()
    expect(page.locator("#card")).to_contain_text("git push")
