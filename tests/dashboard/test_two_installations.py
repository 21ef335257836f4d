"""Two installations over one database: none takes the workspaces of another, and what is elsewhere is not gone."""

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from dashboard import clock
from dashboard.ops import bootstrap
from dashboard.ops.bootstrap import StartRefused
from dashboard.problems import Problem
from tests.pages.conftest import keep_tree, make_command, make_workspace, workspace  # noqa: F401 - fixtures
from workspaces import history, identity, operations, paths, recordings, stores
from workspaces.models import Operation, Runner, StoreIdentity


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
    assert recordings.folder_of(make_command(workspace)).name


def test_two_copies_of_one_home_do_not_run_at_once(homes, transactional_db):
    homes("a")
    first, second = identity.Lead(), identity.Lead()
    first.hold()
    if connection.vendor == "sqlite":  # the database lies in the folder, which is locked
        second.hold()
        return
    try:
        with pytest.raises(identity.OtherInstallation, match="Another runner one uses this database"):
            second.hold()
        homes("a", "two")
        second.hold()
        second.leave()
    finally:
        first.leave()
    homes("a")
    second.hold()
    second.leave()
