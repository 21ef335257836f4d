"""On a desktop the list and the card stand side by side: the keys walk through the list, and it keeps its place."""

import time

import pytest
from playwright.sync_api import expect

from .conftest import press, settle


@pytest.fixture(params=["desktop"])
def size(request):
    return request.param


@pytest.fixture
def asked(ask):
    return [ask(f"git push origin beside-{letter}") for letter in "abcdefghijklmnop"]  # numbers would make them one row


def place(page) -> float:
    return page.evaluate("document.querySelector('.list-rows').scrollTop")


def test_keys_walk_through_the_list_and_it_keeps_its_place(product, person, asked):
    # A row of the list has an Approve of its own, which the keys must not mean.
    undoable = f"Action.objects.filter(pk={asked[-3]['id']!r}).update(undo='yes')"
    product.shell(f"from approvals.models import Action; {undoable}")
    page = person("rita")
    page.goto(f"{product.desk}/actions/{asked[-2]['id']}/")
    row = page.locator(f"#action-{asked[-2]['id']}")
    expect(row).to_have_attribute("aria-current", "true")
    expect(row).to_be_in_viewport()
    before = place(page)
    assert before > 0
    expect(page.locator(".split-list .row").get_by_role("button", name="Approve").first).to_be_attached()
    page.keyboard.press("j")
    expect(page.locator(".row[aria-current=true]")).not_to_have_id(f"action-{asked[-2]['id']}")
    expect(page.locator(".row[aria-current=true]")).to_be_in_viewport()
    assert place(page) >= before
    page.keyboard.press("k")
    expect(row).to_have_attribute("aria-current", "true")
    settle(page)
    press(page, "d")
    expect(page.get_by_label("Tell the agent")).to_be_focused()
    page.keyboard.press("Escape")
    settle(page)
    press(page, "a")
    expect(page.get_by_role("button", name="Confirm: approve")).to_be_focused()


def test_the_decisions_stand_in_the_cards_column(product, person, asked):
    page = person("rita")
    page.goto(f"{product.desk}/actions/{asked[0]['id']}/")
    card, bar = page.locator("#card").bounding_box(), page.locator("#bar").bounding_box()
    listed = page.locator(".split-list").bounding_box()
    assert abs(bar["x"] - card["x"]) <= 1
    assert bar["x"] >= listed["x"] + listed["width"]
    assert bar["x"] + bar["width"] <= 1280


def test_an_answer_is_taken_back_from_the_notice(product, token, person, ask):
    page = person("rita")
    action = ask(f"git push origin undo-{time.time()}")
    page.goto(f"{product.desk}/actions/{action['id']}/")
    settle(page)
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Confirm: approve").click()
    settle(page)
    page.locator(".notice").get_by_role("button", name="Undo").click()
    expect(page.locator(".notice").first).to_contain_text("Answer withdrawn")
    assert product.get(f"/api/v1/actions/{action['id']}", token).json["status"] == "pending"


def test_two_people_see_that_the_other_is_looking(product, person, ask):
    rita, rolf = person("rita"), person("rolf")
    action = ask(f"git push origin looked-{time.time()}")
    for page in (rita, rolf):
        page.goto(f"{product.desk}/actions/{action['id']}/")
    expect(rolf.locator("[data-looking]")).to_have_text("rita is looking too")
    expect(rita.locator("[data-looking]")).to_have_text("rolf is looking too")


def test_a_window_that_grew_gets_the_list_that_a_narrow_one_was_not_sent(product, person, asked):
    page = person("rita")
    page.set_viewport_size({"width": 800, "height": 900})
    page.goto(f"{product.desk}/actions/{asked[-1]['id']}/")
    expect(page.locator(".split-list")).to_be_hidden()
    page.goto(f"{product.desk}/actions/{asked[-2]['id']}/")
    expect(page.locator("h1")).to_have_text(asked[-2]["title"])
    expect(page.locator(".split-list .row")).to_have_count(0)
    page.set_viewport_size({"width": 1280, "height": 900})
    expect(page.locator(f"#action-{asked[-2]['id']}")).to_be_in_viewport()
    expect(page.locator(f"#action-{asked[-1]['id']}")).to_be_attached()
    page.reload()
    expect(page.locator(f"#action-{asked[-2]['id']}")).to_be_in_viewport()
