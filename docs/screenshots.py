"""Makes the pictures of README.md: a Handrail of its own, the demonstration in it, and real Chromium.

.venv/bin/python docs/screenshots.py          (needs the test environment: make setup-tests, and a Chromium)
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from tests.support.product import Product  # noqa: E402  the checkout is on the path only now

OUT = CHECKOUT / "docs" / "images"
CHROMIUM = "/usr/bin/chromium"
ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 800}
ASKED = [
    ("Bash", {"command": "git push origin HEAD:main && rm -rf build\u200b/"}, "The task is done; I push it now."),
    ("Edit", {"file_path": "/workspace/.github/workflows/ci.yml", "old_string": "", "new_string": "on: push\n"}, ""),
    ("Bash", {"command": "rm -rf templates static"}, "Both look unused."),
]


def ask(product: Product, token: str, key: str) -> list[dict]:
    answers = []
    for tool, arguments, reasoning in ASKED:
        wish = {"workspace": key, "tool": tool, "arguments": arguments, "mode": "broker", "reasoning": reasoning}
        answers.append(product.post("/api/v1/actions", token, wish).json)
    return answers


def pictures(product: Product, browser, sign_in: str, key: str, waiting: list[dict]):
    pages = [
        ("desk", "/", DESKTOP, "light"),
        ("card", f"/actions/{waiting[0]['id']}/", PHONE, "light"),
        ("waiting", "/waiting/", PHONE, "dark"),
        ("changes", f"/w/main/{key}/changes/", DESKTOP, "dark"),
        ("timeline", f"/w/main/{key}/", DESKTOP, "light"),
    ]
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.goto(sign_in)
    page.click("main button")
    page.wait_for_load_state()
    for name, address, size, scheme in pages:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        page.goto(product.url + address)
        page.wait_for_load_state("networkidle")  # what a card would do comes after it
        page.wait_for_timeout(1500)
        page.screenshot(path=OUT / f"{name}.png")
        print(OUT / f"{name}.png")
    context.close()


def main():
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="handrail-pictures-") as home:
        product = Product(Path(home) / "home")
        try:
            product.start()
            sign_in = product.first_sign_in_url()
            done = product.manage("demo", "--unattended")
            if done.returncode:
                sys.exit(done.stdout + done.stderr)
            token = product.agent_token("demo agent")
            key = product.get("/api/v1/workspaces", token).json["workspaces"][0]["key"]
            waiting = ask(product, token, key)
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
                pictures(product, browser, sign_in, key, waiting)
                browser.close()
        finally:
            product.clean_up()


if __name__ == "__main__":
    main()
