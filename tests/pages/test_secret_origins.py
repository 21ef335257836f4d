"""A code host's token belongs to one origin; every way in knows each scope and says where the token goes."""

import itertools
import typing

import pytest

from dashboard.models import Actor
from dashboard.problems import Problem
from workspaces import code_hosts, secrets
from workspaces.api import secrets as api
from workspaces.management.commands.secret import Command
from workspaces.models import Scope, Secret
from workspaces.pages.secrets import SecretForm
from workspaces.services import pull_requests

BY = Actor.system("tests")
LOOK_ALIKES = [
    f"{scheme}://{host}{port}"
    for scheme, host, port in itertools.product(
        ("https", "http"),
        ("gitlab.acme.test", "gitlab-acme.test", "gitlab.acme-test", "gitlab-acme-test", "gitlab.acme.test."),
        ("", ":8124", ":812"),
    )
]


def _repository(origin):
    return code_hosts.repository_of(f"{origin}/team/shop.git")


@pytest.mark.parametrize("stated", ["https://gitlab.acme.test:8124", "https://gitlab-acme.test", ""])
def test_a_token_goes_to_one_origin_of_all_that_share_its_name(team, stated):
    secrets.save(team, "CODE_HOST_GITLAB_ACME_TEST_8124", "host", "glpat-canary", origin=stated, by=BY)
    for origin in LOOK_ALIKES:
        found = pull_requests.secret_for(team.pk, _repository(origin))
        assert (found is not None) == (_repository(origin).base == stated)


@pytest.mark.parametrize(
    ("origin", "is_enough"),
    [
        ("https://github.com", True),
        ("https://forge", True),
        ("http://127.0.0.1:3000", True),  # the runner contacts it only where private sources are allowed
        ("https://git-hub.com", False),
        ("https://github.com.", False),
        ("https://github-com", False),
        ("http://github.com", False),
        ("https://github.com:8443", False),
        ("https://my.git.com", False),
        ("https://my-git.com", False),
        ("https://git.dev", False),  # `git-dev` of an intranet has the same name
        ("http://forge", False),
        ("https://forge:3000", False),
        ("http://127-0-0-1:3000", False),
    ],
)
def test_a_name_alone_gives_a_token_to_nobody_who_shares_it(team, origin, is_enough):
    repository = _repository(origin)
    secrets.save(team, repository.token_name, "host", "glpat-canary", by=BY)
    assert (pull_requests.secret_for(team.pk, repository) is not None) == is_enough
    if not is_enough:
        says = pull_requests.without_token(team.pk, repository)
        assert f"states no origin, and other hosts share its name. A lead can set one with the origin {origin}." in says


def test_a_token_never_goes_out_without_tls(settings, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.write_text("93.184.216.34 git.example.org\n")
    settings.HANDRAIL_EGRESS_HOSTS = str(hosts)
    with pytest.raises(Problem, match="without TLS"):
        pull_requests.addresses_of(_repository("http://git.example.org"))
    settings.HANDRAIL_PRIVATE_SOURCES = True
    hosts.write_text("10.1.2.3 git.example.org\n")
    with pytest.raises(Problem, match="without TLS"):
        pull_requests.addresses_of(_repository("http://git.example.org"))


@pytest.mark.parametrize(
    "origin",
    [
        "git.example.org",
        "ssh://git@git.example.org",
        "git://git.example.org",
        "https://a@b.example",
        "https://b.example/x",
        "x",
    ],
)
def test_an_invalid_origin_is_refused(team, origin):
    with pytest.raises(Problem) as refused:
        secrets.save(team, "CODE_HOST_X", "host", "the-token", origin=origin, by=BY)
    assert (refused.value.status, Secret.objects.count()) == (422, 0)


def test_http_is_no_origin_unless_private_sources_are_allowed(team, settings):
    with pytest.raises(Problem, match="https only"):
        secrets.save(team, "CODE_HOST_X", "host", "the-token", origin="http://127.0.0.1:3000", by=BY)
    settings.HANDRAIL_PRIVATE_SOURCES = True
    secrets.save(team, "CODE_HOST_X", "host", "the-token", origin="http://127.0.0.1:3000/", by=BY)
    assert Secret.objects.get().origin == "http://127.0.0.1:3000"


def test_a_new_origin_needs_the_token_again(team, alice, browser_of):
    secrets.save(team, "CODE_HOST_X", "host", "the-token", origin="https://git.example.org", by=BY)
    pk = Secret.objects.get().pk
    browser_of(alice).post(f"/secrets/{pk}/", {"origin": "https://evil.example", "value": ""})
    assert Secret.objects.get().origin == "https://git.example.org"


def test_every_way_to_set_a_secret_knows_every_scope():
    scopes = set(Scope.values)
    parser = Command().create_parser("manage.py", "secret")
    assert set(typing.get_args(api.Scope)) == scopes
    assert {value for value, _ in SecretForm.base_fields["scope"].choices} == scopes
    for scope in scopes:
        assert parser.parse_args(["set", "--team", "t", "--for", scope, "A_KEY"]).scope == scope
