"""Swipes on the list of approvals: right approves what the list offers, left opens the deny step, a scroll nothing."""

import time
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from .conftest import settle, settled

PAGE = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(params=["phone"])
def size(request):
    return request.param


@pytest.fixture(scope="module")
def cluster(product, token):
    product.post("/api/v1/workspaces", token, {"key": "swiped"})
    return settled(product, token, "swiped")


@pytest.fixture
def finger(product, person):
    """`finger(row, dx, dy=0)`: a swipe that begins in the middle of the row; the page is the list."""
    page = person("rita", has_touch=True, is_mobile=True)
    devtools = page.context.new_cdp_session(page)

    def touch(kind, x=None, y=None):
        points = [] if x is None else [{"x": x, "y": y}]
        devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def swipe(action, dx, dy=0, *, start=None, hold=False):
        row = page.locator(f"#action-{action['id']}")
        row.scroll_into_view_if_needed()
        box = row.bounding_box()
        x, y = box["x"] + box["width"] / 2 if start is None else start, box["y"] + box["height"] / 2
        touch("touchStart", x, y)
        for step in range(1, 9):
            touch("touchMove", x + dx * step / 8, y + dy * step / 8)
            page.wait_for_timeout(16)
        if not hold:
            touch("touchEnd")

    swipe.page, swipe.lift = page, lambda: touch("touchEnd")
    return swipe


def at_list(page, product, action):
    """Open the list, searched for the action alone: others that wait would push it down, or be one row with it."""
    page.goto(f"{product.desk}/waiting/?{urlencode({'q': action['title']})}")
    settle(page)
    expect(page.locator(f"#action-{action['id']}")).to_be_visible()


def status(product, token, action) -> str:
    return product.get(f"/api/v1/actions/{action['id']}", token).json["status"]


def test_right_approves_what_the_list_offers_to_approve(product, token, ask, finger, cluster):
    asked = ask("kubectl get pods", workspace=cluster, session=f"s-{time.time()}")
    assert (asked["status"], asked["undo"]) == ("pending", "yes")
    at_list(finger.page, product, asked)
    finger(asked, 180)
    expect(finger.page.get_by_text("Approved: ")).to_be_visible()
    assert finger.page.url.startswith(f"{product.desk}/waiting/")
    assert status(product, token, asked) == "approved"


def test_right_opens_what_needs_a_look_and_left_its_deny_step(product, token, ask, finger):
    asked = ask(f"git push origin swiped-{time.time()}")
    at_list(finger.page, product, asked)
    finger(asked, 180)
    finger.page.wait_for_url(f"**/actions/{asked['id']}/*")
    at_list(finger.page, product, asked)
    finger(asked, -180)
    finger.page.wait_for_url(f"**/actions/{asked['id']}/deny/*")
    expect(finger.page.get_by_label("Tell the agent")).to_be_visible()
    assert status(product, token, asked) == "pending"


def test_the_words_under_the_finger_say_what_it_would_do(product, ask, finger):
    asked = ask(f"git push origin words-{time.time()}")
    at_list(finger.page, product, asked)
    finger(asked, -60, hold=True)
    label = finger.page.locator(f"#action-{asked['id']} .swipe-label")
    expect(label).to_have_text("Deny…")
    assert label.get_attribute("data-acts") is None
    assert finger.page.evaluate(PAGE) <= 0
    finger.lift()
    expect(label).to_have_count(0)
    assert finger.page.url.split("?")[0].rstrip("/").endswith("/waiting")


@pytest.mark.parametrize(("dx", "dy", "start"), [(70, 0, None), (40, 200, None), (-40, -160, None), (180, 0, 6)])
def test_a_short_pull_a_scroll_and_the_edge_do_nothing(product, token, ask, finger, dx, dy, start):
    asked = ask(f"git push origin still-{time.time()}")
    at_list(finger.page, product, asked)
    finger(asked, dx, dy, start=start)
    finger.page.wait_for_timeout(400)
    assert finger.page.url.split("?")[0].rstrip("/").endswith("/waiting")
    assert status(product, token, asked) == "pending"


def test_a_swipe_approves_nothing_while_a_tap_would_not(product, token, ask, finger, cluster):
    asked = ask("kubectl get nodes", workspace=cluster, session=f"s-{time.time()}")
    at_list(finger.page, product, asked)
    finger.page.evaluate(
        "document.querySelectorAll('[data-decide]').forEach(b => b.setAttribute('aria-disabled', 'true'))"
    )
    finger(asked, 180)
    finger.page.wait_for_timeout(300)
    assert status(product, token, asked) == "pending"
