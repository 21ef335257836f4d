"""A team that wants a second factor at sign-in: who is led to set one up, what is open until then, who may say so."""

import pytest
from allauth.account.internal.flows.login import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.core.cache import cache
from django.test import Client

from dashboard.models import Event, Team
from dashboard.people import second_factor_rule
from dashboard.people.tokens import make_sign_in_link
from dashboard.web.socket_auth import _by_session

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"
SET_UP = "/me/second-factor/"


@pytest.fixture(autouse=True)
def no_earlier_tries():
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def rule(team):
    """`rule("leads")`: the team wants it of these."""
    return lambda wanted: Team.objects.filter(pk=team.pk).update(second_factor_for=wanted)


@pytest.fixture
def by_link():
    def come_in(person):
        client = Client()
        client.post(f"/sign-in/{make_sign_in_link(person)}/")
        return client

    return come_in


def set_up_app(client) -> str:
    """An authenticator app, set up on its page; its secret. allauth sends its signal after a real commit."""
    secret = client.get("/accounts/2fa/totp/activate/").context["form"].secret
    client.post("/accounts/2fa/totp/activate/", {"code": code_of(secret)})
    return secret


def code_of(secret: str) -> str:
    return format_hotp_value(hotp_value(secret, next(yield_hotp_counters_from_time())))


def closed(client, *addresses) -> list[bool]:
    answers = [client.get(address) for address in addresses]
    return [answer.status_code == 302 and answer["Location"] == SET_UP for answer in answers]


def test_without_the_rule_nothing_changes(bob, by_link):
    client = by_link(bob)
    assert client.get("/").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_everybody_without_one_is_led_to_set_it_up(bob, rule, by_link):
    client = by_link(bob)
    rule("everybody")
    assert closed(client, "/", "/waiting/", "/me/", "/team/", "/search/?q=x") == [True] * 5
    assert "Add an authenticator app" in client.get(SET_UP).content.decode()
    set_up_app(client)
    assert client.get("/").status_code == 200
    assert "Nothing is missing." in client.get(SET_UP).content.decode()


def test_only_leads_and_admins_are_led_there(alice, lena, bob, vera, rule, by_link):
    rule("leads")
    people = [alice, lena, bob, vera]
    assert [closed(by_link(person), "/") for person in people] == [[True], [True], [False], [False]]


def test_nothing_is_done_without_it(alice, bob, rule, browser_of, team):
    client = browser_of(alice)
    rule("everybody")
    before = Event.objects.count()
    client.post("/stop/", {"team": team.slug})
    client.post("/agents/add/", {"team": team.slug, "name": "x"})
    assert (Event.objects.count(), team.agents.count()) == (before, 0)


def test_a_socket_stays_closed_without_it(bob, rule, by_link):
    client = by_link(bob)
    scope = {"cookies": {name: morsel.value for name, morsel in client.cookies.items()}}
    assert _by_session(scope, "WS /ws/live").user == bob
    rule("everybody")
    assert _by_session(scope, "WS /ws/live") is None


def test_the_django_admin_stays_closed_without_it(alice, rule, by_link):
    alice.is_staff = alice.is_superuser = True
    alice.save()
    client = by_link(alice)
    assert client.get("/admin/").status_code == 200
    rule("leads")
    assert client.get("/admin/", follow=True).redirect_chain[-1] == (SET_UP, 302)


@pytest.mark.django_db(transaction=True)
def test_a_link_is_no_way_around_a_factor_that_exists(bob, rule, by_link):
    rule("everybody")
    first = by_link(bob)
    secret = set_up_app(first)
    stolen = by_link(bob)
    assert closed(stolen, "/", "/me/") == [True, True]
    assert "Use a code" in stolen.get(SET_UP).content.decode()
    cache.clear()  # a code counts once; here the next one comes at the same moment
    answer = stolen.post("/accounts/2fa/reauthenticate/?next=/", {"code": code_of(secret)})
    assert (answer.status_code, stolen.get("/").status_code) == (302, 200)


@pytest.mark.django_db(transaction=True)
def test_a_factor_that_is_removed_is_wanted_again(bob, rule, by_link):
    rule("everybody")
    client = by_link(bob)
    set_up_app(client)
    Authenticator.objects.all().delete()
    assert AUTHENTICATION_METHODS_SESSION_KEY in client.session
    assert closed(client, "/") == [True]


def test_password_and_code_open_everything_at_once(bob, rule):
    bob.set_password(PASSWORD)
    bob.save()
    secret = generate_totp_secret()
    TOTP.activate(bob, secret)
    rule("everybody")
    client = Client()
    client.post("/accounts/login/", {"login": "bob", "password": PASSWORD})
    client.post("/accounts/2fa/authenticate/", {"code": code_of(secret)})
    assert client.get("/").status_code == 200


def test_an_archived_teams_rule_holds_nobody_up(bob, team, rule, by_link):
    rule("everybody")
    Team.objects.update(archived_at=team.created_at)
    assert closed(by_link(bob), "/") == [False]


def test_an_admin_says_who_needs_one_and_a_lead_may_not(alice, lena, team, browser_of):
    address, wanted = "/team/second-factor/", {"team": "payments", "for": "leads"}
    assert browser_of(lena).post(address, wanted).status_code == 403
    answer = browser_of(alice).post(address, wanted)
    team.refresh_from_db()
    assert (answer.status_code, team.second_factor_for) == (302, "leads")
    event = Event.objects.get(verb="team.second_factor_changed")
    assert (event.actor_label, event.data) == ("alice", {"for": "leads"})


def test_an_unknown_group_and_a_second_time_change_nothing(alice, team, browser_of):
    client = browser_of(alice)
    client.post("/team/second-factor/", {"team": "payments", "for": "dogs"})
    client.post("/team/second-factor/", {"team": "payments", "for": ""})
    team.refresh_from_db()
    assert (team.second_factor_for, Event.objects.count()) == ("", 0)


def test_another_teams_rule_is_404(mallory, team, browser_of):
    assert browser_of(mallory).post("/team/second-factor/", {"team": "payments", "for": ""}).status_code == 404


def test_a_person_without_the_rule_lacks_nothing(bob, rf):
    request = rf.get("/")
    request.user = bob
    assert second_factor_rule.caller_in(request).user == bob
