"""After a decision: fifty answers are viewed and taken back from one line; a form that expired keeps what was typed."""

import time

from playwright.sync_api import expect

from .conftest import TEAM, settle


def test_fifty_are_approved_and_taken_back_from_the_line_that_says_so(product, person, size):
    token = product.agent_token(f"fifty-{size}", TEAM)
    asked = [
        product.post("/api/v1/actions", token, {"tool": "mcp__crm__update_contact", "arguments": {"id": number}}).json
        for number in range(50)
    ]
    page = person("rita")
    page.goto(f"{product.desk}/waiting/alike/{asked[0]['id']}/")
    settle(page)
    page.get_by_role("button", name="Approve").first.click()
    settle(page)
    page.get_by_role("button", name="Confirm").first.click()
    line = page.locator(".notice", has_text="Approved: 50 requests")
    expect(line.get_by_role("link", name="View")).to_be_visible()
    settle(page)
    line.get_by_role("button", name="Undo").click()
    expect(page.locator(".notice").first).to_contain_text("50 answers withdrawn. They need approval again.")
    expect(page.locator("#together > li")).to_have_count(50)
    states = {product.get(f"/api/v1/actions/{action['id']}", token).json["status"] for action in asked}
    assert states == {"pending"}
    for action in asked:
        product.post(f"/api/v1/actions/{action['id']}/cancel", token)


def test_a_form_that_expired_is_shown_again_with_its_words_and_can_be_sent(product, token, person, ask):
    action = ask(f"git push origin expired-{time.time()}")
    page = person("rita")
    page.goto(f"{product.desk}/actions/{action['id']}/")
    settle(page)
    page.get_by_role("button", name="Deny…").click()
    page.get_by_label("Tell the agent").fill("Use the staging branch.")
    page.evaluate("for (const each of document.getElementsByName('csrfmiddlewaretoken')) each.value = 'x'.repeat(64)")
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(".notice").first).to_contain_text("This form had expired, so nothing was sent.")
    expect(page.get_by_label("Tell the agent")).to_have_value("Use the staging branch.")
    assert product.get(f"/api/v1/actions/{action['id']}", token).json["status"] == "pending"
    settle(page)
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(".notice").first).to_contain_text("Denied: Push to")
    said = product.get(f"/api/v1/actions/{action['id']}", token).json["decision"]
    assert said["comment"] == "Use the staging branch."
