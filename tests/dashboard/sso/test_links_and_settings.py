"""Linking an account to the identity provider, passwords that are off, and where the provider is set up."""

import pytest
from allauth.socialaccount.models import SocialAccount
from django.core.management import call_command
from django.test import Client

from dashboard.models import Event, GroupRole, IdentityProvider, Membership
from dashboard.net.oidc_settings import Rule, read_rules, refused_issuer
from dashboard.ops import doctor
from dashboard.people import sso
from dashboard.people.tokens import make_sign_in_link
from tests.support import identity_provider

from .conftest import at_provider

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery staple"


def is_signed_in(client) -> bool:
    return "_auth_user_id" in client.session


@pytest.fixture
def bobs(bob):
    """Bob's browser, signed in with his password."""
    return with_password(bob)


def with_password(user) -> Client:
    user.set_password(PASSWORD)
    user.save()
    client = Client()
    client.post("/accounts/login/", {"login": user.get_username(), "password": PASSWORD})
    return client


def continue_to(client) -> str:
    """Return where *Continue* leads, after the confirmation that the page asks for."""
    page = client.get("/accounts/sso/link/")
    if page.status_code == 302:
        page = client.post(page["Location"], {"password": PASSWORD}, follow=True)
    return page.content.decode().split('class="button primary" href="')[1].split('"')[0].replace("&amp;", "&")


@pytest.fixture
def link(provider):
    """`link(client)`: the response to a link of the provider's account with the person who is signed in."""

    def through(client):
        return client.get(at_provider(client.get(continue_to(client))), follow=True)

    return through


def test_a_person_links_the_account_and_is_signed_in_by_it(link, idp, bobs, bob, team, sign_in):
    page = link(bobs).content.decode()
    assert "The account is linked" in page
    assert SocialAccount.objects.get().user == bob
    assert bob.memberships.get().role == "reviewer"  # given by hand, and so it stays
    assert Event.objects.filter(team=team, verb="person.sso_linked", actor_label="bob").count() == 1
    client, _ = sign_in()
    assert client.session["_auth_user_id"] == str(bob.pk)


def test_nobody_is_made_to_link_an_account_by_an_address_of_another_person(bobs, lena, provider, bob):
    address = continue_to(bobs)
    other = with_password(lena)
    assert other.get(address).status_code == 403
    assert other.get("/accounts/sso/?link=forged").status_code == 403
    assert Client().get(address).status_code == 403


def test_an_account_is_linked_to_who_asked_and_to_nobody_else(bobs, lena, provider, idp):
    back = at_provider(bobs.get(continue_to(bobs)))
    bobs.force_login(lena)
    response = bobs.get(back, follow=True)
    assert response.status_code in (200, 401)
    assert not SocialAccount.objects.exists()


def test_one_account_signs_in_one_person(link, bobs, bob, lena, idp):
    link(bobs)
    other = with_password(lena)
    assert "is linked to another person here" in link(other).content.decode()
    idp.person = {"sub": "another", "groups": []}
    assert "Remove that link first" in link(bobs).content.decode()
    assert SocialAccount.objects.get().user == bob


def test_removing_the_link_takes_the_roles_from_groups(link, bobs, bob, other_team, provider):
    GroupRole.objects.create(provider=provider, group="reviewers", team=other_team, role="viewer")
    link(bobs)
    assert bob.memberships.count() == 2
    assert bobs.post("/accounts/sso/unlink/")["Location"] == "/me/#me-access"
    assert [one.role for one in bob.memberships.all()] == ["reviewer"]
    assert not SocialAccount.objects.exists()


def test_the_link_that_is_the_only_way_in_stays(sign_in):
    client, _ = sign_in()
    page = client.post("/accounts/sso/unlink/", follow=True)
    assert "You could not sign in any more" in page.content.decode()
    assert SocialAccount.objects.count() == 1


# Passwords that are off ----------------------------------------------------------------------------------------------


@pytest.fixture
def only(provider, alice):
    """Passwords are off for everybody but Alice."""
    alice.is_superuser = alice.is_staff = True
    alice.set_password(PASSWORD)
    alice.save()
    provider.only, provider.break_glass = True, alice
    provider.save()


def test_passwords_are_off_but_for_the_one_of_emergencies(only, bob, alice, idp):
    assert not is_signed_in(with_password(bob))
    assert is_signed_in(with_password(alice))
    said = Client().get("/accounts/login/").content.decode()
    assert "Passwords and passkeys are off here" in said


def test_a_one_time_link_still_signs_in_and_its_person_confirms_with_the_password(only, bob, link):
    bob.set_password(PASSWORD)
    bob.save()
    client = Client()
    client.post(f"/sign-in/{make_sign_in_link(bob)}/")
    assert is_signed_in(client)
    assert client.get("/accounts/sso/link/")["Location"].startswith("/accounts/reauthenticate/")
    assert "The account is linked" in link(client).content.decode()


# Where it is set up --------------------------------------------------------------------------------------------------

FORM = {
    "name": "Acme ID",
    "client_id": identity_provider.CLIENT_ID,
    "secret": identity_provider.CLIENT_SECRET,
    "scopes": "openid profile email",
    "groups_claim": "groups",
    "username_claim": "preferred_username",
    "session_hours": "8",
    "active": "on",
    "rules-INITIAL_FORMS": "0",
    "rules-TOTAL_FORMS": "1",
    "rules-0-group": "reviewers",
    "rules-0-role": "reviewer",
}


@pytest.fixture
def admins(alice, browser_of):
    alice.is_superuser = alice.is_staff = True
    alice.save()
    return browser_of(alice)


def test_an_admin_sets_it_up_and_people_sign_in(admins, idp, team, client):
    form = FORM | {"issuer": idp.issuer, "rules-0-team": str(team.pk)}
    assert admins.post("/admin/dashboard/identityprovider/add/", form).status_code == 302
    client.get(at_provider(client.get("/accounts/sso/")))
    assert Membership.objects.get(user__username="carla").role == "reviewer"
    told = list(Event.objects.filter(team=team).values_list("verb", "data")[:2])
    assert ("team.groups_changed", {"groups": ["reviewers: reviewer"]}) in told
    assert "identityprovider.added" in {verb for verb, _ in told}
    assert admins.get("/admin/dashboard/identityprovider/add/").status_code == 403  # there is one
    row = IdentityProvider.objects.get()
    assert identity_provider.CLIENT_SECRET.encode() not in bytes(row.value)
    shown = admins.get(f"/admin/dashboard/identityprovider/{row.pk}/change/").content.decode()
    assert "the client" not in shown.replace("client ID", "").replace("client secret", "")
    call_command("rotate_secrets")
    assert sso.in_force().secret() == identity_provider.CLIENT_SECRET


def test_what_would_lock_everybody_out_or_is_no_issuer_is_refused_at_its_field(admins, idp, team, bob, alice):
    def errors(**changed):
        form = FORM | {"issuer": idp.issuer, "rules-0-team": str(team.pk)} | changed
        return admins.post("/admin/dashboard/identityprovider/add/", form).context["adminform"].form.errors

    assert errors(issuer="http://acme.example") == {
        "issuer": ["An issuer is an https address; http is taken only on this machine."]
    }
    assert list(errors(only="on")) == ["break_glass"]
    assert errors(only="on", break_glass=str(alice.pk)) == {
        "break_glass": ["This person has no password yet, and could not sign in."]
    }
    assert list(errors(only="on", break_glass=str(bob.pk))) == ["break_glass"]
    assert not IdentityProvider.objects.exists()


def test_the_environment_replaces_the_admin(idp, team, provider, client, settings):
    rules = read_rules("reviewers=payments:lead, owners=no-such-team:admin")
    told = {"issuer": idp.issuer, "name": "Env ID", "secret": identity_provider.CLIENT_SECRET, "rules": rules}
    settings.HANDRAIL_OIDC = settings.HANDRAIL_OIDC | told | {"client_id": identity_provider.CLIENT_ID}
    assert "Sign in with Env ID" in client.get("/accounts/login/").content.decode()
    client.get(at_provider(client.get("/accounts/sso/")))
    assert Membership.objects.get(user__username="carla").role == "lead"


def test_rules_of_the_environment_are_read_or_refused_with_a_sentence():
    assert read_rules("") == ()
    assert read_rules("a=b:viewer, CN=x, y=z=t:admin".replace(", y", " y")) == (
        Rule("a", "b", "viewer"),
        Rule("CN=x y=z", "t", "admin"),
    )
    for wrong in ("a", "a=b", "a=b:king", "=b:viewer", "a=b c:viewer"):
        with pytest.raises(ValueError, match="must be GROUP=TEAM:ROLE"):
            read_rules(wrong)


@pytest.mark.parametrize(
    ("issuer", "taken"),
    [
        ("https://id.acme.example/realms/acme", True),
        ("http://127.0.0.1:8080", True),
        ("http://id.acme.example", False),
        ("https://me@id.acme.example", False),
        ("https://id.acme.example/?x=1", False),
        ("https://id.acme.example/.well-known/openid-configuration", False),
        ("ftp://id.acme.example", False),
        ("https://[", False),
        ("", False),
    ],
)
def test_an_issuer_is_https_or_on_this_machine(issuer, taken):
    assert (refused_issuer(issuer) == "") == taken


def test_the_name_of_emergencies_must_be_that_of_a_superuser_with_a_password(alice, bob):
    assert sso.why_not_break_glass(None)
    assert sso.why_not_break_glass(bob)
    alice.is_superuser = True
    alice.set_password(PASSWORD)
    assert sso.why_not_break_glass(alice) == ""


def test_the_doctor_names_an_account_of_emergencies_that_could_not_sign_in(only, alice):
    def found() -> list[str]:
        return [one.words for one in doctor.examine(deep=False) if one.part == "single sign-on"]

    assert found() == []
    alice.is_superuser = False
    alice.save()
    assert found() == ["This must be an active superuser."]
