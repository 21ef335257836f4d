"""What browser tests of terminals share: windows, a page that is ready, its text, a thumb, and a line to cut."""

import json
import re
import time

from axe_playwright_python.sync_playwright import Axe

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
SPOKEN = "document.querySelector('.xterm-accessibility-tree')?.innerText ?? ''"


def typed_by(page) -> list:
    """What the page sent that could reach a pty."""
    quiet = ("ack", "resize", "alive")
    return [data for data in page.sent if isinstance(data, bytes) or json.loads(data)["type"] not in quiet]


def until_typed(page, data: bytes):
    """Wait until the page has sent these bytes to the terminal."""
    deadline = time.monotonic() + 20
    while data not in b"".join(frame for frame in typed_by(page) if isinstance(frame, bytes)):
        assert time.monotonic() < deadline, typed_by(page)
        page.wait_for_timeout(50)


def shows(page, text: str):
    page.wait_for_function(f"() => ({SPOKEN}).includes({json.dumps(text)})", timeout=20_000)


def ready(page, address: str):
    page.goto(address)
    page.wait_for_selector("[data-terminal][data-state]", timeout=20_000)
    page.wait_for_function("document.querySelector('[data-terminal]').dataset.state !== 'away'", timeout=20_000)
    return page


def serious(page) -> list:
    found = Axe().run(page).response["violations"]
    return [(v["id"], v["nodes"][0]["html"]) for v in found if v["impact"] in ("serious", "critical")]


def listen(page, socket):
    """Keep the frames that the page sends to a terminal in `page.sent`."""
    if "/ws/terminals/" in socket.url:
        socket.on("framesent", lambda data: page.sent.append(data))


class Thumb:
    """One finger on the page, as Chromium gets it from a touch screen."""

    def __init__(self, page):
        self._page = page
        self._events = page.context.new_cdp_session(page)

    def swipe(self, by: float, *, steps: int = 10, rest_ms: int = 150):
        """From the middle of the screen, `by` pixels down; it rests before it lets go, so that nothing goes on.

        The events carry their times, so that a slow machine does not make a slow thumb.
        """
        began = time.time()
        box = self._page.locator("#terminal-screen").bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        self._send("touchStart", [{"x": x, "y": y}], began)
        for step in range(1, steps + 1):
            self._send("touchMove", [{"x": x, "y": y + by * step / steps}], began + step * 0.012)
        self._send("touchEnd", [], began + steps * 0.012 + rest_ms / 1000)

    def hold(self, locator, ms: int):
        box = locator.bounding_box()
        self._send("touchStart", [{"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}])
        self._page.wait_for_timeout(ms)
        self._send("touchEnd", [])

    def _send(self, kind: str, points: list, at: float | None = None):
        when = {} if at is None else {"timestamp": at}
        self._events.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points} | when)


class Cable:
    """Between a page and its terminal: what is under way when it is cut is lost, both ways."""

    def __init__(self, page):
        self._page = page
        self.broken = False  # no connection can be made
        self.deaf = False  # one can, and nothing is at its other end
        self.refusal = None  # the code with which the server closes at once
        self.opened: list[str] = []  # the addresses, in order
        self._ends = None
        page.route_web_socket(re.compile("/ws/terminals/"), self._open)

    def _open(self, here):
        self.opened.append(here.url)
        if self.broken:
            here.close()
        if self.refusal:
            here.close(code=self.refusal)
        if self.broken or self.deaf or self.refusal:
            return
        there = here.connect_to_server()
        alive = {"on": True}
        here.on_message(lambda data: there.send(data) if alive["on"] else None)
        there.on_message(lambda data: here.send(data) if alive["on"] else None)
        self._ends = here, there, alive

    def silence(self):
        """Both ends believe that the connection stands."""
        self._ends[2]["on"] = False

    def until_opened(self, times: int):
        deadline = time.monotonic() + 30
        while len(self.opened) < times:
            assert time.monotonic() < deadline, self.opened
            self._page.wait_for_timeout(50)

    def cut(self, lost_ms: int = 60):
        here, there, _ = self._ends
        self.silence()
        self._page.wait_for_timeout(lost_ms)
        there.close()
        here.close()
