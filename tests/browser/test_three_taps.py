"""A lead's questions, each answered within three taps from the Desk, over some days of demonstration data."""

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tests.support.product import Product

pytestmark = pytest.mark.timeout(600)  # the first one waits until the data is made
TAPS = 3
# `manage.py demo --fortnight`, but the first ten days: a working day is among these, also on a Monday morning.
LAST_DAYS = """
from django.core.management import call_command
from deploy.demo.fortnight import telling
telling.DAYS = 4
call_command("demo", "--fortnight")
"""
# Back after a week: what happened since is on the Desk, on a Monday morning too.
AWAY_FOR_A_WEEK = """
from datetime import timedelta
from dashboard.database import clock
from dashboard.models import Membership
Membership.objects.filter(user__username="lea").update(desk_seen_at=clock.now() - timedelta(days=7))
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    running = Product(tmp_path_factory.mktemp("fortnight") / "home")
    running.start()
    running.shell(LAST_DAYS)
    yield running
    running.clean_up()


@pytest.fixture(scope="module")
def signed_in():
    return {}  # others sign in to another product


class Taps:
    """A page that counts what is tapped."""

    def __init__(self, page):
        self.page, self.count = page, 0

    def on(self, what):
        """Tap the first of these that is in sight."""
        self.count += 1
        assert self.count <= TAPS
        what.filter(visible=True).first.click()

    def link(self, name, inside="body"):
        self.on(self.page.locator(inside).get_by_role("link", name=name, exact=isinstance(name, str)))


@pytest.fixture
def desk(product, person):
    """The Desk of a lead who comes back, before the first tap."""
    product.person_token("lea", "lead", "demo")
    product.shell(AWAY_FOR_A_WEEK)
    page = person("lea", "lead")
    product.shell(AWAY_FOR_A_WEEK)  # signing in was a visit
    page.goto(product.desk)
    expect(page.locator("#desk-since .row").first).to_be_visible()
    return Taps(page)


def test_what_changed_since_friday_by_risk(desk):
    desk.link(re.compile(r"\d workspaces? changed"))
    # On a Friday and the day after it, that is what Today and Since yesterday say.
    span = "Last 7 days" if datetime.now(UTC).weekday() in (4, 5) else "Since Friday"
    desk.link(span)
    desk.link("By risk")
    expect(desk.page.locator('main a[aria-current="true"]')).to_have_text([span, "By risk"])
    expect(desk.page.locator("#changed-sum")).to_contain_text(re.compile(r"\d workspaces? changed"))


def test_a_line_names_its_author(desk):
    desk.on(desk.page.locator("#desk-since .desk-changed"))
    desk.link("Blame")
    desk.link(re.compile(r"^A-\d+ "))
    expect(desk.page.locator("h1")).to_contain_text(re.compile("Write|Edit|Run"))
    expect(desk.page.locator("main")).to_contain_text(re.compile("claude-|codex-|docs-agent"))


def test_what_an_agent_did_today(desk):
    desk.on(desk.page.locator('#desk-now a[href^="/agents/"]'))
    expect(desk.page.locator('main a[aria-current="true"]')).to_have_text(["Today"])
    expect(desk.page.locator("#agent-day-of").first).to_be_visible()


def test_what_the_policy_let_run_that_is_worth_a_look(desk):
    desk.link(re.compile("Check .* auto-approved"))
    desk.on(desk.page.locator("main .row-title"))
    expect(desk.page.locator("main")).to_contain_text(re.compile("[Aa]uto-approved"))


def test_a_point_of_one_workspace_with_a_point_of_another(desk):
    desk.on(desk.page.locator("#desk-since .desk-changed"))
    desk.page.locator(".changes-bar summary").first.click()  # the one question that takes a tap more: the points' menu
    desk.count += 1  # the other workspace is chosen from a list
    other = desk.page.get_by_label("Another workspace")
    name = other.locator("option").last.inner_text()
    other.select_option(name)
    desk.on(desk.page.locator("form", has=other).get_by_role("button", name="Compare"))
    expect(desk.page.locator("#changed-files")).to_have_text(re.compile(r"\d files?"))
    expect(desk.page.locator(".changes-bar summary").first).to_contain_text(name)


def test_two_forks_side_by_side(desk, size):
    """From the list of workspaces; on a phone one column, on a desktop two."""
    desk.link("Workspaces", inside="nav")
    desk.link("Side by side")
    page = desk.page
    expect(page.locator("#beside-counts")).to_contain_text(re.compile(r"\d conflict|can be merged"))
    both = page.locator(".beside-file").first
    expect(both.locator(".diff-lines").first).to_be_visible()
    left, right = (both.locator(".diff").nth(n).bounding_box() for n in (0, 1))
    assert (left["y"] == right["y"], left["x"] == right["x"]) == ((False, True) if size == "phone" else (True, False))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    desk.on(both.get_by_role("link", name="Open diff"))
    expect(page.locator("main .diff .diff-lines").first).to_be_visible()


def test_search_finds_a_call_and_a_file(desk, size):
    """A phone has the field under More."""
    if size == "phone":
        desk.link("More", inside="nav")
    field = desk.page.get_by_role("searchbox").filter(visible=True)
    desk.count += 1
    field.fill("coupon.py")
    field.press("Enter")
    expect(desk.page.locator("#found-actions")).to_be_visible()
    expect(desk.page.locator("#found-files")).to_be_visible()
