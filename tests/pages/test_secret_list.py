"""Secrets by API and on the command line: set, listed and deleted, never shown; and the warning before one expires."""

import io
import sys
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from approvals.notify.log_targets.alerts import is_alert
from dashboard.database import clock
from dashboard.models import Actor, Event
from workspaces import secrets
from workspaces.models import Environment, Secret
from workspaces.services import secret_expiry

AT, VALUE = "/api/v1/secrets", "value-of-a-secret-0123456789"
BY = Actor.system("test")


@pytest.fixture
def lead(api, token_of, lena):
    return api(token_of(lena))


def put(client, name="NPM_TOKEN", **body):
    return client.put(f"{AT}/{name}", body, content_type="application/json")


def value_of(team, **which) -> str:
    """What a program would be given."""
    secret = Secret.objects.get(team=team, **which)
    return secrets.decrypt(secret.value, secrets.associated_data(secret))


# By API --------------------------------------------------------------------------------------------------------------


def test_a_lead_sets_lists_and_deletes_a_secret_and_never_reads_it(lead, team, workspace):
    Environment.objects.create(team=team, name="node", version=1, secrets={"agent": ["NPM_TOKEN"]})
    soon = (clock.now() + timedelta(days=30)).isoformat()
    answer = put(lead, value=VALUE, expires_at=soon)
    told = answer.json()
    assert (answer.status_code, told["name"], told["scope"], told["state"]) == (200, "NPM_TOKEN", "agent", "set")
    assert (told["environments"], told["workspaces"], told["last_used_at"]) == (["node"], [], None)
    assert (told["expires_soon"], told["set_by"], value_of(team, name="NPM_TOKEN")) == (False, "lena", VALUE)
    listed = lead.get(AT)
    assert listed.json() == {"secrets": [told]}
    assert lead.get(f"{AT}/NPM_TOKEN").json() == told
    assert VALUE not in answer.content.decode() + listed.content.decode()
    assert lead.delete(f"{AT}/NPM_TOKEN").status_code == 204
    assert lead.get(f"{AT}/NPM_TOKEN").status_code == 404
    assert list(Event.objects.order_by("seq").values_list("verb", flat=True)) == ["secret.set", "secret.deleted"]


def test_programs_that_were_given_it_are_named(lead, workspace):
    environment = workspace.environment
    Environment.objects.filter(pk=environment.pk).update(secrets={"agent": ["NPM_TOKEN"]})
    put(lead, value=VALUE)
    workspace.refresh_from_db()
    assert secrets.for_phase(workspace, "agent") == {"NPM_TOKEN": VALUE}
    told = lead.get(f"{AT}/NPM_TOKEN").json()
    assert (told["workspaces"], told["last_used_at"] is None) == ([workspace.key], False)


def test_a_new_value_is_a_new_version_and_an_expiry_alone_is_not(lead, team):
    first = put(lead, value=VALUE).json()["version"]
    later = (clock.now() + timedelta(days=3)).isoformat()
    kept = put(lead, expires_at=later).json()
    assert (kept["version"], kept["expires_soon"], value_of(team, name="NPM_TOKEN")) == (first, True, VALUE)
    assert put(lead, value="another value").json()["version"] != first


def test_where_a_name_is_set_for_several_one_is_named(lead, team):
    put(lead, value=VALUE)
    put(lead, value=VALUE, scope="setup")
    refused = lead.delete(f"{AT}/NPM_TOKEN")
    assert (refused.status_code, "agent, setup" in refused.json()["detail"]) == (409, True)
    assert lead.delete(f"{AT}/NPM_TOKEN?scope=setup").status_code == 204
    assert list(Secret.objects.values_list("scope", flat=True)) == ["agent"]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("PATH", {"value": VALUE}),
        ("a-b", {"value": VALUE}),
        ("A", {"value": ""}),
        ("A", {"value": VALUE, "expires_at": "2020-01-01T00:00:00Z"}),
        ("A", {"value": VALUE, "expires_at": "2999-01-01T00:00:00"}),
        ("A", {"value": VALUE, "scope": "everything"}),
        ("A", {"value": VALUE, "valeu": "x"}),
    ],
)
def test_bad_input_sets_nothing_and_is_not_repeated(lead, name, body):
    refused = put(lead, name, **body)
    assert (refused.status_code, Secret.objects.count()) == (422, 0)
    assert VALUE not in refused.content.decode()


def test_a_reviewer_and_an_agent_may_not_and_other_teams_see_nothing(api, token_of, agent_token, lead, bob, mallory):
    put(lead, value=VALUE)
    for token in (token_of(bob), agent_token):
        client = api(token)
        assert (client.get(AT).status_code, put(client, value="x").status_code) == (403, 403)
    stranger = api(token_of(mallory))
    assert (stranger.get(AT).json(), stranger.get(f"{AT}/NPM_TOKEN").status_code) == ({"secrets": []}, 404)
    assert stranger.delete(f"{AT}/NPM_TOKEN").status_code == 404


# On the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(monkeypatch):
    """`typed("text")`: what standard input holds."""
    return lambda text: monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_the_command_reads_the_value_from_standard_input(team, typed, capsys):
    typed(VALUE + "\n")
    call_command("secret", "set", "NPM_TOKEN", "--team", team.slug, "--days", "30", "--for", "setup")
    assert value_of(team, name="NPM_TOKEN", scope="setup") == VALUE
    call_command("secret", "list", "--team", team.slug)
    said = capsys.readouterr().out
    ends = f"{clock.now() + timedelta(days=30):%Y-%m-%d}"
    assert said.splitlines() == [
        "NPM_TOKEN is set. New programs get it.",
        f"NPM_TOKEN\tsetup\tset\texpires {ends}\tnever used\tno environment",
    ]
    call_command("secret", "delete", "NPM_TOKEN", "--team", team.slug, "--for", "setup")
    assert Secret.objects.count() == 0
    assert Event.objects.get(verb="secret.deleted").actor_label == "manage.py secret"


@pytest.mark.parametrize(
    "arguments",
    [
        ("set", "PATH", "--team", "payments"),
        ("set", "A", "--team", "nobody"),
        ("set", "A", "--team", "payments", "--days", "0"),
        ("delete", "A", "--team", "payments"),
    ],
)
def test_a_refusal_of_the_command_changes_nothing(team, typed, arguments):
    typed(VALUE)
    with pytest.raises(CommandError):
        call_command("secret", *arguments)
    assert (Secret.objects.count(), Event.objects.count()) == (0, 0)


# Before it expires ----------------------------------------------------------------------------------------------------


def test_a_secret_that_expires_within_a_week_is_warned_of_once(team, lena, browser_of):
    ends = clock.now() + timedelta(days=6)
    secret = secrets.save(team, "NPM_TOKEN", "agent", VALUE, expires_at=ends, by=BY)
    secrets.save(team, "LATER", "agent", VALUE, expires_at=clock.now() + timedelta(days=8), by=BY)
    secret_expiry.warn_all()
    secret_expiry.warn_all()
    event = Event.objects.get(verb="secret.expires_soon")
    assert (event.data["name"], event.data["until"], is_alert(event)) == (
        "NPM_TOKEN",
        ends.isoformat(timespec="seconds"),
        True,
    )
    client = browser_of(lena)
    assert "The secret NPM_TOKEN expires soon" in client.get("/").content.decode()
    assert client.get("/secrets/").content.decode().count("expires soon") == 1
    assert "Expires soon" in client.get(f"/secrets/{secret.pk}/").content.decode()


def test_another_expiry_is_warned_of_again_and_none_no_more(team):
    secret = secrets.save(team, "A", "agent", VALUE, expires_at=clock.now() + timedelta(days=6), by=BY)
    secret_expiry.warn_all()
    secrets.change_expiry(secret, clock.now() + timedelta(days=5), by=BY)
    secret_expiry.warn_all()
    secrets.change_expiry(secret, None, by=BY)
    secret_expiry.warn_all()
    assert Event.objects.filter(verb="secret.expires_soon").count() == 2


def test_a_viewer_sees_no_warning(team, vera, browser_of):
    secrets.save(team, "NPM_TOKEN", "agent", VALUE, expires_at=clock.now() + timedelta(days=1), by=BY)
    assert "NPM_TOKEN" not in browser_of(vera).get("/").content.decode()
