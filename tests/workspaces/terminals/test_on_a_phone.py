"""A terminal under a thumb, in a real Chromium with the profile of a phone."""

import pytest
from playwright.sync_api import expect

from tests.workspaces.terminals.screens import PHONE, Thumb, ready, serious, shows, until_typed

BOX = "(element) => { const box = element.getBoundingClientRect(); return [box.width, box.height] }"
# The window has the size that there is room for; it opens with 24 lines.
FITS = """() => {
  const room = document.getElementById("terminal-screen").clientHeight;
  const taken = document.querySelector(".xterm-screen").clientHeight;
  return taken <= room && taken > room - 45;
}"""
TOP = "(element) => element.getBoundingClientRect().top"
SPOKEN_WHOLE = "document.querySelector('.xterm-accessibility-tree').innerText.replace(/\\s/g, '')"
TOP_LINE = "document.querySelector('.xterm-accessibility-tree').firstElementChild.innerText"


@pytest.fixture
def phone(person, opened, at):
    """`phone("cat")`: the page of a terminal that runs a shell command; it is told `ready` by the program."""

    def open_one(command, role="lead", **options):
        page = ready(person(role, **(PHONE | options)), at(opened(command)))
        shows(page, "ready")
        page.wait_for_function(FITS)
        return page

    return open_one


def key(page, name: str):
    return page.locator("#terminal-keys").get_by_role("button", name=name, exact=True)


def top_line(page, *, after: int | None = None) -> int:
    """The number on top of the screen, once it is another and stands still; what is read out follows by a second."""
    if after is not None:
        page.wait_for_function(f"() => Number({TOP_LINE}) !== {after}")
    page.wait_for_timeout(1500)
    return int(page.evaluate(TOP_LINE))


def reads(page, data: bytes):
    """Until the program has written these bytes, which it read, as hexadecimal numbers."""
    page.wait_for_function(f"() => {SPOKEN_WHOLE}.includes('{data.hex()}')", timeout=20_000)


def keyboard(page):
    return page.locator("textarea.xterm-helper-textarea")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (390, 470), (320, 568), (844, 390), (195, 422)])
def test_every_key_is_large_enough_and_nothing_leaves_the_page(phone, width, height):
    """Upright, above the soft keyboard, on a small phone, on its side, and at twice the size."""
    page = phone("echo ready; sleep 60", viewport={"width": width, "height": height})
    buttons = page.locator("#terminal-keys button:visible, .terminal-tools button:visible").all()
    sizes = [button.evaluate(BOX) for button in buttons]
    assert len(buttons) == 18
    assert [size for size in sizes if min(size) < 44] == []
    assert page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]") == [
        width,
        height,
    ]
    row = page.locator("#terminal-keys").bounding_box()
    assert round(row["y"] + row["height"]) == height  # at the lower edge, above what covers the rest of the phone
    assert page.locator("#terminal-screen").bounding_box()["height"] > height / 4
    last = key(page, "Right")
    last.scroll_into_view_if_needed()
    expect(last).to_be_in_viewport(ratio=1)


def test_the_keys_stay_above_a_keyboard_that_covers_the_page(phone):
    """As on an iPhone, where the page keeps its height and only what is seen of it gets smaller."""
    page = phone("echo ready; sleep 60")
    page.evaluate("""() => {
      Object.defineProperty(visualViewport, "height", { value: 508, configurable: true });
      visualViewport.dispatchEvent(new Event("resize"));
    }""")
    row = page.locator("#terminal-keys").bounding_box()
    assert round(row["y"] + row["height"]) == 508
    page.evaluate("navigator.clipboard.writeText('two\\nlines')")
    key(page, "Paste").tap()
    dialog = page.get_by_role("dialog").bounding_box()
    assert (round(dialog["y"] + dialog["height"]), dialog["y"] >= 0) == (508, True)


def test_a_zoom_by_two_fingers_leaves_the_terminal_its_size(phone):
    page = phone("echo ready; sleep 60")
    before = page.locator("#terminal-screen").bounding_box()["height"]
    page.context.new_cdp_session(page).send("Emulation.setPageScaleFactor", {"pageScaleFactor": 2})
    page.wait_for_function("() => visualViewport.scale === 2")
    page.wait_for_timeout(300)
    assert page.evaluate("document.getElementById('terminal-screen').offsetHeight") == round(before)


def test_no_field_is_so_small_that_a_phone_zooms_in_on_it(phone):
    page = phone("echo ready; sleep 60")
    fields = page.locator("[data-terminal] :is(input:not([type=hidden]), textarea), dialog textarea")
    assert fields.count() >= 3
    assert [
        size
        for size in fields.evaluate_all("(all) => all.map((one) => parseFloat(getComputedStyle(one).fontSize))")
        if size < 16
    ] == []


def test_ctrl_is_for_one_key_or_until_it_is_let_go(phone):
    page = phone("stty raw -echo; printf ready; head -c 9 | xxd -p -c 99; sleep 60")
    ctrl = page.locator("[data-send=ctrl]")
    typing = keyboard(page)
    ctrl.tap()
    expect(ctrl).to_have_attribute("aria-pressed", "true")
    typing.press_sequentially("ab")
    expect(ctrl).to_have_attribute("aria-pressed", "false")
    ctrl.tap()
    ctrl.tap()
    expect(ctrl).to_have_accessible_name("Ctrl, locked")
    typing.press_sequentially("ab")
    key(page, "Slash").tap()
    expect(ctrl).to_have_attribute("aria-pressed", "true")
    ctrl.tap()
    expect(ctrl).to_have_attribute("aria-pressed", "false")
    expect(ctrl).to_have_accessible_name("Ctrl")
    typing.press_sequentially("a")
    for name in ("Pipe", "Tilde", "Dash"):
        key(page, name).tap()
    shows(page, "016201021f617c7e2d")


def test_an_arrow_that_is_held_repeats_and_a_tap_is_one(phone):
    page = phone("stty raw -echo; printf ready; head -c 12 | xxd -p -c 99; sleep 60")
    key(page, "Left").tap()
    Thumb(page).hold(key(page, "Up"), 1500)
    key(page, "Esc").tap()
    shows(page, "1b5b441b5b411b5b411b5b41")


def test_a_tap_on_a_key_leaves_the_keyboard_open(phone):
    page = phone("echo ready; cat")
    keyboard(page).focus()
    for name in ("Up", "Tab", "Ctrl"):
        key(page, name).tap()
        expect(keyboard(page)).to_be_focused()


def test_a_thumb_scrolls_what_was_printed_and_not_the_page(phone):
    page = phone("seq 1 500; echo ready; sleep 60")
    end = page.get_by_role("button", name="To the end")
    expect(end).to_be_hidden()
    top = top_line(page)
    Thumb(page).swipe(170)
    expect(end).to_be_visible()
    moved = top - top_line(page, after=top)
    line = page.evaluate("document.querySelector('.xterm-screen').clientHeight") / page.evaluate(
        "document.querySelector('.xterm-accessibility-tree').childElementCount"
    )
    assert abs(moved - 170 / line) <= 1.5, moved
    assert page.evaluate("[scrollY, visualViewport.offsetTop]") == [0, 0]
    assert serious(page) == []
    end.tap()
    expect(end).to_be_hidden()
    assert top_line(page, after=top - moved) == top


def test_a_quick_thumb_goes_on_and_stands_still_where_less_motion_is_wished(phone):
    moved = {}
    for wish in ("no-preference", "reduce"):
        page = phone("seq 1 900; echo ready; sleep 60", reduced_motion=wish)
        top = top_line(page)
        Thumb(page).swipe(200, rest_ms=0)
        page.wait_for_timeout(1200)
        moved[wish] = top - top_line(page, after=top)
    assert 8 <= moved["reduce"] <= 14
    assert moved["no-preference"] > moved["reduce"] + 5


def test_on_the_alternate_screen_a_thumb_is_what_the_program_wants(phone):
    page = phone(
        "stty raw -echo; printf '\\033[?1049h\\033[?1h\\033[Hready'; head -c 6 | xxd -p;"
        # Bytes are printed one by one, as an arrow of the first swipe may still arrive before the wheel event.
        " printf '\\033[?1000h\\033[?1006h go '; while byte=$(head -c 1 | xxd -p) && [ $byte ]; do printf $byte; done"
    )
    Thumb(page).swipe(60)
    shows(page, "1b4f411b4f41")
    shows(page, "go")
    Thumb(page).swipe(-60)
    shows(page, "1b5b3c36353b")  # CSI < 65 ; the wheel, downwards
    expect(page.get_by_role("button", name="To the end")).to_be_hidden()


def test_a_thumb_reaches_all_of_a_terminal_that_is_larger_than_the_phone(person, opened, at):
    terminal = opened("seq 1 60; printf ready; sleep 60", cols=60, rows=60)
    page = ready(person("viewer", **PHONE), at(terminal))
    shows(page, "ready")
    place = "document.getElementById('terminal-screen').scrollTop"
    page.wait_for_function(f"() => {place} > 50")  # it opens where the program writes
    for _ in range(3):
        Thumb(page).swipe(300)
    page.wait_for_function(f"() => {place} === 0")
    page.get_by_role("button", name="To the end").tap()
    page.wait_for_function(f"() => {place} > 50")


def test_the_size_of_letters_is_kept_on_this_device(phone):
    page = phone("echo ready; sleep 60")
    rows = "document.querySelector('.xterm-accessibility-tree').childElementCount"
    before = page.evaluate(rows)
    for _ in range(3):
        page.get_by_role("button", name="Larger letters").tap()
    page.wait_for_function(f"() => {rows} < {before}")
    page.wait_for_timeout(1500)  # of three steps it may have been the first
    larger = page.evaluate(rows)
    page.reload()
    page.wait_for_selector("[data-state=live]")
    page.wait_for_function(f"() => {rows} === {larger}")
    for _ in range(3):
        page.get_by_role("button", name="Smaller letters").tap()
    page.wait_for_function(f"() => {rows} === {before}")


def test_a_thumb_that_rests_opens_the_text_where_the_screen_is(phone):
    page = phone("seq 1 500; echo ready; sleep 60")
    before = top_line(page)
    Thumb(page).swipe(300)
    top = str(top_line(page, after=before))
    Thumb(page).hold(page.locator("#terminal-screen"), 1500)
    text = page.locator("#terminal-plain")
    expect(text).to_be_visible()
    expect(keyboard(page)).not_to_be_focused()
    assert text.locator("span").text_content().split("\n")[0] == top
    tops = [text.evaluate(TOP), text.locator("span").evaluate(TOP)]
    assert abs(tops[1] - tops[0]) < 30  # it is on top of what is seen of the text
    button = page.locator("[data-tool=copy-all]")
    expect(button).to_have_text("Copy all")
    page.evaluate("""() => {
      const range = document.createRange();
      range.setStart(document.querySelector("#terminal-plain").firstChild, 0);
      range.setEnd(document.querySelector("#terminal-plain").firstChild, 3);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
    }""")
    expect(button).to_have_text("Copy selected")
    button.tap()
    expect(page.locator("#terminal-copied")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == "1\n2"
    assert serious(page) == []


def test_several_lines_are_shown_before_they_are_pasted(phone):
    page = phone("stty raw -echo; printf ready; head -c 13 | xxd -p -c 99; sleep 60")
    dialog = page.get_by_role("dialog")
    page.evaluate("navigator.clipboard.writeText('one')")
    key(page, "Paste").tap()
    until_typed(page, b"one")
    expect(dialog).to_have_count(0)
    page.evaluate("navigator.clipboard.writeText('two\\nand\\x1b[201~')")
    key(page, "Paste").tap()
    expect(dialog).to_have_accessible_name("Paste 2 lines?")
    expect(dialog).to_contain_text("Each line runs as soon as it is pasted.")
    assert serious(page) == []
    dialog.get_by_role("button", name="Cancel").tap()
    expect(dialog).to_have_count(0)
    key(page, "Paste").tap()
    dialog.get_by_label("Text to paste").fill("two\nfor")
    dialog.get_by_role("button", name="Paste 2 lines").tap()
    expect(dialog).to_have_count(0)
    keyboard(page).press_sequentially("end")
    reads(page, b"onetwo\rforend")


def test_a_bracketed_paste_stays_one_and_cannot_end_itself(phone):
    page = phone("stty raw -echo; printf '\\033[?2004hready'; head -c 25 | xxd -p -c 99; sleep 60")
    page.evaluate("navigator.clipboard.writeText('two\\nand\\x1b[201~x')")
    key(page, "Paste").tap()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The program is told that this is pasted")
    dialog.get_by_role("button", name="Paste 2 lines").tap()
    reads(page, b"\x1b[200~two\rand[201~x\x1b[201~")


def test_without_leave_to_read_the_clipboard_the_text_has_a_field(phone):
    page = phone("stty raw -echo; printf ready; head -c 3 | xxd -p; sleep 60", permissions=[])
    key(page, "Paste").tap()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_have_accessible_name("Paste into the terminal")
    expect(dialog.get_by_role("button", name="Paste")).to_be_disabled()
    field = dialog.get_by_label("Text to paste")
    expect(field).to_be_focused()
    field.fill("abc")
    dialog.get_by_role("button", name="Paste 1 line").tap()
    shows(page, "616263")


def test_text_that_the_phones_own_paste_brings_is_asked_about_too(phone):
    page = phone("echo ready; cat")
    keyboard(page).focus()
    page.evaluate("""() => {
      const data = new DataTransfer();
      data.setData("text/plain", "rm -rf one\\nrm -rf two\\n");
      const paste = new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true });
      document.querySelector("textarea.xterm-helper-textarea").dispatchEvent(paste);
    }""")
    expect(page.get_by_role("dialog")).to_have_accessible_name("Paste 2 lines?")
