"""Taps and seconds from a notification to the decision, and for fifty requests that are alike.

A finger that knows the way: it taps as soon as a button takes taps (400 ms after a change under it).
"""

import re
import time
from dataclasses import dataclass

from playwright.sync_api import Page, expect

from tests.support.product import Product

ALIKE = 50


@dataclass
class Way:
    """How somebody got to a decision: taps on the page, and seconds from the first page that they asked for."""

    taps: int
    seconds: float


class Finger:
    def __init__(self, page: Page):
        self.page, self.taps, self.began = page, 0, 0.0

    def start(self, address: str):
        self.taps, self.began = 0, time.monotonic()
        self.page.goto(address, wait_until="domcontentloaded")

    def tap(self, target):
        expect(target).to_be_enabled()
        self.page.locator("[data-resting]").first.wait_for(state="detached")
        target.tap()
        self.taps += 1

    def done(self) -> Way:
        return Way(self.taps, time.monotonic() - self.began)


def _status(product: Product, token: str, action: dict) -> str:
    return product.get(f"/api/v1/actions/{action['id']}", token).json["status"]


def _ask(product: Product, token: str, branch: str) -> dict:
    call = {"tool": "Bash", "arguments": {"command": f"git push origin HEAD:{branch}"}}
    return product.post("/api/v1/actions", token, call).json


def approve_from_notification(page: Page, product: Product, token: str) -> Way:
    """Open the card that a notification links to, and approve what can't be undone: its second step included."""
    asked = _ask(product, token, "from-a-notification")
    finger = Finger(page)
    finger.start(f"{product.desk}/actions/{asked['id']}/")
    finger.tap(page.locator("#bar").get_by_role("button", name=re.compile("^Approve")))
    finger.tap(page.locator("#bar").get_by_role("button", name=re.compile("^Confirm")))
    return _decided(finger, product, token, [asked], "approved")


def fifty_alike(page: Page, product: Product, token: str) -> Way:
    """Approve fifty pushes to branches from the list."""
    asked = [_ask(product, token, f"alike-{number}") for number in range(ALIKE)]
    finger = Finger(page)
    finger.start(f"{product.desk}/waiting/")
    page.locator(".row").last.scroll_into_view_if_needed()  # what asked last is last in the list, which loads its rest
    finger.tap(page.locator(".row.group", has_text=f"{ALIKE} × git push").get_by_role("link", name="Decide…"))
    finger.tap(page.locator("#bar").get_by_role("button", name="Approve…"))
    finger.tap(page.locator("#bar").get_by_role("button", name=f"Confirm: approve {ALIKE}"))
    return _decided(finger, product, token, asked, "approved")


def _decided(finger: Finger, product: Product, token: str, asked: list[dict], status: str) -> Way:
    """Wait for the last of them, and fail if one of the others has another status."""
    while _status(product, token, asked[-1]) == "pending":
        if time.monotonic() - finger.began > 60:
            raise SystemExit("the decision did not arrive")
        time.sleep(0.02)
    way = finger.done()
    found = {_status(product, token, action) for action in asked}
    if found != {status}:
        raise SystemExit(f"decided otherwise: {found}")
    return way
