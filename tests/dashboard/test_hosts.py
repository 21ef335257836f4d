"""What an operator says of a host: drained, lost, back again; over `manage.py host` and the API."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from dashboard.database import clock
from dashboard.models import Event
from tests.pages.conftest import keep_tree, make_command, make_workspace, workspace  # noqa: F401 - fixtures
from workspaces.host import run_leads
from workspaces.models import Checkpoint, Environment, Operation, Phase, Run, RunLead, Runner, State, Workspace
from workspaces.services import hosts
from workspaces.services.hosts import moving
from workspaces.store.blobs import bucket_client

SANDBOX = {"sandbox": {"available": True, "isolation": "namespace"}}


@pytest.fixture
def host(db):
    """`host("a", …)`: the row of a host that answers and can run sandboxes."""

    def make(name, **fields):
        return Runner.objects.create(**{"host": name, "heartbeat_at": clock.now(), "capabilities": SANDBOX} | fields)

    return make


@pytest.fixture
def bucket(settings, monkeypatch):
    """A bucket that refuses connections, which is not asked again for half a minute."""
    settings.HANDRAIL_BUCKET = "s3://bucket"
    for name, value in (("ENDPOINT_URL", "http://127.0.0.1:1"), ("ACCESS_KEY_ID", "a"), ("SECRET_ACCESS_KEY", "b")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setattr(bucket_client, "PATIENCE_SECONDS", 0.0)


@pytest.fixture
def up(workspace, host):  # noqa: F811
    """A workspace that is up on host a, and was used just now; b is another host."""
    one, _ = host("a"), host("b")
    rows = Workspace.objects.filter(pk=workspace.pk)
    rows.update(runner=one, placed_at=clock.now(), state=State.READY, last_active_at=clock.now(), lead_epoch=4)
    Run.objects.create(workspace=workspace, runner=one, started_at=clock.now(), ready_at=clock.now(), lead_epoch=4)
    workspace.refresh_from_db()
    return workspace


@pytest.fixture
def admin(api, token_of, alice):
    """An admin of a team, who is no superuser."""
    return api(token_of(alice))


@pytest.fixture
def operator(admin, alice):
    """The same as a superuser, who may say something of hosts."""
    type(alice).objects.filter(pk=alice.pk).update(is_superuser=True)
    return admin


def silence(name="a", **ago):
    Runner.objects.filter(host=name).update(heartbeat_at=clock.now() - timedelta(**ago or {"minutes": 5}))


def test_a_host_that_nobody_knows_and_one_that_answers_are_refused(host):
    host("a")
    with pytest.raises(CommandError, match="There is no such host"):
        call_command("host", "drain", "nobody")
    with pytest.raises(CommandError, match=r"a answers\. Drain it instead, or stop it first\."):
        call_command("host", "lost", "a")


def test_what_is_in_use_goes_once_it_is_idle_and_with_now_at_once(up, bucket, capsys):
    call_command("host", "drain", "a")
    said = capsys.readouterr().out.splitlines()
    assert said == ["a gets no new workspaces.", f"{up.key} goes to b once it is idle"]
    assert not Operation.objects.filter(kind="move").exists()
    Workspace.objects.update(last_active_at=clock.now() - timedelta(days=1))
    runner = Runner.objects.get(host="a")
    assert moving.to_drain(runner).exists()
    moving.drain(runner)
    operation = Operation.objects.get(kind="move")
    assert (operation.runner, operation.args) == (runner, {"runner": str(Runner.objects.get(host="b").pk)})
    assert not moving.to_drain(runner).exists()
    call_command("host", "drain", "a", "--now")
    assert f"{up.key} is on its way" in capsys.readouterr().out
    call_command("host", "undrain", "a")
    assert not Runner.objects.filter(draining_at__isnull=False).exists()


def test_now_moves_what_is_in_use(up, bucket, capsys):
    call_command("host", "drain", "a", "--now")
    assert f"{up.key} goes to b" in capsys.readouterr().out.splitlines()
    assert Operation.objects.get(kind="move").exclusive


def test_what_stays_says_why(up, bucket, capsys):
    Checkpoint.objects.create(
        workspace=up,
        environment=up.environment,
        name="kept",
        bytes=1,
        snapshot_number=1,
        disk_generation=0,
        created_at=clock.now(),
    )
    call_command("host", "drain", "a", "--now")
    assert "stays: it has checkpoints of its microVM, which stay on their host: kept" in capsys.readouterr().out
    Checkpoint.objects.all().delete()
    Workspace.objects.update(source={"path": "/home/me/folder"})
    call_command("host", "drain", "a", "--now")
    assert "stays: it is a connected folder" in capsys.readouterr().out
    Workspace.objects.update(source={})
    Runner.objects.filter(host="b").update(capabilities={})
    call_command("host", "drain", "a", "--now")
    assert "b does not have the driver sandbox." in capsys.readouterr().out


def test_without_a_bucket_a_workspace_stays_with_the_snapshots_of_its_team(up, team, tmp_path, settings, capsys):
    settings.HANDRAIL_HOST_NAME = "a"
    keep_tree(team, tmp_path / "files", {"a": "1"})
    from workspaces.changes import stores

    stores.opened_to_write(team.pk)
    call_command("host", "drain", "a", "--now")
    assert "b does not have the snapshots of its team, which are in a folder of a." in capsys.readouterr().out


def test_the_workspaces_of_a_lost_host_come_back_elsewhere_with_what_is_missing_said(
    up, bucket, admin, browser_of, alice, capsys
):
    command = make_command(up)
    Operation.objects.filter(pk=command.operation_id).update(
        phase=Phase.STARTED, settled_at=None, outcome=None, started_at=clock.now(), runner=up.runner
    )
    due = Operation.objects.create(kind="snapshot", workspace=up, runner=up.runner, due_at=clock.now(), args={}, by={})
    silence()
    call_command("host", "lost", "a")
    told = capsys.readouterr().out
    since = clock.in_utc(up.head.created_at)
    assert f"{up.key}: Its host a is lost. Changes since {since} are on a." in told
    begun = Operation.objects.get(pk=command.operation_id)
    assert (begun.phase, begun.outcome["reason_code"]) == (Phase.UNCERTAIN, "lost")
    assert set(begun.outcome["evidence"]) == {"host", "started_at", "answered_at", "lost_at"}
    due.refresh_from_db()
    assert (due.phase, due.outcome["reason"]) == (Phase.SETTLED, "Its host a is lost. It did not run.")
    arrival = Operation.objects.get(kind="arrive")
    assert (arrival.runner.host, arrival.args["was"], arrival.args["epoch"]) == ("b", "ready", 5)
    found = admin.get(f"/api/v1/workspaces/{up.key}").json()
    assert (found["state"], found["place"], found["owed"]["host"]) == ("archived", None, "a")
    assert (found["owed"]["snapshot"], found["owed"]["found"]) == (up.head.number, False)
    assert Run.objects.get().end_code == "lost"
    assert [each.verb for each in Event.objects.filter(verb="workspace.host_lost")] == ["workspace.host_lost"]
    assert "are on a" in browser_of(alice).get(f"/w/{up.team.slug}/{up.key}/").content.decode()
    with pytest.raises(CommandError, match="a is lost already"):
        call_command("host", "lost", "a")


@pytest.fixture
def pod(up, bucket):
    """The same workspace in a pod, which other hosts can lead with the keys that host a has kept in the database."""
    Environment.objects.filter(pk=up.environment_id).update(driver="kubernetes")
    Runner.objects.update(capabilities={"kubernetes": {"available": True, "isolation": "pod-runc"}})
    run_leads.keep(Run.objects.get(), "what it takes")
    return up


def test_what_lives_on_without_its_host_is_taken_over_by_another_one(pod, admin, capsys):
    ready_at = Run.objects.get().ready_at
    command = make_command(pod)
    Operation.objects.filter(pk=command.operation_id).update(
        phase=Phase.STARTED, settled_at=None, outcome=None, started_at=clock.now(), runner=pod.runner
    )
    silence()
    call_command("host", "lost", "a")
    assert f"{pod.key}: Its host a is lost, and b takes over what runs." in capsys.readouterr().out
    assert Operation.objects.get(pk=command.operation_id).phase == Phase.UNCERTAIN
    asked, run = Operation.objects.get(kind="take_lead"), Run.objects.get()
    assert asked.args == {"run": str(run.pk), "host": "a", "ready_at": ready_at.isoformat()}
    assert (asked.runner.host, run.runner.host, run.ended_at, run.ready_at, run.lead_epoch) == ("b", "b", None, None, 5)
    assert run_leads.read(run).needed == "what it takes"
    found = admin.get(f"/api/v1/workspaces/{pod.key}").json()
    assert (found["state"], found["place"]["host"], found["owed"]) == ("ready", "b", None)

    Runner.objects.create(host="c", heartbeat_at=clock.now(), capabilities=Runner.objects.first().capabilities)
    silence("b")  # before it has begun
    call_command("host", "lost", "b")
    asked.refresh_from_db()
    assert asked.outcome["reason"] == "Its host b is lost. It did not run."
    assert Operation.objects.open().get(kind="take_lead").runner.host == "c"


def test_what_no_other_host_can_take_over_comes_back_from_its_snapshot(pod):
    Runner.objects.filter(host="b").update(capabilities={})
    silence()
    hosts.declare_lost(Runner.objects.get(host="a"), by=moving.DRAIN)
    found = Workspace.objects.get(pk=pod.pk)
    assert (found.state, found.owed["host"]) == (State.ARCHIVED, "a")
    assert Run.objects.get().end_code == "lost"
    assert not RunLead.objects.exists()


def test_one_at_rest_owes_nothing_and_one_without_a_fit_host_stays_archived_and_says_why(up, bucket):
    Workspace.objects.update(state=State.PAUSED)
    Run.objects.all().delete()
    Runner.objects.filter(host="b").update(capabilities={})
    silence()
    hosts.declare_lost(Runner.objects.get(host="a"), by=moving.DRAIN)
    found = Workspace.objects.get(pk=up.pk)
    assert (found.state, found.owed, found.runner) == (State.ARCHIVED, {}, None)
    assert "b does not have the driver sandbox." in found.reason
    assert "Its newest snapshot has all." in found.reason


def test_without_a_bucket_they_have_failed(up):
    silence()
    hosts.declare_lost(Runner.objects.get(host="a"), by=moving.DRAIN)
    found = Workspace.objects.get(pk=up.pk)
    assert (found.state, found.reason) == (State.FAILED, "Its host a is lost, and its files with it.")
    assert found.lead_epoch == 5


def test_by_itself_a_host_is_lost_only_after_the_minutes_that_an_operator_set(up, bucket, settings):
    here = Runner.objects.get(host="b")
    silence(hours=5)
    assert not hosts.long_silent(here).exists()
    settings.HANDRAIL_LOST_MINUTES = 400
    assert not hosts.long_silent(here).exists()
    settings.HANDRAIL_LOST_MINUTES = 200
    hosts.lose_long_silent(here)
    assert Runner.objects.get(host="a").lost_at is not None
    assert not hosts.long_silent(here).exists()


def test_the_api_drains_and_loses_hosts_for_a_superuser(up, bucket, operator, api, token_of, lena):
    found = {each["name"]: each for each in operator.get("/api/v1/hosts").json()["hosts"]}
    assert {name: each["state"] for name, each in found.items()} == {"a": "ready", "b": "ready"}
    assert (found["a"]["workspaces"], found["a"]["promised"]["runs"]) == (1, 1)
    assert found["a"]["drivers"]["sandbox"]["available"] is True
    drained = operator.post("/api/v1/hosts/a/drain?now=true").json()
    assert (drained["state"], [each["words"] for each in drained["told"]]) == ("draining", ["goes to b"])
    assert operator.post("/api/v1/hosts/a/undrain").json()["state"] == "ready"
    assert operator.post("/api/v1/hosts/a/lost").status_code == 409
    silence()
    assert operator.get("/api/v1/hosts").json()["hosts"][0]["state"] == "unreachable"
    assert operator.post("/api/v1/hosts/a/lost").json()["state"] == "lost"
    assert operator.post("/api/v1/hosts/nowhere/drain").status_code == 404
    other = api(token_of(lena))
    assert other.get("/api/v1/hosts").status_code == 403
    assert other.post("/api/v1/hosts/b/drain").status_code == 403


def test_an_admin_of_a_team_sees_hosts_and_says_nothing_of_them(up, bucket, admin):
    assert [each["name"] for each in admin.get("/api/v1/hosts").json()["hosts"]] == ["a", "b"]
    silence()
    for verb in ("drain", "undrain", "lost"):
        refused = admin.post(f"/api/v1/hosts/a/{verb}")
        assert (refused.status_code, refused.json()["detail"]) == (
            403,
            "Only a superuser says so of a host: it has workspaces of all teams.",
        )
    assert not Runner.objects.exclude(draining_at=None, lost_at=None).exists()


def test_the_log_says_who_drained_and_lost_a_host(up, bucket, operator, alice, team):
    for verb in ("drain", "drain", "undrain", "undrain"):
        assert operator.post(f"/api/v1/hosts/a/{verb}").status_code == 200
    silence()
    assert operator.post("/api/v1/hosts/a/lost").status_code == 200
    said = Event.objects.filter(team=team, verb__startswith="host.").order_by("seq")
    assert [(event.verb, event.data["host"]) for event in said] == [
        ("host.drained", "a"),
        ("host.undrained", "a"),
        ("host.lost", "a"),
    ]
    assert {event.actor_id for event in said} == {str(alice.pk)}


def test_a_host_without_a_runner_is_removed_and_not_lost(host):
    host("web-only", heartbeat_at=None, parts=["web"])
    with pytest.raises(CommandError, match="has no workspaces to bring back"):
        call_command("host", "lost", "web-only")


def test_the_web_of_a_lost_host_is_not_ready_and_says_why(host, settings, client):
    settings.HANDRAIL_HOST_NAME = "a"
    row = host("a")
    before = client.get("/readyz")
    assert (before.status_code, "host" in [part["part"] for part in before.json()]) == (200, False)
    Runner.objects.filter(pk=row.pk).update(lost_at=clock.now())
    refused = client.get("/readyz")
    assert refused.status_code == 503
    [said] = [part["words"] for part in refused.json()["parts"] if part["part"] == "host"]
    assert said == "This host was declared lost. It answers again once it has put the files of its workspaces aside."


def test_a_move_to_a_host_that_falls_silent_is_given_up_and_what_was_up_is_resumed(up, bucket):
    one, other = up.runner, Runner.objects.get(host="b")
    Workspace.objects.update(state=State.STOPPED)
    Run.objects.all().delete()
    args = {"runner": str(other.pk), "from": str(one.pk), "was": "ready", "head": "", "sent": {}, "epoch": 4}
    arrival = Operation.objects.create(
        kind="arrive",
        workspace=up,
        runner=other,
        due_at=clock.now(),
        args=args,
        exclusive=True,
        by=moving.DRAIN.as_json,
    )
    assert not moving.held_up(one).exists()
    silence("b")
    moving.give_up_on_silent(one)
    arrival.refresh_from_db()
    assert arrival.outcome["reason"] == "Nothing was moved: b does not answer."
    assert Operation.objects.get(kind="resume").runner == one
    assert not moving.held_up(one).exists()
