"""Where a person is signed in: the list under Me, signing out one browser or all, and what an admin may end."""

from datetime import timedelta

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.http import HttpRequest
from django.test import Client

from dashboard.database import clock
from dashboard.models import Event, Membership
from dashboard.people import sessions
from dashboard.people.tokens import make_sign_in_link
from dashboard.web.socket_auth import _by_session

pytestmark = pytest.mark.django_db
FIREFOX = "Mozilla/5.0 (Android 14; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0"
CHROME = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"


@pytest.fixture(autouse=True)
def no_earlier_use():
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def come_in():
    """`come_in(alice, FIREFOX)`: her browser, signed in by a one-time link."""

    def by_link(person, user_agent=CHROME, address="192.0.2.7"):
        client = Client(headers={"User-Agent": user_agent}, REMOTE_ADDR=address)
        client.post(f"/sign-in/{make_sign_in_link(person)}/")
        return client

    return by_link


def is_in(client) -> bool:
    return client.get("/me/").status_code == 200


def devices(person) -> list[tuple]:
    return [(one.device, one.row.ip, one.how) for one in sessions.of(person)]


def test_me_lists_each_browser_with_its_address(alice, come_in):
    come_in(alice, FIREFOX, "192.0.2.1")
    laptop = come_in(alice, CHROME, "192.0.2.2")
    assert devices(alice) == [("Chrome on Linux", "192.0.2.2", "link"), ("Firefox on Android", "192.0.2.1", "link")]
    text = laptop.get("/me/").content.decode()
    assert ("Firefox on Android" in text, "192.0.2.1" in text, "(this browser)" in text) == (True, True, True)


def test_the_last_use_is_written_at_most_once_a_minute(alice, come_in):
    client = come_in(alice)
    long_ago = clock.now() - timedelta(hours=1)
    UserSession.objects.update(last_seen_at=long_ago)
    client.get("/me/")
    first = UserSession.objects.get().last_seen_at
    client.get("/me/")
    cache.clear()  # as a minute later
    client.get("/me/")
    assert long_ago < first < UserSession.objects.get().last_seen_at


def test_a_session_that_is_signed_out_opens_nothing(alice, team, come_in):
    phone, laptop = come_in(alice, FIREFOX), come_in(alice)
    lost = UserSession.objects.get(user_agent=FIREFOX)
    assert laptop.post(f"/me/sessions/{lost.pk}/end/").status_code == 302
    assert (is_in(phone), is_in(laptop)) == (False, True)
    event = Event.objects.get(team=team, verb="person.session_ended")
    assert (event.actor_label, event.data) == ("alice", {"device": "Firefox on Android"})


def test_an_ended_session_closes_its_sockets_at_the_next_check(alice, come_in):
    client = come_in(alice)
    scope = {"cookies": {name: morsel.value for name, morsel in client.cookies.items()}}
    assert _by_session(scope, "WS /ws/live").user == alice
    sessions.end_all(alice, by=_by_session(scope, "WS /ws/live").actor)
    assert _by_session(scope, "WS /ws/live") is None


def test_signing_out_everywhere_else_leaves_this_browser(alice, come_in):
    phone, laptop = come_in(alice, FIREFOX), come_in(alice)
    laptop.post("/me/sessions/end/", {"this": ""})
    assert (is_in(phone), is_in(laptop)) == (False, True)
    assert Event.objects.get(verb="person.sessions_ended").data == {"count": 1}


def test_signing_out_everywhere_ends_this_browser_too(alice, come_in):
    phone, laptop = come_in(alice, FIREFOX), come_in(alice)
    assert laptop.post("/me/sessions/end/", {"this": "1"})["Location"] == "/accounts/login/"
    assert (is_in(phone), is_in(laptop)) == (False, False)
    assert not UserSession.objects.exists()


def test_a_session_that_was_never_noted_ends_as_well(alice, bob, browser_of):
    unknown, other = browser_of(alice), browser_of(bob)
    assert UserSession.objects.count() == 0
    assert len(sessions.end_all(alice, by=sessions.Actor.person(alice))) == 1
    assert (is_in(unknown), is_in(other)) == (False, True)


def test_an_admin_ends_all_sessions_of_a_member(alice, bob, come_in):
    phone, admin = come_in(bob, FIREFOX), come_in(alice)
    admin.post(f"/team/{Membership.objects.get(user=bob).pk}/sessions/")
    assert (is_in(phone), is_in(admin)) == (False, True)
    event = Event.objects.get(verb="person.sessions_ended")
    assert (event.actor_label, event.subject_id) == ("alice", str(bob.pk))


def test_a_lead_and_another_teams_admin_end_nothing(alice, lena, bob, mallory, come_in):
    phone, address = come_in(bob), f"/team/{Membership.objects.get(user=bob).pk}/sessions/"
    assert come_in(lena).post(address).status_code == 403
    assert come_in(mallory).post(address).status_code == 404
    assert is_in(phone)


def test_nobody_ends_another_persons_session_by_its_number(alice, bob, come_in):
    phone = come_in(bob)
    number = UserSession.objects.get(user=bob).pk
    assert come_in(alice).post(f"/me/sessions/{number}/end/").status_code == 404
    assert is_in(phone)


def test_a_session_that_a_new_password_ended_is_not_listed(alice, come_in):
    come_in(alice)
    alice.set_password("correct horse battery staple")
    alice.save()
    assert devices(alice) == []


def test_what_is_left_of_expired_sessions_goes(alice, come_in):
    come_in(alice)
    Session.objects.update(expire_date=clock.now() - timedelta(seconds=1))
    sessions.forget_expired()
    assert (Session.objects.count(), UserSession.objects.count()) == (0, 0)


def test_a_request_without_an_address_is_noted_too(alice, client):
    client.force_login(alice)
    request = HttpRequest()
    request.session, request.user = client.session, alice
    sessions.write(request, alice)
    assert UserSession.objects.get().ip == "0.0.0.0"
