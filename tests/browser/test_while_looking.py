"""What happens to a card while somebody looks at it: it expires, or another reviewer answers first."""

import time

from playwright.sync_api import expect

from .conftest import settle
from .test_unreachable import card, decision

EXPIRE = """
from datetime import timedelta
from django.utils import timezone
from approvals.models import Action
Action.objects.filter(pk={pk!r}).update(expires_at=timezone.now() + timedelta(seconds={seconds}))
"""


def test_a_card_that_expires_says_so_and_takes_no_answer(product, token, person, ask):
    page = person("rita")
    action = ask(f"git push origin expires-{time.time_ns()}")
    page.goto(card(product, action))
    settle(page)
    expect(page.locator("#bar .main")).to_have_text("Approve…")
    product.shell(EXPIRE.format(pk=action["id"], seconds=1))
    expect(page.locator("#card .state")).to_have_text("Expired, did not run")
    expect(page.locator("#card")).to_contain_text("before anyone answered")
    expect(page.locator("#bar").get_by_role("button", name="Approve")).to_have_count(0)
    assert decision(product, token, action)["status"] == "expired"


def test_an_answer_to_a_card_that_expired_meanwhile_is_not_used(product, token, person, ask):
    page = person("rita", java_script_enabled=False)
    action = ask(f"git push origin expired-{time.time_ns()}")
    page.goto(f"{card(product, action)}approve/")
    product.shell(EXPIRE.format(pk=action["id"], seconds=-1))
    page.get_by_role("button", name="Confirm: approve").click()
    expect(page.locator(".notice").first).to_contain_text("expired")
    expect(page.locator("#card .state")).to_have_text("Expired, did not run")
    assert decision(product, token, action)["status"] == "expired"


def test_of_two_reviewers_at_once_the_second_learns_who_was_first(product, token, person, ask):
    rita, rolf = (person(name, java_script_enabled=False) for name in ("rita", "rolf"))
    action = ask(f"git push origin two-{time.time_ns()}")
    for page, step in ((rita, "approve"), (rolf, "deny")):
        page.goto(f"{card(product, action)}{step}/")
    rita.get_by_role("button", name="Confirm: approve").click()
    expect(rita.locator(".notice").first).to_contain_text("Approved: Push to")
    rolf.get_by_label("Tell the agent").fill("Use the staging branch.")
    rolf.get_by_role("button", name="Deny", exact=True).click()
    expect(rolf.locator(".notice").first).to_contain_text("rita approved this")
    expect(rolf.locator(".notice").first).to_contain_text("Your answer was not used.")
    expect(rolf.locator("#card")).to_contain_text("rita approved this")
    found = decision(product, token, action)
    assert (found["status"], found["decision"]["by"]) == ("approved", "rita")


def test_a_form_that_was_refused_keeps_its_error_while_the_page_hears_of_more(product, token, person, ask):
    page = person("lena", "lead")
    page.goto(f"{product.desk}/agents/")
    settle(page)
    page.locator("#a-name").fill("x")
    # As a browser would send it that doesn't know the limit.
    page.locator("#a-name").evaluate("field => { field.removeAttribute('maxlength'); field.value = 'x'.repeat(81) }")
    page.locator("form:has(#a-name)").get_by_role("button").click()
    expect(page.locator("#a-name_error")).to_be_visible()
    expect(page).to_have_url(f"{product.desk}/agents/")
    settle(page)
    with page.expect_response(lambda answer: answer.url == page.url and answer.request.resource_type == "xhr") as heard:
        ask(f"git push origin heard-{time.time_ns()}")
    assert heard.value.status == 200
    expect(page.locator("#a-name_error")).to_be_visible()
    expect(page.locator("#a-name")).to_have_value("x" * 81)
