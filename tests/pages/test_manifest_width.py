"""The comparison of two manifests fits on a desktop of 1280 px, whatever the values are: in a real browser."""

import shutil
from concurrent.futures import ThreadPoolExecutor

from playwright.sync_api import sync_playwright

from tests.support.chromium import ARGUMENTS
from workspaces.models import Manifest

STYLES = ("tokens", "base", "forms", "layout", "parts", "code", "pages")


def measured(html: str, styles: str) -> tuple[int, int]:
    """(how wide the table is, how wide its place is)"""
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_content(html)
        page.add_style_tag(content=styles)
        found = page.evaluate("(e => [e.scrollWidth, e.clientWidth])(document.querySelector('.table-scroll'))")
        browser.close()
    return tuple(found)


def test_long_values_wrap(workspace, alice, browser_of, read, settings, require):
    if not (shutil.which("chromium") or shutil.which("google-chrome")):
        require("browser", "there is no Chromium on this machine")
    long = {"repository": "https://git.example.org/" + "x" * 300, "tree": "ab" * 32, "git": {"sha": "cd" * 100}}
    Manifest.objects.filter(snapshot__number=1).update(body=long)
    Manifest.objects.filter(snapshot__number=2).update(body={name: f"{value} other" for name, value in long.items()})
    html = read(browser_of(alice), "/w/payments/repo-task-1/snapshots/1/")
    styles = "".join((settings.BASE_DIR / "static" / "css" / f"{name}.css").read_text() for name in STYLES)
    with ThreadPoolExecutor(1) as elsewhere:  # Playwright's loop must not run where Django asks the database
        wide, room = elsewhere.submit(measured, html, styles).result()
    assert (wide <= room, room > 600) == (True, True)
