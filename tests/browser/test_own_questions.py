"""A reviewer answers an agent's question and sends its plan back with a comment, on a phone and on a desktop."""

import time

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import expect

from .conftest import settle
from .test_every_page import SERIOUS

WIDER = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
LONG = "word " * 40 + "x" * 120


def question():
    options = [
        {"label": "main", "description": "It is released at once."},
        {"label": "next", "description": LONG, "preview": "git push origin next"},
    ]
    branch = {"question": f"Which branch, at {time.time()}?", "header": "Branch", "options": options}
    tests = {"question": "Which tests?", "multiSelect": True, "options": [{"label": "unit"}, {"label": "browser"}]}
    return {"questions": [branch, tests]}


def plan(step="Push it"):
    table = "| step | who |\n| --- | --- |\n| tag | mia |\n"
    code = f"```sh\ngit tag v1 && {'x' * 200}\n```\n"
    link = "See [the notes](https://example.org/notes) and ![a picture](https://example.org/x.png).\n"
    return {"plan": f"# Release {time.time()}\n\n{LONG}\n\n1. Tag it\n2. {step}\n\n{table}\n{code}\n{link}"}


def check(page):
    """In both themes nothing is wider than the screen and axe finds nothing serious."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(SERIOUS) == []
        assert page.evaluate(WIDER) <= 0
    page.emulate_media(color_scheme="light")


def open_card(page, product, asked):
    page.add_init_script(AXE_SCRIPT)
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    settle(page)


def test_a_question_is_answered_with_choices_and_words(product, token, person, ask):
    given = question()
    asked = ask("", tool="AskUserQuestion", arguments=given)
    page = person("rita")
    open_card(page, product, asked)
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    check(page)
    page.get_by_role("radio", name="next").check()
    page.get_by_role("checkbox", name="browser").check()
    page.get_by_label("Or add your own words").last.fill("and by hand")
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.get_by_text("Answered: Answer 2 questions")).to_be_visible()
    now = product.get(f"/api/v1/actions/{asked['id']}", token).json
    texts = [each["question"] for each in given["questions"]]
    assert now["answers"] == dict(zip(texts, ["next", "browser, and by hand"], strict=True))
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    check(page)


def test_a_plan_goes_back_with_a_comment_and_the_next_one_is_approved(product, token, person, ask):
    session = f"plans-{time.time()}"
    asked = ask("", tool="ExitPlanMode", arguments=plan(), session=session)
    page = person("rita")
    open_card(page, product, asked)
    assert page.locator("main a[href*='example.org'], main img").count() == 0
    page.get_by_text("Comment on line 6").click()
    page.get_by_role("textbox", name="Comment on line 6").fill("pull first")
    check(page)
    page.get_by_role("button", name="Send back").click()
    expect(page.get_by_text("Plan sent back: Review a plan")).to_be_visible()
    heard = product.get(f"/api/v1/actions/{asked['id']}", token).json
    assert (heard["status"], heard["decision"]["comment"]) == ("denied", "On line 6 (“2. Push it”): pull first")
    again = ask("", tool="ExitPlanMode", arguments=plan("Pull, then push it"), session=session)
    open_card(page, product, again)
    expect(page.get_by_label("Asked again after a denial")).to_contain_text("pull first")
    page.get_by_role("button", name="Approve plan").click()
    expect(page.get_by_text("Plan approved: Review a plan")).to_be_visible()
    assert product.get(f"/api/v1/actions/{again['id']}", token).json["status"] == "approved"
