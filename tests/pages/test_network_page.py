"""The Network page: what was held back comes first, and who may allow a host does it there."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.database import clock
from dashboard.models import Event
from workspaces.egress.attempts import Attempt, Block, BlockCode
from workspaces.models import Allowance, Environment
from workspaces.services import network

from .conftest import make_workspace

AT = "/w/payments/repo-task-1/network/"


@pytest.fixture
def tried(workspace):
    """Two tries at a host that is not listed, one at one that is, one at no name at all."""
    Environment.objects.filter(pk=workspace.environment_id).update(egress={"agent": ["good.example.org"]})
    workspace.refresh_from_db()
    not_listed = Attempt("bad.example.org", 443, "CONNECT", block=network.NOT_LISTED)
    network.count(workspace.pk, "agent", not_listed, 2, clock.now())
    network.count(workspace.pk, "agent", Attempt("good.example.org", 443, "CONNECT", allowed=True), 1, clock.now())
    network.count(
        workspace.pk, "agent", Attempt("good.example.org", 443, "CONNECT", True, None, 10, 4096), 0, clock.now()
    )
    block = Block(BlockCode.INVALID_NAME, "That is not a valid host name.")
    network.count(workspace.pk, "agent", Attempt("<b>x", 0, "GET", block=block), 1, clock.now())
    return workspace


def test_attempts_are_shown_with_counts_and_escaped_names(browser_of, vera, tried):
    text = browser_of(vera).get(AT).text
    assert text.index("bad.example.org") < text.index("Connections allowed")
    assert "2 tries · CONNECT" in text
    assert "1 connection · 10 bytes out, 4.0 KB in" in text.replace("\xa0", " ")
    assert "&lt;b&gt;x" in text
    assert "<b>x" not in text
    assert 'name="scope"' not in text  # a viewer allows nothing


@pytest.mark.parametrize("scope", ["once", "workspace"])
def test_a_reviewer_allows_with_one_tap(browser_of, bob, tried, scope):
    page = browser_of(bob)
    assert 'value="environment"' not in page.get(AT).text
    wish = {"host": "bad.example.org", "port": "443", "phase": "agent", "scope": scope}
    said = page.post(f"{AT}allow/", wish, follow=True).text
    assert "bad.example.org is now allowed. No restart needed." in said
    assert network.why_blocked(tried.pk, "agent", "bad.example.org", 443) is None
    assert network.why_blocked(tried.pk, "setup", "bad.example.org", 443) == network.NOT_LISTED
    [made] = Allowance.objects.all()
    said = page.post(f"{AT}back/", {"allowance": made.pk}, follow=True).text
    assert "Revoked. Connections that it allowed are closed within seconds." in said
    assert network.why_blocked(tried.pk, "agent", "bad.example.org", 443) == network.NOT_LISTED
    verbs = Event.objects.filter(verb__startswith="network.").order_by("seq").values_list("verb", flat=True)
    assert list(verbs)[-2:] == ["network.allowed", "network.revoked"]


def test_for_the_environment_it_takes_a_lead(browser_of, bob, lena, tried):
    wish = {"host": "bad.example.org", "phase": "agent", "scope": "environment"}
    assert browser_of(bob).post(f"{AT}allow/", wish).status_code == 403
    assert Allowance.objects.count() == 0
    browser_of(lena).post(f"{AT}allow/", wish)
    assert Environment.objects.get(version=2).egress == {"agent": ["good.example.org", "bad.example.org"]}
    assert network.why_blocked(tried.pk, "agent", "bad.example.org", 443) is None


def test_a_folder_of_the_user_has_nothing_to_allow(browser_of, bob, workspace):
    Environment.objects.filter(pk=workspace.environment_id).update(driver="folder")
    page = browser_of(bob)
    assert "Handrail blocks nothing here." in page.get(AT).text
    said = page.post(f"{AT}allow/", {"host": "example.org"}, follow=True).text
    assert "your own folder with your own network" in said
    assert Allowance.objects.count() == 0


def test_once_is_used_up_by_one_and_expires(workspace, bob):
    wish = network.check_request(workspace, {"host": "bad.example.org", "scope": "once"})
    by = network.Actor.person(bob)
    network.allow(workspace, wish, by=by)
    assert [network.use(workspace.pk, "agent", "bad.example.org", 443) for _ in range(2)] == [
        (None, False),
        (network.NOT_LISTED, True),
    ]
    made = network.allow(workspace, wish, by=by)
    Allowance.objects.filter(pk=made.pk).update(expires_at=clock.now())
    assert network.why_blocked(workspace.pk, "agent", "bad.example.org", 443) == network.NOT_LISTED


def test_rows_are_bounded_and_their_counts_are_not(workspace):
    for number in range(network.MAX_CONTACT_ROWS + 20):
        attempt = Attempt(f"{number}.example.org", 443, "CONNECT", block=network.NOT_LISTED)
        network.count(workspace.pk, "agent", attempt, 5, clock.now())
    rows = workspace.contacts.all()
    assert rows.count() == network.MAX_CONTACT_ROWS + 1
    assert sum(row.count for row in rows) == 5 * (network.MAX_CONTACT_ROWS + 20)
    assert Event.objects.filter(verb="network.blocked").count() == network.MAX_BLOCK_EVENTS


def test_a_row_of_before_there_were_codes_is_counted_on(workspace):
    attempt = Attempt(
        "down.example.org", 443, "CONNECT", block=Block(BlockCode.UNREACHABLE, "the host does not answer")
    )
    network.count(workspace.pk, "agent", attempt, 1, clock.now())
    workspace.contacts.update(code="")
    network.count(workspace.pk, "agent", attempt, 2, clock.now())
    assert list(workspace.contacts.values_list("count", "code")) == [(3, "unreachable")]


def test_thirty_rows_cost_what_one_costs(browser_of, bob, team, agent, tried):
    page = browser_of(bob)

    def cost():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            page.get(AT)
        return len(queries)

    cost()  # the first page of a session writes the session down
    few = cost()
    for number in range(30):
        attempt = Attempt(f"{number}.example.org", 443, "CONNECT", block=network.NOT_LISTED)
        network.count(tried.pk, "agent", attempt, 1, clock.now())
    assert cost() == few


def test_another_teams_network_is_not_there(browser_of, mallory, tried):
    page = browser_of(mallory)
    assert page.get(AT).status_code == 404
    assert page.post(f"{AT}allow/", {"host": "evil.example.org"}).status_code == 404
    assert Allowance.objects.count() == 0


def test_an_allowance_is_for_one_workspace(team, agent, workspace, bob):
    other = make_workspace(team, agent, "repo-task-2")
    wish = network.check_request(workspace, {"host": "bad.example.org"})
    network.allow(workspace, wish, by=network.Actor.person(bob))
    assert network.why_blocked(other.pk, "agent", "bad.example.org", 443) == network.NOT_LISTED
