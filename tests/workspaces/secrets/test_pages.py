"""The pages of secrets: set, replace, end, delete; what one holds is on none of them."""

import html
import re

import pytest

from dashboard.models import Event
from tests.pages.conftest import tight
from workspaces import secrets
from workspaces.models import Environment, Secret

VALUE = "do-not-show-this-1234"


@pytest.fixture
def lead(lena, browser_of):
    return browser_of(lena)


def put(client, **fields):
    wish = {"team": "payments", "name": "NPM_TOKEN", "scope": "agent", "value": VALUE}
    return client.post("/secrets/new/", wish | fields, follow=True)


def say(response) -> str:
    return html.unescape(response.content.decode())


def test_set_replace_end_and_delete(lead, team):
    text = say(put(lead))
    assert "NPM_TOKEN is set. New programs get it." in text
    assert "by lena" in text
    secret = Secret.objects.get()
    first = bytes(secret.value)
    address = f"/secrets/{secret.pk}/"
    assert "NPM_TOKEN is replaced." in say(lead.post(address, {"value": VALUE + "5"}, follow=True))
    secret.refresh_from_db()
    assert (bytes(secret.value) != first, secret.expires_at) == (True, None)
    replaced = bytes(secret.value)
    lead.post(address, {"value": "", "expires_at": "2199-01-01T10:00"})
    secret.refresh_from_db()
    assert (bytes(secret.value) == replaced, secret.expires_at.year) == (True, 2199)
    lead.post(f"{address}delete/")
    assert not Secret.objects.exists()
    told = [(event.verb, event.data["name"]) for event in Event.objects.filter(verb__startswith="secret.")]
    assert told == [(f"secret.{verb}", "NPM_TOKEN") for verb in ("set", "replaced", "expiry_changed", "deleted")]
    assert VALUE not in str(list(Event.objects.values_list("data", flat=True)))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": "1TOKEN"}, "letters, digits and _"),
        ({"name": "PATH"}, "PATH is reserved for programs"),
        ({"name": "ld_preload"}, "is reserved for programs"),
        ({"name": "HANDRAIL_TOKEN"}, "is reserved for programs"),
        ({"value": ""}, ""),
        ({"value": VALUE + "\0"}, ""),
        ({"value": VALUE * 1000}, "A value can have at most 16,384 bytes."),
        ({"expires_at": "2001-01-01T00:00"}, "The expiry must be in the future"),
        ({"expires_at": "soon"}, "valid date"),
        ({"scope": "everybody"}, "valid choice"),
        ({"team": "other"}, ""),
    ],
)
def test_what_is_refused_changes_nothing_and_shows_nothing(lead, other_team, fields, why):
    response = put(lead, **fields)
    assert response.status_code == 200
    assert why in say(response)
    assert 'role="alert"' in say(response)
    assert VALUE not in say(response)
    assert not Secret.objects.exists()


def test_a_second_secret_of_one_name_names_the_first(lead):
    put(lead)
    before = bytes(Secret.objects.get().value)
    assert "NPM_TOKEN already exists for this phase" in say(put(lead, value="another one"))
    assert bytes(Secret.objects.get().value) == before
    put(lead, scope="setup")
    assert Secret.objects.count() == 2


def test_no_page_has_a_place_for_the_value(lead, alice, browser_of, team):
    put(lead, value=VALUE * 153)
    secret = Secret.objects.get()
    environment = Environment.objects.create(team=team, name="default", secrets={"agent": ["NPM_TOKEN"]})
    alice.is_staff = alice.is_superuser = True
    alice.save()
    admin, stored = browser_of(alice), bytes(secret.value)
    pages = ["/secrets/", f"/secrets/{secret.pk}/", f"/environments/{environment.pk}/"]
    pages += ["/admin/workspaces/secret/", f"/admin/workspaces/secret/{secret.pk}/change/"]
    for path in pages:
        text = say(admin.get(path))
        assert "NPM_TOKEN" in text, path
        for hidden in (VALUE, VALUE[:8], stored.hex()[:16], str(stored)[2:12], "3213", "3,213"):
            assert hidden not in text, (path, hidden)
    assert admin.post(f"/admin/workspaces/secret/{secret.pk}/change/", {"value": "x"}).status_code == 403
    assert admin.post(f"/admin/workspaces/secret/{secret.pk}/delete/", {"post": "yes"}).status_code == 302
    assert Event.objects.filter(verb="secret.deleted").count() == 1


def test_only_leads_and_admins_of_the_team(lead, alice, bob, vera, mallory, browser_of):
    put(lead)
    secret = Secret.objects.get()
    address = f"/secrets/{secret.pk}/"
    for person, status in ((bob, 403), (vera, 403), (mallory, 404), (alice, 200)):
        client = browser_of(person)
        assert client.get(address).status_code == status
        if status != 200:
            assert client.post(address, {"value": "mine now"}).status_code == status
            assert client.post(f"{address}delete/").status_code == status
    for person in (bob, vera):
        assert browser_of(person).get("/secrets/").status_code == 403
        assert put(browser_of(person), name="OTHER").status_code == 403
    assert "NPM_TOKEN" not in say(browser_of(mallory).get("/secrets/"))
    assert Secret.objects.get().version == secret.version


def test_an_environment_names_them_and_says_what_is_not_there(lead, team):
    put(lead)
    put(lead, scope="setup", name="BUILD_KEY")
    wish = {"team": "payments", "name": "web", "driver": "sandbox"}
    names = {"setup_secrets": "BUILD_KEY, GONE  BUILD_KEY", "agent_secrets": "NPM_TOKEN"}
    text = say(lead.post("/environments/new/", wish | names, follow=True))
    made = Environment.objects.get(name="web")
    assert made.secrets == {"setup": ["BUILD_KEY", "GONE"], "agent": ["NPM_TOKEN"]}
    assert re.search(r"<code>GONE</code> for\s+the setup\s*<span[^>]*>Not set</span>", text)
    assert "Used by</dt><dd>web</dd>" in tight(say(lead.get(f"/secrets/{Secret.objects.get(name='BUILD_KEY').pk}/")))
    assert secrets.problems(made, "setup") == "there is no secret GONE for this phase"
    refused = lead.post(f"/environments/{made.pk}/edit/", {"driver": "sandbox", "agent_secrets": "not-a-name"})
    assert "is not a valid secret name" in say(refused)
    assert Environment.objects.filter(name="web").count() == 1
