"""Without a connection nothing wrong is shown as current, nothing is sent later, and what was typed stays."""

import time

from playwright.sync_api import expect

from .conftest import settle


def card(product, action) -> str:
    return f"{product.desk}/actions/{action['id']}/"


def decision(product, token, action) -> dict:
    return product.get(f"/api/v1/actions/{action['id']}", token).json


def test_offline_no_answer_is_taken_and_afterwards_the_card_is_as_it_is_now(product, token, person, ask):
    rita, rolf = person("rita"), person("rolf")
    action = ask(f"git push origin offline-{time.time()}")
    for page in (rita, rolf):
        page.goto(card(product, action))
        settle(page)
    rita.get_by_role("button", name="Deny…").click()
    rita.get_by_label("Tell the agent").fill("Use the staging branch.")
    rita.context.set_offline(True)
    expect(rita.locator("#live-line")).to_contain_text("offline")
    deny = rita.get_by_role("button", name="Deny", exact=True)
    expect(deny).to_have_attribute("aria-disabled", "true")
    deny.click(force=True)
    rita.wait_for_timeout(600)
    assert rita.url == card(product, action)
    expect(rita.get_by_label("Tell the agent")).to_have_value("Use the staging branch.")
    rolf.get_by_role("button", name="Approve…").click()
    rolf.get_by_role("button", name="Confirm: approve").click()
    expect(rolf.locator(".notice").first).to_contain_text("Approved: Push to")
    rita.context.set_offline(False)
    expect(rita.locator("#card")).to_contain_text("rolf approved this")
    now = decision(product, token, action)["decision"]
    assert (now["by"], now["verdict"]) == ("rolf", "approve")


def test_after_a_pause_offline_the_buttons_come_back_and_what_was_typed_stays(product, token, person, ask):
    page = person("rita")
    action = ask(f"git push origin pause-{time.time()}")
    page.goto(card(product, action))
    settle(page)
    page.get_by_role("button", name="Deny…").click()
    page.get_by_label("Tell the agent").fill("Not today.")
    page.context.set_offline(True)
    expect(page.locator("#live-line")).to_contain_text("offline")
    runner = page.locator(".top .me .state")
    expect(runner).to_have_text("Runner: not known")
    expect(runner).to_have_attribute("data-tone", "quiet")
    page.context.set_offline(False)
    expect(page.locator("#live-line")).to_be_hidden()
    expect(runner).to_have_text("Runner OK")
    expect(runner).to_have_attribute("data-tone", "calm")
    settle(page)
    expect(page.get_by_label("Tell the agent")).to_have_value("Not today.")
    page.get_by_role("button", name="Deny", exact=True).click()
    expect(page.locator(".notice").first).to_contain_text("Denied: Push to")
    assert decision(product, token, action)["decision"]["comment"] == "Not today."


def test_an_answer_sent_without_a_connection_leads_to_the_request_and_is_not_sent_later(product, token, person, ask):
    page = person("rita")
    action = ask(f"git push origin unsure-{time.time()}")
    page.goto(card(product, action))
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    page.wait_for_function("navigator.serviceWorker.controller !== null")
    page.goto(f"{card(product, action)}approve/")
    settle(page)
    page.context.set_offline(True)
    # A tap before the page knows that it is offline: it would refuse a later one.
    page.evaluate("document.querySelector('#bar form').submit()")
    expect(page.get_by_text("Whether your answer arrived is not known here.")).to_be_visible()
    assert page.url == f"{card(product, action)}?unsure=1"
    page.context.set_offline(False)  # the page comes back by itself
    expect(page.locator("#card h1")).to_have_text(action["title"])
    assert decision(product, token, action)["status"] == "pending"
    settle(page)
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Confirm: approve").click()
    expect(page.locator(".notice").first).to_contain_text("Approved: Push to")


def test_an_answer_that_was_cut_off_on_its_way_is_not_sent_again_by_itself(product, token, person, ask):
    page = person("rita", service_workers="block")
    action = ask(f"git push origin cut-{time.time()}")
    page.goto(card(product, action))
    settle(page)
    posts = []
    page.route("**/approve/*", lambda route: (posts.append(route.request.url), route.abort("connectionreset")))
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Confirm: approve").click()
    page.wait_for_timeout(1500)
    page.unroute("**/approve/*")
    page.wait_for_timeout(1500)
    assert decision(product, token, action)["status"] == "pending"
    assert len(posts) == 1
    page.goto(card(product, action))
    settle(page)
    expect(page.get_by_role("button", name="Approve…")).to_be_visible()


def test_an_answer_that_arrived_but_whose_response_was_lost_is_shown_as_it_is(product, token, person, ask):
    page = person("rita", service_workers="block")
    action = ask(f"git push origin lost-{time.time()}")
    page.goto(card(product, action))
    settle(page)

    def lose(route):
        # Playwright's own client does not resolve the desk's name, which browsers do by themselves.
        named = product.desk.partition("://")[2]
        here = route.request.url.replace(named, named.replace("handrail.localhost", "127.0.0.1"))
        route.fetch(url=here, headers=route.request.all_headers() | {"host": named}, max_redirects=0)
        route.abort("connectionreset")

    page.route("**/approve/*", lose)
    page.get_by_role("button", name="Approve…").click()
    page.get_by_role("button", name="Confirm: approve").click()
    page.wait_for_timeout(1500)
    page.unroute("**/approve/*")
    page.goto(card(product, action))
    expect(page.locator("#card")).to_contain_text("rita approved this")
    expect(page.get_by_role("button", name="Approve…")).to_have_count(0)
    assert decision(product, token, action)["status"] == "approved"
