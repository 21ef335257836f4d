"""What tests in a real Chromium share: people of a team of their own, in the product that all tests share."""

import subprocess
import time

import pytest
from playwright.sync_api import Error, Locator, expect

from tests.support.chromium import WAIT_MS

SIZES = {"phone": {"width": 390, "height": 844}, "desktop": {"width": 1280, "height": 900}}
TEAM = "browser"  # others' cards do not wait in it
HERE = f"/w/{TEAM}/{{key}}/"


# Notes in each page whether the last tap was ignored: by a button that rested, or because what was under the finger
# went between down and up.
TAPS = """
let down = null;
const resting = (event) => event.target.closest('[aria-disabled="true"]') !== null;
addEventListener("mousedown", (event) => {
  down = event.target;
  window.tapWasIgnored = true;
}, true);
addEventListener("click", (event) => {
  const hit = event.target === down || event.target.closest("a, button, input, label, summary") !== null;
  window.tapWasIgnored = (down !== null && !hit) || resting(event);
  down = null;
}, true);
"""


@pytest.fixture(scope="session", autouse=True)
def tap_again():
    """A click whose tap the page ignored is done again, as people do; `force=True` is one tap, whatever comes of it."""
    click = Locator.click

    def until_taken(self, *, force=None, **options):
        click(self, force=force, **options)
        deadline = time.monotonic() + 30
        while not force and was_ignored(self.page) and time.monotonic() < deadline:
            settle(self.page)
            click(self, **options)

    Locator.click = until_taken
    yield
    Locator.click = click


def was_ignored(page) -> bool:
    try:
        return page.evaluate("window.tapWasIgnored === true")
    except Error:  # the tap led to another page
        return False


def press(page, key: str):
    """Press a key that opens a step of the card, again while its button rests."""
    page.evaluate("window.tapWasIgnored = false")
    page.keyboard.press(key)
    while was_ignored(page):
        settle(page)
        page.keyboard.press(key)


@pytest.fixture(scope="session")
def signed_in():
    """The cookies of people who came in by a one-time link, by name: a link is used once."""
    return {}


def without_size(state: dict) -> dict:
    """The state without the cookie that says how wide the window was: the next one may have another size."""
    return state | {"cookies": [cookie for cookie in state["cookies"] if cookie["name"] != "handrail-wide"]}


@pytest.fixture(params=["phone", "desktop"])
def size(request):
    return request.param


@pytest.fixture
def person(chromium, product, signed_in, size):
    """`person("rita", "reviewer")`: a page of somebody with that role; it fails the test when it complains."""
    contexts = []

    def come_in(name, role="reviewer", scheme="light", **options):
        known = signed_in.get(name)
        context = chromium.new_context(viewport=SIZES[size], color_scheme=scheme, storage_state=known, **options)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        context.add_init_script(TAPS)
        page = context.new_page()
        page.complaints = []
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("console", lambda said: page.complaints.append(said.text) if "Security Policy" in said.text else None)
        if known is None:
            page.goto(product.sign_in_url(name, role, TEAM))
            page.locator("main button").click()
            expect(page).to_have_url(f"{product.desk}/")
            signed_in[name] = without_size(context.storage_state())
        return page

    yield come_in
    for context in contexts:
        for page in context.pages:
            assert getattr(page, "complaints", []) == []
        context.close()


@pytest.fixture(scope="session")
def token(product):
    return product.agent_token("browser-agent", TEAM)


@pytest.fixture
def ask(product, token):
    """`ask("git push …")`: an agent asks over the API; the action's JSON. It is withdrawn after the test."""
    made = []

    def submit(command, **more):
        body = {"tool": "Bash", "arguments": {"command": command}, "mode": "gate", **more}
        answer = product.post("/api/v1/actions", token, body)
        assert answer.status == 201, answer.text
        made.append(answer.json["id"])
        return answer.json

    yield submit
    for action in made:
        product.post(f"/api/v1/actions/{action}/cancel", token)


@pytest.fixture(scope="session")
def workspace(product, token):
    """A workspace made from a small repository; its key."""
    source = product.sources / "shop"
    source.mkdir()
    lines = "".join(f"# {number}\n" for number in range(40))
    (source / "cart.py").write_text(f"def total(items):\n    return sum(items)\n{lines}def empty():\n    return []\n")
    git = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "cart"]):
        subprocess.run([*git, *words], cwd=source, check=True)
    made = product.post("/api/v1/workspaces", token, {"key": "shop", "source": {"git": str(source)}})
    assert made.status == 201, made.text
    return settled(product, token, "shop")


def settled(product, token, key) -> str:
    """The key, once nothing is in flight and it is ready."""
    found = {"busy": "?"}
    while found["busy"]:
        found = product.get(f"/api/v1/workspaces/{key}?wait=20", token).json
    assert found["state"] == "ready", found
    return key


def settle(page):
    """Until buttons take taps: 400 ms after the page came."""
    page.wait_for_selector("[data-resting]", state="detached")
