"""Webhooks of each kind: a right signature wakes, a wrong one is refused and counted, a replay is answered once."""

from datetime import timedelta

import pytest

from approvals.agent_runs.code_host import repositories
from approvals.models import HostDelivery, HostedRepository
from dashboard.database import clock
from dashboard.people.access import caller_of
from workspaces.services import retention

KINDS = ["github", "gitlab", "gitea", "forgejo"]


def send(client, kind, body, headers):
    names = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    return client.post(f"/hooks/code-host/{kind}", body, content_type="application/json", **names)


@pytest.fixture
def at_rest(source):
    HostedRepository.objects.update(read_at=None)
    return source


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_webhook_lets_the_repository_be_read(client, host, at_rest, kind):
    body, headers = host.webhook(repositories.webhook_of(at_rest).secret)
    answer = send(client, kind, body, headers)
    assert (answer.status_code, answer.json()) == (200, {"new": True})
    at_rest.refresh_from_db()
    assert at_rest.read_at is not None
    assert at_rest.delivered_at is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_signature_is_refused_and_counted(client, host, at_rest, kind):
    body, headers = host.webhook("another secret")
    assert send(client, kind, body, headers).status_code == 401
    assert send(client, kind, body, {}).status_code == 401
    at_rest.refresh_from_db()
    assert (at_rest.refused, at_rest.read_at) == (2, None)
    assert at_rest.refused_at is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_replay_is_answered_and_does_nothing_under_any_name(client, host, at_rest, kind):
    secret = repositories.webhook_of(at_rest).secret
    body, headers = host.webhook(secret, "first")
    send(client, kind, body, headers)
    HostedRepository.objects.update(read_at=None)
    assert send(client, kind, body, headers).json() == {"new": False}
    renamed = host.webhook(secret, "second")[1]
    assert send(client, kind, body, renamed).json() == {"new": False}
    at_rest.refresh_from_db()
    assert (at_rest.read_at, HostDelivery.objects.count()) == (None, 1)
    other, headers = host.webhook(secret, "first", about="something else")
    assert send(client, kind, other, headers).json() == {"new": False}


@pytest.mark.parametrize("kind", ["forgejo"])
@pytest.mark.parametrize("family", ["Forgejo", "Gitea"])
def test_forgejo_signs_with_its_own_headers_and_with_those_of_gitea(client, host, at_rest, family):
    """Its older versions send only the latter."""
    body, headers = host.webhook(repositories.webhook_of(at_rest).secret)
    of_family = {name: value for name, value in headers.items() if name.startswith(f"X-{family}-")}
    assert len(of_family) == 2
    wrong = {name: "0" * 64 if name.endswith("Signature") else value for name, value in of_family.items()}
    assert send(client, "forgejo", body, wrong).status_code == 401
    assert send(client, "forgejo", body, of_family).json() == {"new": True}
    at_rest.refresh_from_db()
    assert at_rest.read_at is not None


@pytest.mark.parametrize("kind", KINDS)
def test_retention_forgets_deliveries_after_a_month(client, host, at_rest, kind):
    body, headers = host.webhook(repositories.webhook_of(at_rest).secret)
    send(client, kind, body, headers)
    retention.sweep(at=clock.now() + timedelta(days=29))
    assert HostDelivery.objects.count() == 1
    retention.sweep(at=clock.now() + timedelta(days=31))
    assert HostDelivery.objects.count() == 0


def test_the_secret_of_another_kind_or_from_before_is_refused(client, host, at_rest, lena):
    old = repositories.webhook_of(at_rest).secret
    repositories.renew_secret(at_rest, caller=caller_of(lena))
    body, headers = host.webhook(old)
    assert send(client, "gitea", body, headers).status_code == 401
    body, headers = host.webhook(repositories.webhook_of(at_rest).secret)
    assert send(client, "github", body, headers).status_code == 401
    assert send(client, "gitea", body, headers).status_code == 200


def test_what_is_no_webhook_is_refused(client, host, at_rest, settings):
    assert client.get("/hooks/code-host/gitea").status_code == 405
    assert send(client, "svn", b"{}", {}).status_code == 404
    assert send(client, "gitea", b"no json", {}).status_code == 400
    assert send(client, "gitea", b"[]", {}).status_code == 401
    body, headers = host.webhook(repositories.webhook_of(at_rest).secret, filler="x" * settings.HANDRAIL_BODY_BYTES)
    assert send(client, "gitea", body, headers).status_code == 413
    assert not HostDelivery.objects.exists()
