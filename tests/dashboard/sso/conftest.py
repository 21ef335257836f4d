"""A real identity provider, and browsers that go through the whole of the redirects with it."""

import pytest
import requests
from django.conf import settings as of_site
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from dashboard.models import GroupRole, IdentityProvider, Role
from dashboard.people import sso
from tests.support import identity_provider

PATIENCE = 300  # seconds that a busy machine may take to answer
CARLA = {"sub": "c-1", "preferred_username": "carla", "groups": ["reviewers"]}


@pytest.fixture(scope="session")
def server():
    with identity_provider.running(of_site.HANDRAIL_DESK_URL + reverse("sso-callback")) as found:
        yield found


@pytest.fixture
def idp(server, settings):
    settings.SOCIALACCOUNT_REQUESTS_TIMEOUT = PATIENCE
    cache.clear()
    server.reset()
    server.person = dict(CARLA)
    yield server
    cache.clear()


@pytest.fixture
def provider(idp, team):
    """The provider as an admin has set it up: two groups have roles in the team."""
    row = IdentityProvider(name="Acme ID", issuer=idp.issuer, client_id=identity_provider.CLIENT_ID)
    sso.save(row, identity_provider.CLIENT_SECRET)
    for group, role in (("reviewers", Role.REVIEWER), ("owners", Role.ADMIN)):
        GroupRole.objects.create(provider=row, group=group, team=team, role=role)
    return row


def at_provider(redirect) -> str:
    """Return where the provider sends the browser that this redirect brought to it."""
    answer = requests.get(redirect["Location"], allow_redirects=False, timeout=PATIENCE)
    assert answer.status_code == 302, answer.text
    return answer.headers["Location"].removeprefix(of_site.HANDRAIL_DESK_URL)


@pytest.fixture
def sign_in(provider):
    """`sign_in()`: (client, response): begins here, signs in at the provider, and comes back."""

    def through(client=None, begin="/accounts/sso/"):
        client = client or Client()
        return client, client.get(at_provider(client.get(begin)))

    return through
