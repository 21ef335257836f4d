"""A lead states which API the host of a token has; the form of a pull request says which texts were changed."""

import pytest

from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces import secrets
from workspaces.models import Secret
from workspaces.pages.forms import PullRequestForm
from workspaces.services import pull_requests

from .conftest import make_workspace

BY = Actor.system("tests")
ORIGIN = "https://git.example.org"
NAME = "CODE_HOST_GIT_EXAMPLE_ORG"


@pytest.fixture
def token(team):
    return secrets.save(team, NAME, "host", "the-token", origin=ORIGIN, by=BY)


def test_a_lead_states_the_kind_on_the_page(token, team, lena, browser_of, monkeypatch):
    form = {"origin": ORIGIN, "code_host": "forgejo", "host_key": "", "value": "", "expires_at": ""}
    assert browser_of(lena).post(f"/secrets/{token.pk}/", form).status_code == 302
    assert Secret.objects.get().code_host == "forgejo"
    assert Event.objects.filter(verb="secret.code_host_stated").count() == 1
    monkeypatch.setattr(pull_requests, "addresses_of", lambda repository: ())  # no resolver here
    shop = make_workspace(team, None, "shop", source={"git": f"{ORIGIN}/team/shop.git"})
    assert pull_requests.account_of(shop).kind == "forgejo"


@pytest.mark.parametrize(("scope", "origin"), [("agent", ""), ("host", "ssh://git.example.org")])
def test_only_a_token_for_a_code_host_says_it(team, lena, browser_of, scope, origin):
    form = {"team": team.slug, "name": "X", "scope": scope, "origin": origin, "code_host": "gitea", "value": "a-value"}
    response = browser_of(lena).post("/secrets/new/", form)
    assert "Only a token for a code host says which API the host has." in response.content.decode()
    assert Secret.objects.count() == 0


def test_another_origin_is_another_host(token):
    secrets.state_code_host(token, "gitea", by=BY)
    again = secrets.save(token.team, NAME, "host", "t", origin=f"{ORIGIN}:3000", replace=True, by=BY)
    assert again.code_host == ""
    with pytest.raises(Problem, match="Only a token"):
        secrets.state_code_host(Secret(scope="agent"), "gitea", by=BY)


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        ({}, []),
        ({"title": "Mine"}, ["title"]),
        ({"body": "one\r\n\r\ntwo"}, []),
        ({"body": "mine"}, ["body"]),
        ({"body": ""}, []),
        ({"title": "Mine", "body": "mine", "written": ""}, []),
    ],
)
def test_only_changed_texts_replace_those_of_an_open_pull_request(typed, given):
    texts = {"title": "Fix", "body": "one\n\ntwo"}
    shown = texts | {"branch": "x", "written": pull_requests.written(texts)}
    form = PullRequestForm(shown | typed)
    assert form.is_valid()
    assert form.cleaned_data["given"] == given
