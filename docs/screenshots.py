"""Makes the pictures of README.md: a Handrail of its own, the demonstration in it, and real Chromium.

.venv/bin/python docs/screenshots.py          (needs the test environment: make setup-tests, and a Chromium)
.venv/bin/python docs/screenshots.py --review FOLDER [--width 390] [--language de]
                                              every page with five agents at work and sixty actions that need approval,
                                              light and dark, whole and as the first screen, to be looked at
"""

import argparse
import re
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from tests.support import busy_desk  # noqa: E402  the checkout is on the path only now
from tests.support.product import Product  # noqa: E402

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


def every_page(product: Product, desk: busy_desk.BusyDesk) -> dict[str, str]:
    """Return {name: address} of the pages, with something on each."""
    made = made_in_a_workspace(product, desk)
    here, cards = "/w/main/web-shop/", {action["title"]: f"/actions/{action['id']}/" for action in desk.waiting}
    plain = ["", "waiting", "actions", "workspaces", "agents", "connect", "connect/phone", "policy", "policy/past"]
    plain += ["policy/edit", "log", "team", "environments", "environments/new", "secrets", "secrets/new", "storage"]
    plain += ["status", "me", "me/notifications", "more", "stop", "workspaces/new", "workspaces/trash", "accounts/2fa"]
    found = {name.replace("/", "-") or "desk": f"/{name}/" if name else "/" for name in plain}
    parts = ["", "changes", "files", "checks", "network", "snapshots", "terminals", "size", "delete"]
    found |= {f"workspace-{name or 'timeline'}": f"{here}{name}/" if name else here for name in parts}
    first = desk.waiting[0]["id"]
    found |= {f"card-{slug(part) or 'push'}": f"/actions/{first}/{part}" for part in CARD_PARTS}
    found |= {f"card-{slug(title)}": address for title, address in cards.items() if slug(title) in CARDS}
    found |= {f"allow-{slug(title)}": f"{address}allow/" for title, address in cards.items() if slug(title) in ALLOWED}
    found |= {f"edit-{slug(title)}": f"{address}edit/" for title, address in cards.items() if slug(title) in EDITED}
    found |= {"alike": f"/waiting/alike/{desk.waiting[-1]['id']}/", "search": "/search/?q=push", **made}
    return found


CARD_PARTS = ("", "edit/", "changes/", "ask/", "first/", "deny/", "approve/")
CARDS = {
    "refund-1-299-00-eur-on-ch-3pql9-stripe",
    "delete-rows-in-orders-psql",
    "run-a-command-that-handrail-can-t-read",
}
EDITED = {"post-a-message-to-payments-slack", "write-github-workflows-check-0-yml"}
ALLOWED = {"install-left-pad-1-0-0-npm", "post-a-message-to-payments-slack"}
CARDS |= {
    "download-a-script-from-example-org-and-run-it",
    "write-github-workflows-check-0-yml",
    "run-terraform-apply-remote",
    "answer-2-questions",
    "answer-4-questions",
    "review-a-plan",
}


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def made_in_a_workspace(product: Product, desk: busy_desk.BusyDesk) -> dict[str, str]:
    """Run something, change a file and answer some actions; return the addresses of what came of it."""
    token, person = desk.tokens["mia-claude"], product.person_token("rita", "admin")
    here = "/api/v1/workspaces/web-shop"
    command = product.post(f"{here}/commands", token, {"command": "seq 200; echo done"}).json
    terminal = product.post(f"{here}/terminals", token, {"argv": ["bash", "-c", "ls -la; git log; sleep 3600"]}).json
    product.call("PUT", f"{here}/files/cart.py", token, b"def total(items):\n    return round(sum(items), 2)\n")
    product.settled(f"/api/v1/commands/{command['id']}", token)
    product.post(f"{here}/snapshots", token, {"label": "before lunch"})
    product.settled(here, token)
    answered = {}
    for number, verdict in enumerate(("deny", "approve")):
        call = {"tool": "Bash", "arguments": {"command": f"git push origin HEAD:answered-{number}"}}
        action = product.post("/api/v1/actions", token, {"workspace": "web-shop"} | call).json
        body = {"verdict": verdict, "digest": action["digest"], "comment": "Not today." if verdict == "deny" else ""}
        product.post(f"/api/v1/actions/{action['id']}/decision", person, body)
        answered[f"card-answered-{verdict}"] = f"/actions/{action['id']}/"
    agent = product.shell("from dashboard.models import Agent; print(Agent.objects.get(name='mia-claude').pk)")
    product.post(f"/api/v1/actions/{desk.waiting[0]['id']}/tell", person, {"text": "Leave the prices alone."})
    return answered | {
        "agent-talk": f"/agents/{agent}/talk/",
        "command": f"/w/main/web-shop/commands/{command['id']}/",
        "terminal": f"/w/main/web-shop/terminals/{terminal['id']}/",
        "workspace-file": "/w/main/web-shop/files/?path=cart.py",
        "workspace-compared": "/w/main/web-shop/changes/?from=1&to=live",
        "workspace-snapshot": "/w/main/web-shop/snapshots/1/",
    }


def for_review(product: Product, sources: Path, out: Path, width: int, language: str):
    desk = busy_desk.fill(product, sources)
    pages = every_page(product, desk)
    out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGS)
        context = browser.new_context(viewport={"width": width, "height": 844 if width < 600 else 900}, locale=language)
        page = context.new_page()
        page.goto(product.sign_in_url("rita", "admin"))
        page.click("main button")
        page.wait_for_load_state()
        for name, address in pages.items():
            answer = page.goto(product.desk + address)
            page.wait_for_timeout(700)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(100)
                page.screenshot(path=out / f"{name}-{scheme}.png")
                page.screenshot(path=out / f"{name}-{scheme}-whole.png", full_page=True)
            print(answer.status, out / f"{name}-*.png", flush=True)
        browser.close()


def for_readme(product: Product):
    OUT.mkdir(exist_ok=True)
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


def main():
    parser = argparse.ArgumentParser(description="pictures of the pages")
    parser.add_argument("--review", metavar="FOLDER", type=Path, help="every page of a busy desk, into this folder")
    parser.add_argument("--width", type=int, default=PHONE["width"])
    parser.add_argument("--language", default="en", help="of the pages under review")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="handrail-pictures-", ignore_cleanup_errors=True) as home:
        sources = Path(home, "sources")
        product = Product(Path(home, "home"), **busy_desk.settings(sources))
        try:
            product.start()
            if options.review:
                for_review(product, sources, options.review, options.width, options.language)
            else:
                for_readme(product)
        finally:
            product.clean_up()


if __name__ == "__main__":
    main()
