"""The server is stopped and started again under an open card: it takes one answer, and what was typed stays."""

import time

import pytest
from playwright.sync_api import expect

from tests.support.product import Product

from .conftest import TEAM, settle
from .test_unreachable import card, decision


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    running = Product(tmp_path_factory.mktemp("restarted") / "home")
    running.start()
    yield running
    running.clean_up()


@pytest.fixture(scope="module")
def token(product):
    return product.agent_token("browser-agent", TEAM)


@pytest.fixture(scope="module")
def signed_in():
    return {}  # others sign in to another product


def test_the_card_waits_keeps_what_was_typed_and_takes_one_answer(product, token, person, ask):
    page = person("rita")
    action = ask(f"git push origin restart-{time.time_ns()}")
    page.goto(card(product, action))
    settle(page)
    page.get_by_role("button", name="Deny…").click()
    page.get_by_label("Tell the agent").fill("Not during the release.")
    product.stop()
    expect(page.locator("#live-line")).to_contain_text("does not answer")
    expect(page.get_by_role("button", name="Deny", exact=True)).to_have_attribute("aria-disabled", "true")
    product.start()
    expect(page.locator("#live-line")).to_be_hidden()
    settle(page)
    expect(page.get_by_label("Tell the agent")).to_have_value("Not during the release.")
    assert decision(product, token, action)["status"] == "pending"
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(".notice").first).to_contain_text("Denied: Push to")
    assert decision(product, token, action)["decision"]["comment"] == "Not during the release."
