"""The machine's own Chromium, without the parts that only somebody who sits before it would see."""

import shutil

import pytest
from playwright.sync_api import expect, sync_playwright

# Each window loads what would drop down from its address bar, and each page a process for the next one: three processes
# for a page instead of one.
UNSEEN = "WebUIOmniboxPopup,WebUIOmniboxAimPopup,SpareRendererForSitePerProcess"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
ARGUMENTS += ["--disable-sync", "--no-first-run", f"--disable-features={UNSEEN}"]

WAIT_MS = 60_000  # for what is expected of a page; Playwright's own five seconds are too few on a busy machine


@pytest.fixture(scope="module")
def chromium(require):
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        require("browser", "there is no Chromium on this machine")
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def fetch(page, product, address: str):
    """What the browser's person gets here, without a page; Playwright itself cannot look up the desk's name."""
    cookies = "; ".join(f"{cookie['name']}={cookie['value']}" for cookie in page.context.cookies())
    return page.request.get(product.url + address, headers=product.desk_host | {"Cookie": cookies}, max_redirects=0)
