"""A removed host keeps its row, but no list shows it, no command finds it, and no check counts it."""

from datetime import timedelta
from io import BytesIO

import pytest
from django.core.management import CommandError, call_command

from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.ops import after_restore, doctor
from tests.pages.conftest import workspace  # noqa: F401 - a fixture
from workspaces.host import identity, join_tokens, member_home, removing, versions
from workspaces.models import Runner

OPERATOR = Actor.system("manage.py host")


@pytest.fixture
def here(settings, db):
    settings.HANDRAIL_HOST_NAME = "here"
    identity.register()
    Runner.objects.update(heartbeat_at=clock.now())
    return Runner.objects.get(host="here")


@pytest.fixture
def gone(here, team):
    """The row of a host that was removed, with what it had said of itself."""
    row = Runner.objects.create(host="gone", installation="g", home="/g", version="0.2.0", unclear=["A sandbox."])
    assert versions.has_newer_neighbour()
    removing.remove(row, by=OPERATOR)
    row.refresh_from_db()
    return row


@pytest.fixture
def operator(api, token_of, alice):
    type(alice).objects.filter(pk=alice.pk).update(is_superuser=True)
    return api(token_of(alice))


def test_no_list_names_it(gone, operator, capsys):
    assert [each["name"] for each in operator.get("/api/v1/hosts").json()["hosts"]] == ["here"]
    assert {each["host"] for each in operator.get("/api/v1/drivers").json()["drivers"]} <= {"here"}
    call_command("host", "list")
    assert "gone" not in capsys.readouterr().out
    assert not [finding.part for finding in doctor.examine(deep=False) if "gone" in f"{finding.part} {finding.words}"]


@pytest.mark.parametrize("verb", ["drain", "undrain", "lost"])
def test_no_verb_of_the_api_finds_it(gone, operator, verb):
    refused = operator.post(f"/api/v1/hosts/gone/{verb}")
    assert (refused.status_code, refused.json()["code"]) == (404, "host_not_found")


@pytest.mark.parametrize("verb", ["drain", "undrain", "lost", "remove"])
def test_no_command_finds_it(gone, team, verb):
    with pytest.raises(CommandError, match="There is no such host"):
        call_command("host", verb, "gone")
    assert [event.verb for event in Event.objects.filter(team=team, verb__startswith="host.")] == ["host.removed"]


def test_no_page_says_anything_of_it(gone, alice, browser_of):
    type(alice).objects.filter(pk=alice.pk).update(is_superuser=True)
    assert browser_of(alice).post("/status/hosts/gone/drain/").status_code == 404


def test_nothing_moves_to_it(gone, operator, workspace):  # noqa: F811
    refused = operator.post(f"/api/v1/workspaces/{workspace.key}/move", {"host": "gone"}, "application/json")
    assert (refused.status_code, refused.json()["code"]) == (404, "host_not_found")


def test_its_version_is_no_neighbour(gone):
    assert not versions.has_newer_neighbour()


def test_it_is_not_called_starting_while_the_last_runner_is_silent(gone, here, lena, browser_of):
    Runner.objects.filter(pk=here.pk).update(heartbeat_at=clock.now() - timedelta(hours=1))
    assert "Runner does not answer" in browser_of(lena).get("/").content.decode()


def test_it_stays_refused_after_a_restore_and_does_not_keep_the_only_host_from_getting_the_new_name(gone, settings):
    settings.HANDRAIL_HOST_NAME = "new-machine"
    after_restore._take_over_runner()
    gone.refresh_from_db()
    assert (gone.host, gone.installation) == ("gone", "g")
    assert Runner.objects.members().get().host == "new-machine"


def test_a_restore_on_a_machine_with_its_name_leaves_the_names_as_they_are(gone, settings):
    settings.HANDRAIL_HOST_NAME = "gone"
    after_restore._take_over_runner()
    assert Runner.objects.members().get().host == "here"


def test_a_name_that_an_operator_gives_away_is_a_members_again(gone, settings):
    settings.HANDRAIL_HOST_NAME = "gone"
    with pytest.raises(identity.OtherInstallation, match="take_over_host gone"):
        identity.register()
    call_command("take_over_host", "gone")
    assert identity.register().removed_at is None


@pytest.mark.parametrize("answer", [b"<html>It works", b"[]", b'{"detail": "no"}', b'"sealed"'])
def test_joining_at_an_address_where_something_else_answers_says_so(monkeypatch, tmp_path, settings, answer):
    settings.HANDRAIL_HOME, settings.HANDRAIL_MEMBER_FILE = tmp_path, tmp_path / "host.env"
    monkeypatch.setattr(member_home.urllib.request, "urlopen", lambda *_, **__: BytesIO(answer))
    monkeypatch.setattr(join_tokens, "_desk_key", lambda code: join_tokens.X25519PrivateKey.generate())
    with pytest.raises(member_home.JoinRefused, match=r"desk\.example\.org/hosts/join answered 200, not as a desk"):
        member_home.join("https://desk.example.org", str(join_tokens.make()))
    assert not settings.HANDRAIL_MEMBER_FILE.exists()
