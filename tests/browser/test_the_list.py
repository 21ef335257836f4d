"""The list of what waits: how many rows a screen has, alike calls that open in one row, and rows fetched on the way."""

import pytest
from playwright.sync_api import expect

from approvals.pages.lists import FIRST_ROWS

from .conftest import settle

IN_SIGHT = """() => {
    const nav = document.querySelector(".nav").getBoundingClientRect();
    const box = document.querySelector(".list-rows")?.getBoundingClientRect();
    const end = Math.min(innerHeight, innerWidth < 600 ? nav.top : innerHeight, box?.bottom ?? innerHeight);
    const rows = [...document.querySelectorAll("#waiting-rows > .row")];
    return rows.filter((row) => row.getBoundingClientRect().bottom <= end + 1).length;
}"""
SCREENS = [((390, 844), 9), ((1280, 800), 11), ((1100, 800), 11)]


@pytest.fixture(params=["phone"])
def size(request):
    return request.param


@pytest.fixture
def listed(product, person):
    """`listed("?q=row-")`: a reviewer's page with the list."""
    page = person("rita")

    def go(query=""):
        page.goto(f"{product.desk}/waiting/{query}")
        settle(page)
        return page

    return go


def unlike(count: int) -> list[str]:
    return [f"git push origin row-{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(count)]


@pytest.mark.parametrize(("screen", "least"), SCREENS)
def test_a_screen_has_at_least_so_many_rows(person, product, ask, screen, least):
    for command in unlike(14):
        ask(command)
    page = person("rita")
    page.set_viewport_size({"width": screen[0], "height": screen[1]})
    page.goto(f"{product.desk}/waiting/")
    page.reload()  # the first page of a browser says how wide it is
    expect(page.locator("#waiting-rows > .row").nth(13)).to_be_attached()
    assert page.evaluate(IN_SIGHT) >= least
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_alike_calls_open_in_their_row_and_stay_open_when_one_more_comes(listed, ask):
    for number in range(3):
        ask(f"git push origin alike-{number}")
    page = listed("?q=alike")
    row = page.locator(".row.group", has_text="3 × git push")
    row.locator("summary").click()
    expect(row.get_by_role("cell", name="git push origin alike-2")).to_be_visible()
    ask("git push origin alike-3")
    row = page.locator(".row.group", has_text="4 × git push")
    expect(row.get_by_role("cell", name="git push origin alike-3")).to_be_visible()
    expect(row.locator("tbody tr")).to_have_count(4)
    row.locator("tbody a").first.click()
    expect(page.locator("#card")).to_be_visible()


def test_the_end_of_the_rows_brings_more_and_a_refresh_leaves_them(listed, ask):
    for command in unlike(FIRST_ROWS + 5):
        ask(command)
    page = listed("?q=row-")
    rows = page.locator("#waiting-rows > .row")
    expect(rows).to_have_count(FIRST_ROWS)
    page.locator("#waiting-more a").scroll_into_view_if_needed()
    expect(rows).to_have_count(FIRST_ROWS + 5)
    ask("git push origin row-last")
    expect(rows).to_have_count(FIRST_ROWS + 6)
    expect(page.locator(".row[data-gone]")).to_have_count(0)


def test_a_menu_narrows_the_list_and_a_search_does(listed, ask):
    ask("git push origin first-words")
    ask("git push origin other-words")
    page = listed()
    page.get_by_role("searchbox", name="Title, agent").fill("first-words")
    page.keyboard.press("Enter")
    expect(page.locator("#waiting-rows > .row")).to_have_count(1)
    page.locator(".filters summary", has_text="Sort").click()
    page.get_by_role("link", name="Newest").click()
    page.wait_for_url("**/waiting/?q=first-words&sort=newest")
    expect(page.locator("#waiting-rows > .row")).to_have_count(1)


def test_a_question_is_answered_with_one_tap(listed, product, token):
    options = [{"label": "main"}, {"label": "next"}]
    body = {"tool": "AskUserQuestion", "arguments": {"questions": [{"question": "Which?", "options": options}]}}
    asked = product.post("/api/v1/actions", token, body | {"mode": "gate"}).json
    page = listed("?q=Which")
    page.locator(f"#action-{asked['id']}").get_by_role("button", name="next").click()
    expect(page.locator(".notice").first).to_contain_text("Answered")
    assert product.get(f"/api/v1/actions/{asked['id']}", token).json["status"] == "approved"
