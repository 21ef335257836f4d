"""Signing in with a real OpenID Connect provider: accounts and roles from groups, and what is refused on the way."""

import socket
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.test import Client

from dashboard.models import Event, GroupRole, Membership, Role, SecondFactorFor, Token
from dashboard.people.tokens import make_token
from tests.support import identity_provider

from .conftest import at_provider

pytestmark = pytest.mark.django_db
users = get_user_model().objects


def is_signed_in(client) -> bool:
    return "_auth_user_id" in client.session


def events(team) -> list[tuple]:
    return [(one.verb, one.actor_label, one.data) for one in Event.objects.filter(team=team).order_by("seq")]


def test_the_first_sign_in_makes_an_account_with_the_role_of_its_group(sign_in, team):
    client, response = sign_in(begin="/accounts/sso/?next=/log/")
    assert (response.status_code, response["Location"]) == (302, "/log/")
    carla = users.get(username="carla")
    assert client.session["_auth_user_id"] == str(carla.pk)
    assert list(carla.memberships.values_list("team__slug", "role")) == [("payments", "reviewer")]
    assert not carla.has_usable_password()
    assert client.get("/log/").status_code == 200
    assert events(team) == [
        ("person.added", "single sign-on", {"role": "reviewer", "groups": ["reviewers"]}),
        ("person.signed_in", "carla", {"how": "single sign-on"}),
    ]


def test_the_sign_in_page_offers_it_and_only_while_it_is_set_up(client, provider):
    assert "Sign in with Acme ID" in client.get("/accounts/login/").content.decode()
    provider.active = False
    provider.save()
    assert "Sign in with" not in client.get("/accounts/login/").content.decode().replace("Sign in with a passkey", "")
    assert client.get("/accounts/sso/").status_code == 404
    assert client.get("/accounts/sso/callback/?state=x&code=y").status_code == 404


def test_a_request_carries_state_nonce_and_a_pkce_challenge(client, provider):
    asked = parse_qs(urlsplit(client.get("/accounts/sso/")["Location"]).query)
    assert asked["response_type"] == ["code"]
    assert asked["code_challenge_method"] == ["S256"]
    assert sorted(asked["scope"][0].split()) == ["email", "openid", "profile"]
    again = parse_qs(urlsplit(client.get("/accounts/sso/")["Location"]).query)
    for name in ("state", "nonce", "code_challenge"):
        assert len(asked[name][0]) >= 16
        assert asked[name] != again[name]


def test_what_a_visitor_adds_to_the_address_does_not_reach_the_provider(client, provider):
    more = urlencode({"scope": "admin", "auth_params": "prompt=none", "process": "connect", "next": "//evil.example"})
    asked = parse_qs(urlsplit(client.get(f"/accounts/sso/?{more}")["Location"]).query)
    assert "admin" not in asked["scope"][0]
    assert "prompt" not in asked
    assert client.get(at_provider(client.get(f"/accounts/sso/?{more}")))["Location"] == "/"


# Answers that are not what was asked for -----------------------------------------------------------------------------


def assert_refused(client, response, words: str, status=401):
    assert response.status_code == status
    assert words in " ".join(response.content.decode().split())
    assert not is_signed_in(client)
    assert not users.filter(username="carla").exists()
    assert not Membership.objects.filter(user__username="carla").exists()


OVER, INVALID = "This sign-in is over", "could not be verified"


def test_a_wrong_state_is_refused(client, provider):
    back = at_provider(client.get("/accounts/sso/"))
    code = parse_qs(urlsplit(back).query)["code"][0]
    assert_refused(client, client.get(f"/accounts/sso/callback/?{urlencode({'code': code, 'state': 'wrong'})}"), OVER)
    assert_refused(client, client.get(f"/accounts/sso/callback/?{urlencode({'code': code})}"), OVER)


def test_an_answer_for_another_browser_is_refused(client, provider):
    back = at_provider(Client().get("/accounts/sso/"))
    assert_refused(client, client.get(back), OVER)


def test_an_answer_counts_once(client, provider):
    back = at_provider(client.get("/accounts/sso/"))
    client.get(back)
    assert is_signed_in(client)
    client.post("/accounts/logout/")
    response = client.get(back)
    assert (response.status_code, is_signed_in(client)) == (401, False)


def test_a_code_is_worth_nothing_with_the_verifier_of_another_sign_in(client, provider):
    """Put the code of one sign-in into the answer to another one, as an attacker would who got hold of it."""
    stolen = parse_qs(urlsplit(at_provider(Client().get("/accounts/sso/"))).query)["code"][0]
    state = parse_qs(urlsplit(at_provider(client.get("/accounts/sso/"))).query)["state"][0]
    answer = f"/accounts/sso/callback/?{urlencode({'code': stolen, 'state': state})}"
    assert_refused(client, client.get(answer), INVALID)


@pytest.mark.parametrize(
    "tamper",
    [
        {"nonce": "of another sign-in"},
        {"nonce": None},
        {"exp": 1},
        {"exp": None},
        {"iat": 4_000_000_000},
        {"iss": "https://evil.example"},
        {"aud": ["somebody else"]},
        {"aud": ["handrail", "somebody else"], "azp": "somebody else"},
        {"sub": 7},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(sign_in, idp, tamper):
    idp.tamper = tamper
    client, response = sign_in()
    assert_refused(client, response, INVALID)


def test_a_token_with_a_wrong_signature_is_refused(sign_in, idp):
    idp.sign_with = identity_provider.UNPUBLISHED
    assert_refused(*sign_in(), INVALID)


@pytest.mark.parametrize("subject", ["", "a\0b", "x" * 256])
def test_an_invalid_subject_is_refused(sign_in, idp, subject):
    idp.person["sub"] = subject
    assert_refused(*sign_in(), INVALID)


def test_a_userinfo_about_another_person_is_refused(sign_in, idp):
    idp.userinfo = {"sub": "somebody else", "groups": ["owners"]}
    assert_refused(*sign_in(), INVALID)


def test_a_wrong_client_secret_is_refused(sign_in, provider, idp):
    from dashboard.people import sso

    sso.save(provider, "not the secret")
    assert_refused(*sign_in(), INVALID)


def test_a_person_who_cancels_is_told_so(sign_in, idp):
    idp.person = None
    assert_refused(*sign_in(), "You cancelled the sign-in")


def test_a_discovery_document_of_another_issuer_is_refused(client, provider, idp):
    idp.discovery = {"issuer": "https://evil.example"}
    assert_refused(client, client.get("/accounts/sso/"), "does not answer", status=503)


def test_a_provider_that_does_not_answer_is_named(client, provider):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        provider.issuer = f"http://127.0.0.1:{taken.getsockname()[1]}"
        provider.save()
        assert_refused(client, client.get("/accounts/sso/"), "Acme ID does not answer", status=503)


# Accounts ------------------------------------------------------------------------------------------------------------


def test_a_person_without_a_role_gets_no_account(sign_in, idp):
    idp.person["groups"] = ["chess"]
    assert_refused(*sign_in(), "You have no role here", status=403)


def test_an_account_of_the_same_name_or_address_is_never_linked(sign_in, idp, bob):
    idp.person |= {"preferred_username": "BOB", "email": bob.email, "email_verified": True, "groups": ["owners"]}
    client, response = sign_in()
    assert (response.status_code, is_signed_in(client)) == (409, False)
    idp.person["preferred_username"] = "robert"
    sign_in()
    assert (bob.memberships.get().role, SocialAccount.objects.get().user.username) == ("reviewer", "robert")


@pytest.mark.parametrize(("verified", "kept"), [(True, "carla@acme.example"), (False, ""), ("true", ""), (None, "")])
def test_an_address_is_kept_only_if_the_provider_verified_it(sign_in, idp, verified, kept):
    idp.person |= {"email": "carla@acme.example", "email_verified": verified}
    sign_in()
    assert users.get(username="carla").email == kept


def test_a_name_with_characters_that_names_cannot_have_is_refused(sign_in, idp):
    idp.person["preferred_username"] = "carla <b>"
    client, response = sign_in()
    assert_refused(client, response, "That user name can", status=403)


def test_an_unverified_address_names_no_account(sign_in, idp, provider):
    provider.username_claim = "email"
    provider.save()
    idp.person = {"sub": "c-1", "email": "boss@acme.example", "groups": ["reviewers"]}
    sign_in()
    assert list(users.values_list("username", flat=True)) == ["c-1"]


def test_a_renamed_person_keeps_the_account(sign_in, idp):
    sign_in()
    idp.person["preferred_username"] = "carla.new"
    client, _ = sign_in()
    assert client.session["_auth_user_id"] == str(users.get(username="carla").pk)


def test_a_subject_of_another_issuer_is_another_person(sign_in, idp, provider):
    sign_in()
    SocialAccount.objects.update(uid=SocialAccount.objects.get().uid[::-1])  # as of a subject that is not this one
    assert sign_in()[1].status_code == 409


def test_a_closed_account_stays_out(sign_in, team):
    sign_in()
    users.filter(username="carla").update(is_active=False)
    client, response = sign_in()
    assert (response["Location"], is_signed_in(client)) == ("/accounts/inactive/", False)


# Roles follow the groups ---------------------------------------------------------------------------------------------


def test_a_changed_group_changes_the_role_of_sessions_and_tokens(sign_in, idp, team, api):
    client, _ = sign_in()
    carla = users.get(username="carla")
    mine = api(make_token(team, user=carla))
    assert client.get("/log/targets/").status_code == 403
    idp.person["groups"] = ["reviewers", "owners"]
    sign_in()
    assert client.get("/log/targets/").status_code == 200
    assert mine.get("/api/v1/me").json()["teams"] == {"payments": "admin"}
    changed = ("person.role_changed", "single sign-on", {"was": "reviewer", "role": "admin", "groups": ["owners"]})
    assert changed in events(team)


def test_groups_that_are_gone_take_role_tokens_and_sessions(sign_in, idp, team, api):
    client, _ = sign_in()
    carla = users.get(username="carla")
    mine = api(make_token(team, user=carla))
    idp.person["groups"] = []
    second, response = sign_in()
    assert (response.status_code, is_signed_in(second)) == (403, False)
    assert not carla.memberships.exists()
    assert mine.get("/api/v1/me").status_code == 401
    assert not Token.objects.filter(user=carla, revoked_at=None).exists()
    assert client.get("/log/")["Location"].startswith("/accounts/login/")
    assert ("person.removed", "single sign-on", {"role": "reviewer", "groups": []}) in events(team)


def test_the_only_admin_of_a_team_loses_the_role_too(sign_in, idp, team):
    idp.person["groups"] = ["owners"]
    sign_in()
    idp.person["groups"] = ["reviewers"]
    sign_in()
    assert Membership.objects.get(team=team).role == "reviewer"


def test_groups_that_do_not_fit_into_the_token_change_nothing(sign_in, idp, team):
    sign_in()
    del idp.person["groups"]
    idp.person["_claim_names"] = {"groups": "src1"}
    client, response = sign_in()
    assert (response.status_code, is_signed_in(client)) == (403, False)
    assert "Your groups are not known" in response.content.decode()
    assert Membership.objects.get(team=team).role == "reviewer"


def test_a_role_by_hand_is_left_alone_and_one_from_groups_is_not_changed_by_hand(
    sign_in, idp, team, other_team, provider, alice, browser_of
):
    GroupRole.objects.create(provider=provider, group="reviewers", team=other_team, role=Role.VIEWER)
    sign_in()
    carla = users.get(username="carla")
    admin = browser_of(alice)
    role = carla.memberships.get(team=team)
    assert "from groups" in admin.get("/team/").content.decode()
    said = admin.post(f"/team/{role.pk}/role/", {"role": "lead"}, follow=True).content.decode()
    assert "comes from groups at Acme ID" in said
    Membership.objects.filter(pk=role.pk).update(confirmed_at=None, role=Role.LEAD)  # an admin gave this one
    idp.person["groups"] = []
    sign_in()
    assert list(carla.memberships.values_list("team__slug", "role")) == [("payments", "lead")]


def test_a_role_that_was_not_confirmed_for_long_counts_no_more(sign_in, team, api, settings):
    sign_in()
    mine = api(make_token(team, user=users.get(username="carla")))
    assert mine.get("/api/v1/me").status_code == 200
    settings.HANDRAIL_OIDC_ROLE_DAYS = 0
    assert mine.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize(
    ("claim", "told", "groups"),
    [
        ("roles", {"roles": ["reviewers"]}, True),
        ("realm_access.roles", {"realm_access": {"roles": ["reviewers"]}}, True),
        ("https://acme.example/groups", {"https://acme.example/groups": ["reviewers"]}, True),
        ("hd", {"hd": "reviewers"}, True),
        ("roles", {"roles": {"reviewers": True}}, False),
        ("roles.name", {"roles": ["reviewers"]}, False),
    ],
)
def test_the_claim_with_the_groups_can_be_chosen(sign_in, idp, provider, claim, told, groups):
    provider.groups_claim = claim
    provider.save()
    idp.person = {"sub": "c-1", "preferred_username": "carla", **told}
    assert is_signed_in(sign_in()[0]) == groups


def test_the_group_of_everybody_gives_a_role_to_all_who_sign_in(sign_in, idp, provider, team):
    GroupRole.objects.create(provider=provider, group="*", team=team, role=Role.VIEWER)
    idp.person["groups"] = []
    sign_in()
    assert Membership.objects.get(team=team).role == "viewer"


# The session ---------------------------------------------------------------------------------------------------------


def test_a_session_ends_after_the_hours_that_were_set(sign_in, provider):
    client, _ = sign_in()
    assert client.session.get_expiry_age() == 12 * 3600


def test_signing_out_leads_to_the_page_that_signs_out_at_the_provider_too(sign_in, idp):
    client, _ = sign_in()
    response = client.post("/accounts/logout/", follow=True)
    page = response.content.decode()
    assert not is_signed_in(client)
    assert "You may still be signed in at Acme ID" in page
    assert f'href="{idp.issuer}/end?client_id=handrail&amp;post_logout_redirect_uri=' in page
    forged = client.get("/accounts/sso/signed-out/?end=https://evil.example").content.decode()
    assert "evil.example" not in forged


def test_a_team_that_wants_a_second_factor_gets_one_unless_the_provider_saw_it(sign_in, idp, provider, team):
    team.second_factor_for = SecondFactorFor.EVERYBODY
    team.save()
    client, _ = sign_in()
    assert client.get("/log/")["Location"] == "/me/second-factor/"
    idp.person["amr"] = ["pwd", "mfa"]
    assert sign_in()[0].get("/log/")["Location"] == "/me/second-factor/"  # nobody said that this counts
    provider.second_factor_values = "mfa, hwk"
    provider.save()
    assert sign_in()[0].get("/log/").status_code == 200
    idp.person["amr"] = ["pwd"]
    assert sign_in()[0].get("/log/")["Location"] == "/me/second-factor/"


def test_nothing_of_the_provider_is_stored_but_issuer_and_subject(sign_in, idp):
    sign_in()
    assert SocialAccount.objects.get().extra_data == {"iss": idp.issuer, "sub": "c-1"}
    stored = "".join(str(session.get_decoded()) for session in Session.objects.all())
    assert "reviewers" not in stored
    assert not any(token in stored for token in idp.access)
