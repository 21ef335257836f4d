"""The door: one-time links, passwords, and what the log says about both."""

from datetime import timedelta

import pytest
from django.test import Client

from dashboard.database import clock
from dashboard.models import Event, SignInLink
from dashboard.people.tokens import make_sign_in_link

PASSWORD = "correct horse battery staple"


@pytest.fixture
def link(alice):
    return f"/sign-in/{make_sign_in_link(alice)}/"


def is_signed_in(client) -> bool:
    return "_auth_user_id" in client.session


def verbs(team) -> list[str]:
    return list(Event.objects.filter(team=team).order_by("seq").values_list("verb", flat=True))


def test_the_button_of_a_link_signs_in_and_the_log_says_so(client, link, alice, team):
    answer = client.post(link)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.session["_auth_user_id"] == str(alice.pk)
    event = Event.objects.get(team=team)
    assert (event.verb, event.actor_label, event.data) == ("person.signed_in", "alice", {"how": "link"})


@pytest.mark.parametrize("method", ["get", "head"])
def test_looking_at_a_link_uses_nothing_up(client, link, method):
    for _ in range(3):
        assert getattr(client, method)(link).status_code == 200
    assert not is_signed_in(client)
    assert SignInLink.objects.filter(used_at=None).count() == 1
    assert client.post(link).status_code == 302


def test_a_link_is_not_kept_by_caches_nor_told_to_other_sites(client, link):
    answer = client.get(link)
    assert "no-store" in answer["Cache-Control"]
    assert answer["Referrer-Policy"] == "strict-origin"
    assert link.split("/")[2] not in answer.content.decode()


def test_the_form_of_a_link_needs_its_csrf_token(link):
    careful = Client(enforce_csrf_checks=True)
    assert careful.post(link).status_code == 403
    assert SignInLink.objects.filter(used_at=None).count() == 1
    careful.get(link)
    token = careful.cookies[next(name for name in careful.cookies if "csrf" in name)].value
    assert careful.post(link, {"csrfmiddlewaretoken": token}).status_code == 302


def test_a_used_link_is_gone(client, link):
    Client().post(link)
    for answer in (client.get(link), client.post(link)):
        assert answer.status_code == 410
        assert "This link was used" in answer.content.decode()
    assert not is_signed_in(client)


def test_an_expired_link_is_gone(client, link):
    SignInLink.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    for answer in (client.get(link), client.post(link)):
        assert answer.status_code == 410
        assert "This link has expired" in answer.content.decode()
    assert not is_signed_in(client)


def test_a_new_link_ends_the_earlier_one(client, link, alice):
    make_sign_in_link(alice)
    assert client.post(link).status_code == 410


@pytest.mark.django_db
def test_an_unknown_link_is_404(client):
    assert client.get("/sign-in/nothing/").status_code == 404
    assert client.post("/sign-in/nothing/").status_code == 404


def test_a_closed_account_is_out_at_once_and_its_link_is_void(client, link, alice):
    other = f"/sign-in/{link.split('/')[2]}/"
    client.post(link)
    alice.is_active = False
    alice.save()
    answer = client.get("/me/")
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/accounts/login/")
    assert Client().post(other).status_code == 410


@pytest.mark.parametrize(
    ("wanted", "goes_to"),
    [
        ("/actions/", "/actions/"),
        ("https://evil.example/", "/"),
        ("//evil.example/", "/"),
        ("javascript:alert(1)", "/"),
        ("", "/"),
    ],
)
def test_a_link_returns_to_our_own_pages_only(client, link, wanted, goes_to):
    assert client.post(link, {"next": wanted})["Location"] == goes_to


def test_signing_in_makes_a_new_session(client, link):
    client.get(link)
    client.cookies["sessionid"] = "chosen-by-somebody-else"
    client.post(link)
    assert client.session.session_key != "chosen-by-somebody-else"


def test_a_person_who_came_by_link_may_choose_a_password(client, link, alice):
    client.post(link)
    client.post("/accounts/password/set/", {"password1": PASSWORD, "password2": PASSWORD})
    alice.refresh_from_db()
    assert alice.check_password(PASSWORD)


def test_a_password_signs_in_and_out_with_events(client, alice, team):
    alice.set_password(PASSWORD)
    alice.save()
    answer = client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    assert (answer.status_code, answer["Location"]) == (302, "/")
    client.post("/accounts/logout/")
    assert not is_signed_in(client)
    assert verbs(team) == ["person.signed_in", "person.signed_out"]


def test_a_wrong_password_is_an_event_of_the_persons_team_alone(client, alice, team, other_team):
    client.post("/accounts/login/", {"login": "alice", "password": "wrong"})
    client.post("/accounts/login/", {"login": "nobody", "password": "wrong"})
    assert not is_signed_in(client)
    assert verbs(team) == ["person.sign_in_failed"]
    assert verbs(other_team) == []


def test_guessing_passwords_is_slowed_down(client, alice):
    alice.set_password(PASSWORD)
    alice.save()
    for _ in range(6):
        client.post("/accounts/login/", {"login": "alice", "password": "wrong"})
    client.post("/accounts/login/", {"login": "alice", "password": PASSWORD})
    assert not is_signed_in(client)


@pytest.mark.django_db
def test_nobody_signs_up(client):
    answer = client.post("/accounts/signup/", {"username": "eve", "password1": PASSWORD, "password2": PASSWORD})
    assert "_auth_user_id" not in client.session
    assert answer.status_code == 200


def test_the_admin_has_no_door_of_its_own(client, db):
    answer = client.get("/admin/login/")
    assert (answer.status_code, answer["Location"].split("?")[0]) == (302, "/accounts/login/")


def test_secrets_of_links_stay_out_of_logs(client, alice, caplog, capsys):
    secret = make_sign_in_link(alice)
    import logging

    from dashboard.logs import Context

    record = logging.LogRecord("django.request", logging.WARNING, "", 0, "Gone: %s", (f"/sign-in/{secret}/",), None)
    Context().filter(record)
    assert record.getMessage() == "Gone: /sign-in/…/"
