"""Tokens: an expiry chosen when one is made, the list of all for an admin, those that nobody uses, and the API."""

from datetime import timedelta

import pytest
from django.core.management import call_command

from dashboard.database import clock
from dashboard.models import Event, Token
from dashboard.people import token_list
from dashboard.people.tokens import find_token, make_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(team, agent):
    """A token that was made a hundred days ago and never used."""
    plain = make_token(team, agent=agent)
    Token.objects.filter(agent=agent).update(created_at=clock.now() - timedelta(days=100))
    return find_token_row(plain)


def find_token_row(plain) -> Token:
    return Token.objects.get(prefix=plain[:11])


def days_left(token) -> int | None:
    return token.expires_at and round((token.expires_at - clock.now()) / timedelta(days=1))


@pytest.mark.parametrize(("chosen", "days"), [({}, 90), ({"days": "30"}, 30), ({"days": "365"}, 365)])
def test_a_token_ends_after_the_chosen_days(lena, team, browser_of, chosen, days):
    browser_of(lena).post("/agents/add/", {"team": team.slug, "name": "Codex", **chosen})
    token = Token.objects.get()
    assert days_left(token) == days
    event = Event.objects.get(verb="token.created")
    assert (event.actor_label, event.data["expires_at"][:10]) == ("lena", token.expires_at.date().isoformat())


def test_a_token_may_never_expire(lena, team, browser_of):
    client = browser_of(lena)
    client.post("/agents/add/", {"team": team.slug, "name": "Codex", "days": "0"})
    assert Token.objects.get().expires_at is None
    text = client.get("/agents/").content.decode()
    assert "works for whoever finds it until somebody revokes it" in text


@pytest.mark.parametrize("days", ["x", "-1", "99999", "1.5", "²"])
def test_an_invalid_number_of_days_creates_no_token(lena, agent, browser_of, days):
    answer = browser_of(lena).post(f"/agents/{agent.pk}/token/", {"days": days}, follow=True)
    assert ("A token is valid for 1 to 3650 days" in answer.content.decode(), Token.objects.count()) == (True, 0)


def test_create_token_prints_one_without_end_unless_told(team, capsys):
    call_command("create_token", team=team.slug, agent="a")
    assert find_token(capsys.readouterr().out.strip()).expires_at is None
    call_command("create_token", team=team.slug, agent="a", days=7)
    assert days_left(find_token(capsys.readouterr().out.strip())) == 7


def test_an_admin_sees_all_tokens_of_the_team_and_no_others(alice, bob, team, agent, mallory, other_agent, browser_of):
    own = [make_token(team, agent=agent), make_token(team, user=bob)]
    foreign = make_token(mallory.memberships.get().team, agent=other_agent)
    text = browser_of(alice).get("/tokens/").content.decode()
    assert [plain[:11] in text for plain in (*own, foreign)] == [True, True, False]
    assert [plain in text for plain in own] == [False, False]


def test_the_list_is_filtered(alice, bob, team, agent, old, browser_of):
    person = find_token_row(make_token(team, user=bob))
    ended = find_token_row(make_token(team, agent=agent, expires_at=clock.now() - timedelta(days=1)))
    client = browser_of(alice)

    def found(query) -> set:
        return {token.pk for token in client.get(f"/tokens/?{query}").context["tokens"]}

    assert found("") == {old.pk, person.pk}
    assert found("state=unused") == {old.pk}
    assert found("state=expired") == {ended.pk}
    assert found("state=all&kind=person") == {person.pk}
    assert found("state=all&q=bob") == {person.pk}
    assert found("state=all&team=other") == set()


def test_only_admins_open_the_list(lena, bob, browser_of):
    assert [browser_of(person).get("/tokens/").status_code for person in (lena, bob)] == [403, 403]


def test_a_persons_token_is_revoked_from_the_list(alice, bob, lena, team, mallory, browser_of):
    token = find_token_row(make_token(team, user=bob))
    assert browser_of(lena).post(f"/tokens/{token.pk}/end/").status_code == 403
    assert browser_of(mallory).post(f"/tokens/{token.pk}/end/").status_code == 404
    browser_of(alice).post(f"/tokens/{token.pk}/end/")
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert Event.objects.get(verb="token.revoked").actor_label == "alice"


def test_the_unused_are_revoked_in_one_go(alice, team, agent, old, browser_of):
    used = find_token_row(make_token(team, agent=agent))
    Token.objects.filter(pk=used.pk).update(created_at=clock.now() - timedelta(days=200), last_used_at=clock.now())
    client = browser_of(alice)
    assert "1 token of Payments was not used for 90 days." in client.get("/tokens/").content.decode()
    client.post("/tokens/revoke-unused/", {"team": team.slug})
    assert set(Token.objects.filter(revoked_at=None)) == {used}
    assert Event.objects.filter(verb="token.revoked").count() == 1


def test_a_lead_and_a_stranger_revoke_no_unused(lena, mallory, team, old, browser_of):
    answers = [browser_of(who).post("/tokens/revoke-unused/", {"team": team.slug}) for who in (lena, mallory)]
    assert [answer.status_code for answer in answers] == [403, 404]
    assert Token.objects.get(pk=old.pk).revoked_at is None


# API -----------------------------------------------------------------------------------------------------------------


def test_the_api_lists_makes_and_revokes(alice, team, api, token_of, old):
    admin = api(token_of(alice))
    made = admin.post("/api/v1/tokens", {"agent": "ci", "days": 10}, content_type="application/json").json()
    assert (find_token(made["token"]).agent.name, days_left(find_token(made["token"]))) == ("ci", 10)
    listed = admin.get("/api/v1/tokens?kind=agent").json()["tokens"]
    assert [(one["of"], one["state"]) for one in listed] == [("ci", "live"), ("claude", "unused")]
    assert admin.post("/api/v1/tokens/revoke-unused").json() == {"revoked": 1}
    answer = admin.post(f"/api/v1/tokens/{listed[0]['id']}/revoke")
    assert (answer.status_code, answer.json()["state"]) == (200, "revoked")
    assert admin.post(f"/api/v1/tokens/{listed[0]['id']}/revoke").status_code == 409


def test_the_api_is_for_admins_of_the_team(lena, alice, mallory, agent_token, old, api, token_of):
    for token in (token_of(lena), agent_token):
        assert api(token).get("/api/v1/tokens").status_code == 403
        assert api(token).post(f"/api/v1/tokens/{old.pk}/revoke").status_code == 403
    assert api(token_of(mallory)).post(f"/api/v1/tokens/{old.pk}/revoke").status_code == 404
    assert api(agent_token).post("/api/v1/tokens", {"agent": "x"}, content_type="application/json").status_code == 403


def test_states_and_kinds_are_known_or_refused(team):
    for name in token_list.STATES:
        assert list(token_list.in_state(Token.objects.all(), name)) == []
    for name in token_list.KINDS:
        assert list(token_list.of_kind(Token.objects.all(), name)) == []
