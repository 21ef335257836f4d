"""Two installations over one database: none takes the workspaces of another, and what is elsewhere is not gone."""

import shutil
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from approvals.notify import vapid
from dashboard.database import clock
from dashboard.keys import keyring, log_key
from dashboard.keys.key_files import read_or_make
from dashboard.models import Event
from dashboard.ops import after_restore, bootstrap
from dashboard.ops.bootstrap import StartRefused
from dashboard.problems import Problem
from tests.pages.conftest import keep_tree, make_command, make_workspace, workspace  # noqa: F401 - fixtures
from workspaces import operations
from workspaces.changes import history, stores
from workspaces.host import identity, paths, same_keys
from workspaces.models import Operation, Phase, Run, Runner, State, StoreIdentity, Workspace
from workspaces.programs import recordings
from workspaces.runner.reconcile import other_hosts


@pytest.fixture
def homes(settings, tmp_path):
    """`homes("a")`: go on as the installation in this folder, `homes("a", "host-a")` under this host's name."""

    def move(name: str, host: str = "one"):
        settings.HANDRAIL_HOME, settings.HANDRAIL_HOST_NAME = tmp_path / name, host
        settings.HANDRAIL_HOME.mkdir(exist_ok=True)

    return move


def test_a_second_installation_of_one_name_is_refused_and_changes_nothing(homes, db):
    homes("a")
    row = identity.register()
    Runner.objects.update(heartbeat_at=clock.now())
    homes("b")
    with pytest.raises(identity.OtherInstallation, match=f"home {row.home}, process {row.pid}"):
        identity.register()
    with pytest.raises(StartRefused, match="HANDRAIL_HOST_NAME of its own"):
        bootstrap.forget_heartbeat()
    found = Runner.objects.get()
    assert (found.installation, found.is_alive) == (row.installation, True)
    homes("b", "two")
    assert identity.register().host == "two"


def test_the_same_installation_starts_again(homes, db):
    homes("a")
    first = identity.register()
    again = identity.register()
    assert (first.pk, first.installation) == (again.pk, again.installation)
    assert again.version == identity.code_version() != ""


def test_the_name_of_a_lost_installation_is_taken_over_by_command(homes, db, capsys):
    homes("a")
    identity.register()
    Runner.objects.update(heartbeat_at=clock.now())
    homes("b")
    with pytest.raises(CommandError, match="is running"):
        call_command("take_over_host", "one")
    Runner.objects.update(heartbeat_at=None)
    call_command("take_over_host", "one")
    assert "Nothing was deleted" in capsys.readouterr().out
    assert identity.register().home.endswith("/b")


@pytest.fixture
def elsewhere(homes, team, workspace, tmp_path):  # noqa: F811
    """The workspace and its team's snapshots are on host-b, which is running; this is host-a."""
    homes("b", "host-b")
    keep_tree(team, tmp_path / "files", {"a": "1"})
    stores.opened_to_write(team.pk)
    workspace.runner = identity.register()
    workspace.save()
    Runner.objects.update(heartbeat_at=clock.now())
    homes("a", "host-a")
    return workspace


def test_what_is_on_another_host_is_unreachable_and_not_gone(elsewhere, team, api, token_of, alice):
    assert StoreIdentity.objects.get().host == "host-b"
    command = make_command(elsewhere)
    answer = api(token_of(alice)).get(f"/api/v1/commands/{command.pk}/output")
    assert (answer.status_code, answer.json()["code"], answer.json()["host"]) == (503, "elsewhere", "host-b")
    assert answer.json()["detail"] == f"{elsewhere.key} is on host-b, which this address cannot reach."
    with pytest.raises(Problem, match="they are on host-b, which this address cannot reach") as refused:
        history.store_of(elsewhere)
    assert refused.value.status == 503
    assert stores.troubles() == []
    with pytest.raises(CommandError, match="is on host-b, which is running"):
        call_command("accept_store", team.slug)
    assert StoreIdentity.objects.get().host == "host-b"
    assert not paths.store_of(team.pk).exists()


def test_a_host_claims_no_new_workspace_of_a_team_whose_snapshots_are_elsewhere(elsewhere):
    operation = Operation.objects.create(kind="create", workspace=elsewhere, due_at=clock.now(), args={}, by={})
    here = identity.register()
    assert operation not in operations.claimable(here)
    assert operation in operations.claimable(elsewhere.runner)
    StoreIdentity.objects.update(host="host-a")
    assert operation in operations.claimable(here)


def test_recordings_here_are_read(homes, workspace):  # noqa: F811
    homes("a", "host-a")
    workspace.runner = identity.register()
    workspace.save()
    assert recordings.of(make_command(workspace)).folder.name


def test_a_runner_takes_its_lead_again_while_the_server_still_has_its_broken_connection(homes, transactional_db):
    if connection.vendor == "sqlite":
        pytest.skip("the lock of the folder does it")
    homes("a")
    lead, other = identity.Lead(), identity.Lead()
    lead.take()
    cut, cut_off = lead._holding, lead._holding.connection
    cut.is_usable, cut.close = lambda: False, lambda: None  # as where the cable was cut: the server's end stays open
    try:
        lead.take()
        assert lead._holding is not cut
        with pytest.raises(identity.OtherInstallation):
            other.take()
    finally:
        lead.leave()
        cut_off.close()
    other.take()
    other.leave()


def test_two_copies_of_one_home_do_not_run_at_once(homes, transactional_db):
    homes("a")
    first, second = identity.Lead(), identity.Lead()
    first.take()
    if connection.vendor == "sqlite":  # the database lies in the folder, which is locked
        second.take()
        return
    try:
        with pytest.raises(identity.OtherInstallation, match="Another runner one uses this database"):
            second.take()
        homes("a", "two")
        second.take()
        second.leave()
    finally:
        first.leave()
    homes("a")
    second.take()
    second.leave()


@pytest.fixture
def keys_of(homes, settings):
    """`keys_of("a", "host-a")`: go on as this installation, with keys of its own; return their folder."""

    def move(name: str, host: str) -> Path:
        homes(name, host)
        settings.KEYS_DIR = settings.HANDRAIL_HOME / "keys"
        read_or_make(settings.KEYS_DIR / "secret_key")
        for make in (vapid.private_key, log_key.private_key, keyring.load):
            make()
        return settings.KEYS_DIR

    return move


def test_an_installation_with_other_keys_than_its_database_is_refused(keys_of, db):
    first = keys_of("a", "host-a")
    bootstrap.same_keys_as_others()
    noted = identity.register().keys
    assert set(noted) == {"secret_key", "ring", "vapid", "log"} == set(same_keys.WHAT_FOR)
    for path in first.iterdir():  # a fingerprint is no part of a key
        assert not any(mark in path.read_text() for marks in noted.values() for mark in marks)
    second = keys_of("b", "host-b")
    for name in same_keys.WHAT_FOR:  # each of them is asked about
        shutil.copytree(first, second, dirs_exist_ok=True)
        bootstrap.same_keys_as_others()
        (second / name).unlink()
        keys_of("b", "host-b")
        with pytest.raises(StartRefused, match=rf"host-a uses this database with other keys: keys/{name} \("):
            bootstrap.same_keys_as_others()
    assert Runner.objects.count() == 1
    Runner.objects.update(heartbeat_at=None)
    call_command("take_over_host", "host-a")
    bootstrap.same_keys_as_others()


def test_a_key_that_one_host_added_to_the_ring_is_needed_by_the_others(keys_of, db):
    first = keys_of("a", "host-a")
    identity.register()
    shutil.copytree(first, keys_of("b", "host-b"), dirs_exist_ok=True)
    keyring.add((keyring.fresh(),), first=True)
    bootstrap.same_keys_as_others()  # it can read all that host-a encrypts
    identity.register()
    keys_of("a", "host-a")
    with pytest.raises(StartRefused, match=r"host-b uses this database with other keys: keys/ring \(secrets"):
        bootstrap.same_keys_as_others()


def make_run(place):
    now = clock.now()
    Run.objects.create(workspace=place, runner=place.runner, started_at=now, ready_at=now, epoch=1)


def asked_to_run(client, place) -> dict:
    """Return a command that is asked for over the API."""
    address = f"/api/v1/workspaces/{place.key}/commands"
    return client.post(address, {"argv": ["true"]}, content_type="application/json").json()


@pytest.fixture
def silent(elsewhere):
    """The same, and host-b has not answered for an hour; the workspace was up."""
    make_run(elsewhere)
    Workspace.objects.update(state=State.READY, reason="")
    Runner.objects.update(heartbeat_at=clock.now() - timedelta(hours=1))
    elsewhere.refresh_from_db()
    return elsewhere


def test_a_workspace_whose_host_is_silent_says_since_when_and_a_command_what_it_waits_for(
    silent, api, token_of, alice, browser_of
):
    since = silent.runner.heartbeat_at
    words = f"host-b, which has not answered since {since:%Y-%m-%d %H:%M} UTC"
    client = api(token_of(alice))
    listed = client.get("/api/v1/workspaces").json()["workspaces"]
    for found in (client.get(f"/api/v1/workspaces/{silent.key}").json(), *listed):
        assert (found["state"], found["reason_code"]) == ("unreachable", "unreachable")
        assert found["since"] == found["unreachable_since"]
        assert found["place"]["host"] == "host-b"
        assert words in found["reason"]
        assert datetime.fromisoformat(found["unreachable_since"]) == since.replace(
            microsecond=since.microsecond // 1000 * 1000
        )
    asked = asked_to_run(client, silent)
    assert asked["reason"] == f"It waits for {words}."
    for state, keys in {"unreachable": [silent.key], "ready": []}.items():
        found = client.get(f"/api/v1/workspaces?state={state}").json()["workspaces"]
        assert [each["key"] for each in found] == keys
    refused = client.get(f"/api/v1/commands/{asked['id']}/output")
    assert (refused.status_code, refused.json()["code"]) == (503, "elsewhere")
    assert client.post(f"/api/v1/workspaces/{silent.key}/pause").status_code == 202
    waiting = client.get(f"/api/v1/workspaces/{silent.key}/operations").json()["operations"]
    assert [each["waits_for"] for each in waiting if each["kind"] == "pause"] == [f"It waits for {words}."]

    here = identity.register()
    other_hosts.sweep(here)
    other_hosts.sweep(here)
    assert Event.objects.filter(verb="workspace.unreachable").count() == 1
    pause = next(each for each in waiting if each["kind"] == "pause")
    browser, at = browser_of(alice), f"/w/{silent.team.slug}/{silent.key}/"
    for address in (at, f"{at}operations/{pause['id']}/", "/workspaces/"):
        assert words in browser.get(address).content.decode(), address


def test_one_that_is_paused_on_a_silent_host_is_unreachable_and_paused_again_when_it_answers(
    silent, api, token_of, alice, browser_of
):
    Workspace.objects.update(state=State.PAUSED)
    client, browser = api(token_of(alice)), browser_of(alice)
    address, page = f"/api/v1/workspaces/{silent.key}", f"/w/{silent.team.slug}/{silent.key}/"
    assert client.get(address).json()["state"] == "unreachable"
    assert "Can't be reached" in unescape(browser.get(page).content.decode())
    assert silent.key in browser.get("/workspaces/?state=away").content.decode()
    assert "On host-b since" in browser.get(page).content.decode()
    Runner.objects.update(heartbeat_at=clock.now())
    found = client.get(address).json()
    assert (found["state"], found["since"], found["reason"]) == ("paused", None, "")
    assert "Can't be reached" not in unescape(browser.get(page).content.decode())


def test_a_host_that_answers_is_not_called_unreachable(elsewhere, api, token_of, alice):
    make_run(elsewhere)
    Workspace.objects.update(state=State.READY, reason="")
    other_hosts.sweep(identity.register())
    found = api(token_of(alice)).get(f"/api/v1/workspaces/{elsewhere.key}").json()
    assert (found["reason"], found["reason_code"], found["unreachable_since"]) == ("", "", None)
    assert (found["state"], found["since"]) == ("ready", None)


def test_an_operator_says_that_a_host_is_lost(silent, team, api, token_of, alice, capsys):
    client = api(token_of(alice))
    asked = asked_to_run(client, silent)
    under_way = make_command(silent).operation
    Operation.objects.filter(pk=under_way.pk).update(phase=Phase.STARTED, settled_at=None, runner=silent.runner)
    call_command("take_over_host", "host-b", "--lost")
    told = capsys.readouterr().out
    assert f"Failed as lost with host-b: {silent.key}." in told
    assert f"manage.py accept_store {team.slug}" in told
    command = client.get(f"/api/v1/commands/{asked['id']}").json()
    assert command["reason"] == "Its host host-b is lost, and its files with it. It did not run."
    under_way.refresh_from_db()
    assert (under_way.phase, under_way.outcome["reason_code"]) == (Phase.UNCERTAIN, "lost")
    found = client.get(f"/api/v1/workspaces/{silent.key}").json()
    assert (found["state"], found["reason"]) == ("failed", "Its host host-b is lost, and its files with it.")
    assert not Run.objects.filter(ended_at=None).exists()
    call_command("accept_store", team.slug)  # from here on a host that is there can delete it
    deletion = Operation.objects.create(kind="delete", workspace=silent, due_at=clock.now(), args={}, by={})
    assert deletion in operations.claimable(identity.register())


def test_the_only_host_of_a_restored_database_gets_this_ones_name(settings, db):
    settings.HANDRAIL_HOST_NAME = "new"
    Runner.objects.create(host="old", installation="a", home="/a")
    after_restore._take_over_runner()
    assert Runner.objects.values_list("host", "installation").get() == ("new", "")
