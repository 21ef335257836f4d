"""The navigation: nine entries in one order, one of them current on each page, and what stands below them."""

import re

import pytest
from django.urls import reverse

from dashboard.web.navigation import BELOW, ENTRIES, TABS
from workspaces.models import Schedule

from .test_every_url import ROUTES, site  # noqa: F401 - the fixture that fills every page

NAMES = ["Desk", "Approvals", "Tasks", "Workspaces", "Agents", "History", "Policy", "Set-up", "Me"]
CURRENT = re.compile(r'<a class="nav-link[^>]*aria-current="page"')


def lists_of(page: str) -> tuple[str, str]:
    """Return the phone's bar and the desktop's list."""
    nav = page.split('<nav class="nav"')[1].split("</nav>")[0]
    bar, _, wide = nav.partition('<ul class="nav-wide">')
    return bar, wide


def words_of(part: str) -> list[str]:
    return [re.sub(r"\s+", " ", each).strip() for each in re.findall(r'class="nav-text">([^<]*)<', part)]


def test_there_are_nine_entries_and_the_stop_at_the_foot(bob, browser_of, read):
    bar, wide = lists_of(read(browser_of(bob), "/"))
    assert words_of(wide) == [*NAMES, "Stop everything"]
    assert words_of(bar) == ["Desk", "Approvals", "Workspaces"]
    more = read(browser_of(bob), "/more/").split('class="rows tight more-list"')[1].split("</ul>")[0]
    links = [re.sub("<[^>]*>", "", each).strip() for each in re.findall(r"<a[^>]*>(.*?)</a>", more, re.DOTALL)]
    assert links == [name for name in NAMES if name not in words_of(bar)] + ["Stop everything"]


def test_every_page_has_one_current_entry(site, browser_of, alice):  # noqa: F811 - the fixture
    client, walked = browser_of(alice), 0
    for route, name in ROUTES:
        response = client.get(reverse(name, kwargs=site(route)))
        if response.status_code != 200 or response.streaming or "text/html" not in response["Content-Type"]:
            continue
        page = response.content.decode()
        if '<nav class="nav"' not in page:
            continue
        walked += 1
        current = [len(CURRENT.findall(part)) for part in lists_of(page)]
        assert current == ([1, 0] if name == "more" else [1, 1]), (route, name)  # a desktop has no More
    assert walked > 80


def test_what_is_below_an_entry_marks_that_entry():
    entries = {page.name for page in ENTRIES}
    assert set(BELOW.values()) <= entries
    assert all(tabs[0].name in entries for tabs in TABS)


@pytest.mark.parametrize(
    ("address", "beside", "entry"), [("/measures/", "/log/", "History"), ("/lessons/", "/artifacts/", "Workspaces")]
)
def test_pages_below_an_entry_are_its_tabs(address, beside, entry, alice, browser_of, read):
    page = read(browser_of(alice), address)
    tabs = page.split('<nav class="tabs"')[1].split("</nav>")[0]
    assert f'<a href="{address}" aria-current="page">' in tabs
    assert f'<a href="{beside}">' in tabs
    current = re.search(CURRENT.pattern + '.*?nav-text">([^<]*)<', lists_of(page)[1], re.DOTALL)
    assert current[1] == entry


def test_set_up_has_a_line_for_each_page_with_how_it_stands(workspace, team, alice, browser_of, read):
    Schedule.objects.create(
        team=team,
        name="nightly",
        cron="0 3 * * *",
        kind="command",
        workspace=workspace,
        created_at=workspace.created_at,
    )
    page = read(browser_of(alice), "/set-up/")
    for address in ("environments", "secrets", "schedules", "connect", "definitions", "team", "tokens", "storage"):
        assert f'href="/{address}/"' in page
    assert 'href="/status/"' in page
    assert 'href="/log/targets/"' in page
    assert "1 environment<" in page
    assert "1 schedule<" in page
    assert "not checked yet" in page


def test_set_up_leaves_out_what_the_person_may_not_open(bob, browser_of, read):
    page = read(browser_of(bob), "/set-up/")
    assert 'href="/environments/"' in page
    for address in ("/secrets/", "/tokens/", "/log/targets/", "/teams/"):
        assert f'href="{address}"' not in page.split('id="main"')[1]


def test_the_pages_of_the_set_up_lead_back_to_it(alice, browser_of, read):
    client = browser_of(alice)
    for address in (
        "environments",
        "secrets",
        "schedules",
        "connect",
        "team",
        "tokens",
        "storage",
        "status",
        "log/targets",
    ):
        assert '<a class="back" href="/set-up/">' in read(client, f"/{address}/"), address
