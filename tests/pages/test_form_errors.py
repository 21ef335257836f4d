"""Each small form of a page: wrong input changes nothing, is shown again, and its error stands at its field."""

import html
import re

import pytest

from dashboard.models import Agent, Event, Team
from workspaces import secrets
from workspaces.models import Allowance, Cap, Environment, Hold, Operation, Preview, Prices, SavedView, State, Workspace

from .conftest import make_workspace
from .test_export_page import _by

SHOP = "/w/payments/shop"
LONG = "x" * 81

# (address, what is sent, id of the field with the error, words of the error); {agent} is the id of one.
FORMS = [
    ("/agents/add/", {"team": "payments", "name": LONG}, "a-name", "at most 80 characters"),
    ("/connect/token/", {"team": "payments", "name": LONG, "tab": "python"}, "c-name", "at most 80 characters"),
    ("/team/tickets/", {"team": "payments", "address": "tracker/{ticket}"}, "tickets-payments-address", "begin with"),
    ("/teams/rename/", {"team": "payments", "name": "n" * 121}, "name-payments", "at most 120 characters"),
    ("/teams/create/", {"name": "Other", "slug": "payments"}, "new-slug", "There is already a team payments."),
    ("/teams/create/", {"name": "Other", "slug": "a b"}, "new-slug", "valid “slug”"),
    (
        "/log/targets/add/",
        {"team": "payments", "kind": "webhook", "address": "http://10.0.0.1/"},
        "address-payments",
        "A webhook is an https address",
    ),
    ("/measures/limits/", {"team": "payments", "measure": "workspaces", "amount": "many"}, "cap-workspaces-amount", ""),
    ("/measures/prices/", {"team": "payments", "currency": "E1"}, "price-currency", "three letters"),
    (
        "/measures/prices/",
        {"team": "payments", "currency": "EUR", "egress_gb": "-1"},
        "price-egress_gb",
        "Write a price",
    ),
    ("/workspaces/views/save/", {"name": "v" * 61, "query": "quiet=3"}, "view-name", "at most 60 characters"),
    ("/workspaces/views/save/", {"name": "All", "query": ""}, "view-name", "Choose a filter or an order first."),
    (f"{SHOP}/snapshots/1/fork/", {"key": "No Key"}, "key", "Use lower-case letters"),
    (f"{SHOP}/snapshots/1/fork/", {"key": "shop"}, "key", "The key shop is already used."),
    (f"{SHOP}/network/preview/", {"port": "80"}, "preview-port", "other than 80, 3128 and 49983"),
    (f"{SHOP}/network/preview/", {"port": "web"}, "preview-port", "A port is a number"),
    (f"{SHOP}/network/allow/", {"host": "a b", "scope": "workspace"}, "allow-host", ""),
    (f"{SHOP}/push/", {"branch": "a..b"}, "push-branch", "Not a valid branch name."),
    (f"{SHOP}/pull-request/", {"branch": "a..b", "title": "Fix"}, "pull-branch", "Not a valid branch name."),
    (
        f"{SHOP}/pull-request/",
        {"branch": "fix", "base": "-x", "title": "Fix"},
        "pull-base",
        "Not a valid branch name.",
    ),
    (f"{SHOP}/snapshots/2/hold/", {"reason": "lawsuit", "days": "soon"}, "snapshot-hold-days", "a number of days"),
    (f"{SHOP}/hold/", {"reason": "lawsuit", "days": "0", "number": "2"}, "workspace-hold-days", "a number of days"),
    (f"{SHOP}/network/host-port/", {"port": "70000"}, "host-port", "65535"),
    (f"{SHOP}/network/host-port/", {"port": "web"}, "host-port", "A port is a number"),
    ("/agents/{agent}/talk/", {"text": "   "}, "talk-text", "required"),
]


@pytest.fixture
def shop(team, agent, alice):
    """A workspace that came from a code host, whose token is kept."""
    origin = "https://git.example.org"
    secrets.save(team, "CODE_HOST_GIT_EXAMPLE_ORG", "host", "the-token", origin=origin, by=_by(alice))
    source = {"git": "https://git.example.org/team/shop.git"}
    return make_workspace(team, agent, "shop", State.READY, source=source, held=True)


def told():
    """Return what the forms would have changed."""
    kept = (Allowance, Cap, Hold, Operation, Preview, Prices, SavedView, Agent, Workspace)
    return [model.objects.count() for model in kept], list(Team.objects.values_list("name", "ticket_url"))


def element(text: str, pk: str) -> str:
    """Return the tag with this id."""
    found = re.findall(rf'<(?:input|select|textarea)[^>]*\bid="{re.escape(pk)}"[^>]*>', text)
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("address", "sent", "field", "words"), FORMS, ids=[f"{row[2]}-{n}" for n, row in enumerate(FORMS)]
)
def test_wrong_input_stands_at_its_field(shop, agent, alice, browser_of, address, sent, field, words):
    alice.is_superuser = True
    alice.save()
    before = told()
    answer = browser_of(alice).post(address.replace("{agent}", str(agent.pk)), sent)
    assert answer.status_code == 200
    text = answer.content.decode()
    tag = element(text, field)
    assert ('aria-invalid="true"' in tag, f'{field}_error"' in tag) == (True, True)
    error = re.search(rf'<p class="errorlist" role="alert" id="{re.escape(field)}_error">([^<]*)</p>', text)
    assert error
    assert words in error[1]
    assert re.findall(r"<[^>]*\bautofocus\b[^>]*>", text) == [tag]
    assert told() == before
    assert not Event.objects.exclude(verb__startswith="secret.").exists()


@pytest.mark.parametrize(
    ("address", "sent", "field", "words"), FORMS, ids=[f"{row[2]}-{n}" for n, row in enumerate(FORMS)]
)
def test_what_was_typed_stays(shop, agent, alice, browser_of, address, sent, field, words):
    alice.is_superuser = True
    alice.save()
    text = browser_of(alice).post(address.replace("{agent}", str(agent.pk)), sent).content.decode()
    for value in sent.values():
        assert not value.strip() or value.strip() in text


@pytest.mark.parametrize("address", sorted({row[0] for row in FORMS}))
def test_the_page_shown_again_has_an_address_that_can_be_read(shop, agent, alice, browser_of, address):
    """Its live updates, a reload and the language switch use that one: most forms' own addresses take no GET."""
    alice.is_superuser = True
    alice.save()
    browser, sent = browser_of(alice), next(row[1] for row in FORMS if row[0] == address)
    text = browser.post(address.replace("{agent}", str(agent.pk)), sent).content.decode()
    page = html.unescape(re.search(r'<body[^>]*\bdata-address="([^"]*)"', text)[1])
    assert browser.get(page).status_code == 200
    assert all(html.unescape(there) == page for there in re.findall(r'name="next" value="([^"]*)"', text))


def test_a_page_that_was_asked_for_names_no_other_address(shop, alice, browser_of, read):
    assert "data-address" not in read(browser_of(alice), "/team/")


def test_a_port_that_is_handrails_is_refused_at_its_field(team, alice, browser_of, settings):
    environment = Environment.objects.create(team=team, name="folder", driver="folder")
    workspace = Workspace.objects.create(team=team, key="mine", environment=environment, state=State.READY, held=True)
    sent = {"port": str(settings.HANDRAIL_PORT)}
    text = browser_of(alice).post("/w/payments/mine/network/host-port/", sent).content.decode()
    assert 'aria-invalid="true"' in element(text, "host-port")
    assert f"Port {settings.HANDRAIL_PORT} is Handrail" in text
    workspace.refresh_from_db()
    assert (workspace.host_ports, Event.objects.count()) == ([], 0)


def test_a_choice_that_is_not_offered_is_refused_at_its_field(team, alice, browser_of):
    wanted = {"team": "payments", "name": "Codex", "days": "9999"}
    text = browser_of(alice).post("/agents/add/", wanted).content.decode()
    assert 'aria-invalid="true"' in element(text, "a-days")
    assert 'value="Codex"' in element(text, "a-name")
    assert not Agent.objects.exists()


def test_without_an_error_nothing_takes_the_focus(shop, alice, browser_of, read):
    for address in ("/agents/", "/team/", "/teams/", "/measures/", f"{SHOP}/network/", f"{SHOP}/snapshots/2/"):
        assert "autofocus" not in read(browser_of(alice), address)
