"""The parts in a real browser, under the strict policy: deciding, reading, refreshing, themes and widths."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.staticfiles import finders
from django.http import HttpResponse
from django.template import engines
from django.urls import path as at

from dashboard.web.navigation import ENTRIES, STOP
from tests.dashboard.frontend import styleguide

POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-n'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
ROWS = """{{% extends "base.html" %}}{{% block title %}}Rows{{% endblock %}}{{% block main %}}<h1>Rows</h1>
<ul class="rows" id="rows" data-live-list>{}</ul>{{% endblock %}}"""
PART = """{{% extends "base.html" %}}{{% block title %}}Part{{% endblock %}}{{% block main %}}<h1>Part</h1>
<section id="part" data-live>{}<p><button id="press">Press</button></p>
<div class="long" tabindex="0">{}</div><p class="words">some words to select</p>
<details><summary>Second</summary>inside</details>
<label>Name <input name="name" value="server"></label><label><input type="checkbox" name="tick"> Tick</label>
<select name="pick"><option>one<option>two</select><textarea name="note">a note</textarea>
<dialog id="ask"><button>Yes</button></dialog></section>
<div class="bar" id="bar" data-live data-version="{}" data-steps><div data-step-main>
<a class="button" href="#" data-step="deny">Deny…</a> {}</div>
<template data-step-for="deny"><textarea aria-label="Why"></textarea><button data-decide>Deny</button></template></div>
{{% endblock %}}"""

# All pages of the navigation, whichever exist in this release.
urlpatterns = [at(place.path.lstrip("/"), lambda request: HttpResponse()) for place in [*ENTRIES, STOP]]


class Site:
    """One page of rows that a test changes, and the style guide; `upto` is where the feed stands."""

    def __init__(self):
        self.rows, self.upto = ["first", "second"], 1
        self.news, self.version, self.asked = "", 1, "Asked."

    def answer(self, path: str, query: str) -> tuple[bytes, str]:
        if path == "/live":
            return f'{{"upto": {self.upto}}}'.encode(), "application/json"
        if path.startswith(settings.STATIC_URL):
            found = finders.find(path.removeprefix(settings.STATIC_URL))
            return Path(found).read_bytes(), guess_type(found)[0] or "application/octet-stream"
        context = {"csp_nonce": "n", "cursor": self.upto, "csrf_token": "t", "nav": "desk", "theme": query}
        if path == "/rows":
            rows = "".join(f'<li class="row" id="r-{row.split()[0]}"><div>{row}</div></li>' for row in self.rows)
            return engines["django"].from_string(ROWS.format(rows)).render(context).encode(), "text/html"
        if path == "/part":
            text = PART.format(self.news, "line<br>" * 200, self.version, self.asked)
            return engines["django"].from_string(text).render(context).encode(), "text/html"
        return styleguide.page(**context).encode(), "text/html"


@pytest.fixture
def site(settings):
    settings.ROOT_URLCONF = __name__
    pages = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path, _, query = self.path.partition("?")
            if path.startswith("/ws/"):
                self.send_error(404)
                return
            body, kind = pages.answer(path, query)
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text/") else kind)
            self.send_header("Content-Security-Policy", POLICY)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    pages.address = f"http://127.0.0.1:{server.server_port}"
    yield pages
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def page(chromium):
    page = chromium.new_page(viewport={"width": 390, "height": 844})
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda said: page.complaints.append(said.text) if "Security Policy" in said.text else None)
    yield page
    page.close()


def ready(page, address: str):
    page.goto(address)
    page.wait_for_selector("[data-resting]", state="detached")


def test_the_second_step_takes_taps_only_after_a_pause(site, page):
    ready(page, f"{site.address}/styleguide/")
    page.click("#sg-bar [data-step=approve]")
    yes = page.locator("#sg-bar .bar-step button.primary")
    assert yes.inner_text() == "Confirm: approve"
    assert yes.get_attribute("aria-disabled") == "true"
    page.wait_for_selector("#sg-bar .bar-step [aria-disabled]", state="detached")
    page.keyboard.press("Escape")
    assert page.locator("#sg-bar [data-step-main]").is_visible()
    assert page.complaints == []


def test_a_long_text_is_read_to_its_end_before_approve_is_on(site, page):
    ready(page, f"{site.address}/styleguide/")
    approve = page.locator("#sg-bar2 [data-step=approve]")
    assert approve.get_attribute("aria-disabled") == "true"
    page.click("#sg-card-2 .code-fold summary")
    page.wait_for_timeout(300)
    assert approve.get_attribute("aria-disabled") == "true"
    page.locator("#sg-card-2 .fold-end").scroll_into_view_if_needed()
    page.wait_for_selector("#sg-bar2 [data-step=approve][aria-disabled]", state="detached")


def test_what_the_page_shows_decodes_back_to_the_exact_bytes(site, page):
    ready(page, f"{site.address}/styleguide/")
    found = page.evaluate(
        """async () => {
            const { exactBytes } = await import("/static/js/copy.js");
            const blocks = [...document.querySelectorAll(".code")].filter((b) => b.textContent.includes("60 ways"));
            return [...exactBytes(blocks[0].querySelector(".exact"))];
        }"""
    )
    assert bytes(found) == styleguide.HOSTILE


def test_new_rows_at_the_end_come_in_and_others_wait_behind_a_button(site, page):
    ready(page, f"{site.address}/rows")

    def rows():
        return page.locator("#rows > li").all_inner_texts()

    site.rows, site.upto = ["first", "second changed", "third"], 2
    page.wait_for_selector("#r-third", timeout=10_000)
    assert rows() == ["first", "second changed", "third"]

    site.rows, site.upto = ["zeroth", "second changed", "third"], 3
    page.wait_for_selector("#rows-new", timeout=10_000)
    assert page.inner_text("#rows-new") == "1 new"
    assert rows() == ["first", "second changed", "third"]
    assert page.locator("#r-first").get_attribute("data-gone") == ""
    page.click("#rows-new")
    assert rows() == ["zeroth", "second changed", "third"]
    assert page.complaints == []


def test_a_row_that_comes_back_unchanged_is_no_longer_faded(site, page):
    ready(page, f"{site.address}/rows")
    for upto, rows in ((2, ["second"]), (3, ["first", "second"])):
        site.rows, site.upto = rows, upto
        gone = "attached" if upto == 2 else "detached"
        page.wait_for_selector("#r-first[data-gone]", state=gone, timeout=10_000)


def test_a_fold_that_the_viewer_opened_opens_none_of_another_row(site, page):
    """The folds of a list often have the same words."""
    fold = "<details><summary>Details</summary>inside</details>"
    site.rows = [f"first {fold}", f"second {fold}", f"third {fold}"]
    ready(page, f"{site.address}/rows")

    def opened():
        return page.eval_on_selector_all("#rows > li", "rows => rows.map((row) => row.querySelector('details').open)")

    page.click("#r-second summary")
    site.rows, site.upto = [f"first changed {fold}", f"second changed {fold}", f"third {fold}", f"fourth {fold}"], 2
    page.wait_for_selector("#r-fourth", timeout=10_000)
    assert opened() == [False, True, False, False]

    site.rows, site.upto = [f"zeroth {fold}", *site.rows], 3
    page.click("#rows-new", timeout=10_000)
    assert opened() == [False, False, True, False, False]
    assert page.complaints == []


DO = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(".long { height: 100px; overflow: auto }");
    document.adoptedStyleSheets = [sheet];
    const part = document.getElementById("part");
    part.querySelector(".long").scrollTop = 321;
    part.querySelector("details").open = true;
    part.querySelector("[name=name]").value = "typed";
    part.querySelector("[name=note]").value = "typed too";
    part.querySelector("[name=tick]").checked = true;
    part.querySelector("[name=pick]").value = "two";
    getSelection().selectAllChildren(part.querySelector(".words"));
}"""
SEEN = """() => {
    const part = document.getElementById("part");
    const value = (name) => part.querySelector(`[name=${name}]`).value;
    return {
        scroll: part.querySelector(".long").scrollTop,
        open: [...part.querySelectorAll("details")].map((one) => [one.textContent, one.open]),
        fields: [value("name"), value("note"), value("pick"), part.querySelector("[name=tick]").checked],
        selected: String(getSelection()),
    };
}"""


def test_what_the_viewer_did_stays_when_the_page_changes(site, page):
    ready(page, f"{site.address}/part")
    page.evaluate(DO)
    site.news, site.upto = "<details><summary>First</summary>new</details>", 2
    page.wait_for_selector("#part details >> text=First", timeout=10_000)
    assert page.evaluate(SEEN) == {
        "scroll": 321,
        "open": [["Firstnew", False], ["Secondinside", True]],
        "fields": ["typed", "typed too", "two", True],
        "selected": "some words to select",
    }
    assert page.complaints == []


@pytest.mark.parametrize("focused", ["#press", "[name=note]"])
def test_the_focus_stays_on_its_element(site, page, focused):
    ready(page, f"{site.address}/part")
    page.focus(f"#part {focused}")
    node = page.evaluate_handle("document.activeElement")
    site.news, site.upto = "<p>News</p>", 2
    page.wait_for_selector("#part >> text=News", timeout=10_000)
    assert page.evaluate("(node) => node.isConnected && node === document.activeElement", node)


def test_an_open_dialog_stays_open(site, page):
    ready(page, f"{site.address}/part")
    page.evaluate("document.getElementById('ask').showModal()")
    site.news, site.upto = "<p>News</p>", 2
    page.wait_for_selector("#part >> text=News", state="attached", timeout=10_000)
    assert page.locator("dialog:modal").count() == 1


def test_an_open_step_stays_until_what_is_decided_has_changed(site, page):
    ready(page, f"{site.address}/part")
    page.click("#bar [data-step=deny]")
    page.fill("#bar textarea", "half a thought")
    site.asked, site.upto = "Asked again.", 2
    page.wait_for_selector("#bar >> text=Asked again.", state="attached", timeout=10_000)
    assert page.input_value("#bar textarea") == "half a thought"
    assert not page.locator("#bar [data-step-main]").is_visible()
    page.wait_for_selector("#bar .bar-step [aria-disabled]", state="detached")
    site.version, site.upto = 2, 3
    page.wait_for_selector("#bar textarea", state="detached", timeout=10_000)
    assert page.locator("#bar [data-step-main]").is_visible()
    assert page.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_screen_and_the_policy_holds(site, page, width, theme):
    page.set_viewport_size({"width": width, "height": 844})
    ready(page, f"{site.address}/styleguide/?{theme}")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == theme
    assert page.complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_serious_axe_violation(site, page, theme):
    ready(page, f"{site.address}/styleguide/?{theme}")
    found = Axe().run(page).response["violations"]
    serious = [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]
    assert serious == []
