"""The page of credentials with a leash: leads set, change and delete them, and no page shows a value."""

import pytest
from django.urls import reverse

from workspaces.models import Credential, Environment

VALUE = "ghp_" + "a1B2" * 9
GIVEN = {
    "name": "github",
    "value": VALUE,
    "hosts": "api.github.com GET,POST /repos/acme/*\nuploads.github.com /x",
    "header": "Authorization: Bearer {}",
    "variable": "GITHUB_TOKEN",
    "environments": "web",
}


@pytest.fixture
def lead(browser_of, lena):
    return browser_of(lena)


@pytest.fixture
def web(team):
    return Environment.objects.create(team=team, name="web", version=1)


def test_it_is_set_changed_and_deleted(lead, team, web):
    answer = lead.post(reverse("credential-new"), GIVEN | {"team": team.slug}, follow=True)
    assert VALUE not in answer.content.decode()
    row = Credential.objects.get()
    assert row.hosts == [
        {"host": "api.github.com", "paths": ["/repos/acme/*"], "methods": ["GET", "HEAD", "POST"]},
        {"host": "uploads.github.com", "paths": ["/x"], "methods": ["GET", "HEAD"]},
    ]
    assert "api.github.com GET,HEAD,POST /repos/acme/*" in answer.content.decode()
    kept = bytes(row.value)
    lead.post(reverse("credential", args=[row.pk]), GIVEN | {"value": "", "variable": "GH_TOKEN"})
    row.refresh_from_db()
    assert (row.variable, bytes(row.value)) == ("GH_TOKEN", kept)
    assert VALUE not in lead.get(reverse("credential", args=[row.pk])).content.decode()
    assert "Delete the credential github?" in lead.get(reverse("credential-delete", args=[row.pk])).content.decode()
    lead.post(reverse("credential-delete", args=[row.pk]))
    assert not Credential.objects.exists()


def test_what_means_nothing_is_said_at_its_field(lead, team, web):
    answer = lead.post(reverse("credential-new"), GIVEN | {"team": team.slug, "environments": "none"})
    assert "There is no environment" in answer.content.decode()
    assert VALUE not in answer.content.decode()
    assert not Credential.objects.exists()


def test_a_reviewer_sees_none_of_it(browser_of, bob, web):
    client = browser_of(bob)
    for name in ("credentials", "credential-new"):
        assert client.get(reverse(name)).status_code == 403
