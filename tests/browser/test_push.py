"""From done to pushed on a phone and on a desktop: what goes where is on the first screen, then at most three taps."""

import subprocess
import time

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from tests.support.desk import Desk

from .conftest import HERE, settled
from .test_revised import look  # noqa: F401

GIT = "git -c user.name=A -c user.email=a@example.org"
TAPS = 3


@pytest.fixture
def bare(product, workspace):
    """A source of its own, to whose default branch can be pushed."""
    path = product.sources / f"bare-{time.time_ns():x}.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(product.sources / "shop"), str(path)], check=True)
    return path


@pytest.fixture
def done(product, token, bare):
    """A workspace in which an agent has committed; its key."""
    key = bare.stem
    made = product.post("/api/v1/workspaces", token, {"key": key, "source": {"git": str(bare)}})
    assert made.status == 201, made.text
    settled(product, token, key)
    Desk(product, token).run(key, f"echo new > new.txt && git add . && {GIT} commit -qm 'Count the items'")
    return key


class Taps:
    """A lead's page that counts what is tapped, and is on the first screen when it is."""

    def __init__(self, page):
        self.page, self.count = page, 0

    def on(self, what):
        self.count += 1
        assert self.count <= TAPS
        box = what.bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= self.page.viewport_size["height"]
        what.click()


def test_from_done_to_pushed(product, person, done, bare, look):  # noqa: F811
    page = person("lena", "lead")
    page.add_init_script(AXE_SCRIPT)
    page.goto(product.desk + HERE.format(key=done))
    taps = Taps(page)
    taps.on(page.get_by_role("link", name="Push…"))
    goes = page.locator("#what-goes")
    expect(goes).to_contain_text(str(bare))
    expect(goes).to_contain_text("Count the items")
    expect(goes).to_contain_text("new.txt")
    expect(page.get_by_label("To the branch")).to_have_value(f"handrail/{done}")
    look(page)
    taps.on(page.get_by_role("button", name="Push", exact=True))
    expect(page.locator("#push-outcome")).to_contain_text(f"to handrail/{done}.")
    expect(page.locator("#pushed")).to_contain_text("pushed by lena")
    look(page)
    assert _subject(bare, f"handrail/{done}") == "Count the items"


def test_the_default_branch_takes_one_tap_more(product, person, done, bare):
    page = person("lena", "lead")
    page.goto(product.desk + HERE.format(key=done))
    taps = Taps(page)
    taps.on(page.get_by_role("link", name="Push…"))
    page.get_by_label("To the branch").fill("main")
    taps.on(page.get_by_role("button", name="Push", exact=True))
    expect(page.locator("main")).to_contain_text(f"main is the default branch of {bare}.")
    assert _subject(bare, "main") == "cart"
    taps.on(page.get_by_role("button", name="Push to main"))
    expect(page.locator("#push-outcome")).to_contain_text("to main.")
    assert _subject(bare, "main") == "Count the items"


def _subject(path, branch) -> str:
    told = subprocess.run(["git", "log", "-1", "--format=%s", branch], cwd=path, capture_output=True, text=True)
    return told.stdout.strip()
