"""Checkpoints of paused microVMs: kept under a name, restored, forked, deleted, counted and retained."""

import uuid
from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Actor, Event, Token
from dashboard.people.access import caller_of
from dashboard.problems import Problem
from workspaces import secrets
from workspaces.host import paths
from workspaces.models import (
    Cap,
    CapMeasure,
    Checkpoint,
    Environment,
    HandedSecret,
    Operation,
    Phase,
    RetentionRule,
    Run,
    Runner,
    State,
    Workspace,
)
from workspaces.provisioning import caps
from workspaces.services import checkpoints, retention, run_tokens
from workspaces.services.retention import holds

HERE = "/w/payments/repo-task-1/"
LIST = f"{HERE}checkpoints/"
NOBODY = Actor.system("test")


@pytest.fixture
def paused(workspace):
    """A microVM that is paused with its memory."""
    Environment.objects.update(driver="microvm")
    host = Runner.objects.create(host="h", heartbeat_at=clock.now(), capabilities={"microvm": {"available": True}})
    Workspace.objects.update(state=State.PAUSED, base={"digest": "1@sha256:2"}, disk_generation=4, runner=host)
    when = {"started_at": clock.now(), "ended_at": clock.now()}
    Run.objects.create(workspace=workspace, runner=host, memory_kept=True, **when)
    return Workspace.objects.select_related("team", "environment", "head").get(pk=workspace.pk)


@pytest.fixture
def kept(paused):
    """`kept("one", days=3)`: a checkpoint whose files are complete."""

    def make(name="one", days=0, **fields):
        return Checkpoint.objects.create(
            workspace=paused,
            name=name,
            snapshot=paused.head,
            snapshot_number=2,
            environment=paused.environment,
            base=paused.base,
            disk_generation=4,
            created_at=clock.now() - timedelta(days=days),
            **{"bytes": 5_000_000, "by": NOBODY.as_json} | fields,
        )

    return make


def events(verb) -> list[dict]:
    return [event.data for event in Event.objects.filter(verb=verb).order_by("seq")]


# Keep ----------------------------------------------------------------------------------------------------------------


def test_a_paused_microvm_is_kept_under_a_name(paused, lena, browser_of, read):
    client = browser_of(lena)
    assert f'href="{LIST}">Keep as checkpoint…' in read(client, HERE)
    assert "Its size is not known now." in read(client, LIST)  # no runner answers
    answer = client.post(LIST, {"name": "before-the-upgrade"})
    [operation] = Operation.objects.filter(kind="keep_checkpoint")
    assert answer.headers["Location"] == f"{HERE}operations/{operation.pk}/"
    made = Checkpoint.objects.get()
    assert operation.args == {"checkpoint": str(made.pk)}
    assert (made.name, made.bytes, made.snapshot_number, made.by["label"]) == ("before-the-upgrade", None, 2, "lena")
    assert "being kept" in read(client, LIST)
    assert f"{LIST}{made.pk}/restore/" not in read(client, LIST)


def test_a_sandbox_and_a_microvm_that_is_up_have_none_to_keep(workspace, lena, browser_of, read):
    client = browser_of(lena)
    assert "Only microVMs keep memory" in read(client, LIST)
    assert LIST not in read(client, f"{HERE}snapshots/")
    Environment.objects.update(driver="microvm")
    assert "pause the workspace with its memory" in read(client, LIST)
    assert LIST in read(client, f"{HERE}snapshots/")
    assert "can&#x27;t be kept as a checkpoint now" in client.post(LIST, {"name": "one"}, follow=True).content.decode()
    assert (Checkpoint.objects.count(), Operation.objects.count()) == (0, 0)


@pytest.mark.parametrize("name", ["", "two words", "../up", "x" * 101, "\u202ename"])
def test_what_is_no_name_is_refused(paused, name):
    with pytest.raises(Problem):
        checkpoints.keep(paused, name, by=NOBODY)
    assert Checkpoint.objects.count() == 0


def test_a_name_is_used_once_and_memory_must_be_there(paused, kept):
    kept("one")
    with pytest.raises(Problem, match="already has a checkpoint with the name one"):
        checkpoints.keep(paused, "one", by=NOBODY)
    Run.objects.update(memory_kept=False)
    with pytest.raises(Problem, match="paused without its memory"):
        checkpoints.keep(paused, "two", by=NOBODY)
    assert Operation.objects.count() == 0


def test_a_checkpoint_counts_toward_the_teams_limit_of_disk(paused, kept):
    cap = Cap.objects.create(team=paused.team, measure=CapMeasure.DISK_BYTES, limit=10_000_000)
    before = caps.used(cap)
    kept("one")
    assert caps.used(cap) == before + 5_000_000
    checkpoints.keep(paused, "two", by=NOBODY)
    kept("three", bytes=9_000_000)
    with pytest.raises(Problem, match="its limit is"):
        checkpoints.keep(paused, "four", by=NOBODY)


def test_a_runner_that_finds_no_memory_that_fits_keeps_nothing_and_says_so(paused, runner):
    Workspace.objects.update(runner=runner.daemon.row)
    paused.refresh_from_db()
    checkpoints.keep(paused, "one", by=NOBODY)
    runner()
    assert Operation.objects.get().outcome["reason"].startswith("There is no memory to keep.")
    assert Checkpoint.objects.count() == 0
    [told] = events("checkpoint.failed")
    assert (told["name"], told["reason"].startswith("There is no memory to keep.")) == ("one", True)
    assert not paths.checkpoints_of(paused.pk).exists()


# Restore and fork ----------------------------------------------------------------------------------------------------


def test_a_restore_is_confirmed_and_names_what_is_lost(paused, kept, lena, browser_of, read):
    made = kept()
    there = f"{LIST}{made.pk}/restore/"
    text = read(browser_of(lena), there)
    assert "Restore checkpoint one?" in text
    assert "The memory that the pause has kept is discarded." in text
    browser_of(lena).post(there)
    [operation] = Operation.objects.all()
    assert (operation.kind, operation.args, operation.exclusive) == (
        "restore_checkpoint",
        {"checkpoint": str(made.pk)},
        True,
    )
    browser_of(lena).post(there)  # a second tap joins it
    assert Operation.objects.count() == 1


def test_an_incomplete_checkpoint_or_a_stopped_team_restores_nothing(paused, kept):
    with pytest.raises(Problem, match="still being kept"):
        checkpoints.restore(kept(bytes=None), by=NOBODY)
    other = kept("two")
    paused.team.stopped_at = clock.now()
    paused.team.save()
    with pytest.raises(Problem) as stopped:
        checkpoints.restore(other, by=NOBODY)
    assert stopped.value.extra["code"] == "stopped"
    assert Operation.objects.count() == 0


def test_a_deleted_one_is_not_restored_by_the_runner(paused, kept, runner):
    Workspace.objects.update(runner=runner.daemon.row)
    paused.refresh_from_db()
    made = kept()
    checkpoints.restore(made, by=NOBODY)
    Checkpoint.objects.all().delete()
    runner()
    assert Operation.objects.get().outcome["reason"] == "The checkpoint was deleted."
    paused.refresh_from_db()
    assert (paused.state, paused.reason, paused.disk_generation) == (State.PAUSED, "The checkpoint was deleted.", 4)
    assert events("workspace.checkpoint_failed") == [{"reason": "The checkpoint was deleted."}]


def test_a_checkpoint_is_forked_many_times(paused, kept, lena, browser_of):
    made, client = kept(), browser_of(lena)
    for key in ("one-more", "and-another"):
        assert client.post(f"{LIST}{made.pk}/fork/", {"key": key}).headers["Location"] == f"/w/payments/{key}/"
    forks = Workspace.objects.filter(forked_from=paused)
    assert {fork.key for fork in forks} == {"one-more", "and-another"}
    for fork in forks:
        assert (fork.base, fork.disk_generation, fork.runner_id) == (paused.base, 4, paused.runner_id)
        assert fork.source["fork"]["checkpoint"] == str(made.pk)
    assert "already used" in client.post(f"{LIST}{made.pk}/fork/", {"key": "one-more"}).content.decode()
    assert [told["checkpoint"] for told in events("workspace.forked")] == ["one", "one"]
    with pytest.raises(Problem, match="in use"):  # its files are read by forks that are being created
        checkpoints.delete(made, by=NOBODY)


def test_a_fork_is_searched_for_the_secrets_that_its_programs_have(paused, kept, lena):
    secrets.search_for(paused, "DEPLOY", "agent", "value of the origin")
    fork = checkpoints.fork(kept(began=str(uuid.uuid4())), "fork", caller=caller_of(lena))
    secrets.copy_to_fork(paused, fork)
    run_tokens.search_for_former(fork, paused.key, "run")
    assert dict(secrets.handed_to(fork))["DEPLOY"] == "value of the origin"
    names = set(HandedSecret.objects.filter(workspace=fork).values_list("name", flat=True))
    assert names == {"DEPLOY", "HANDRAIL_TOKEN of repo-task-1"}


def test_the_token_of_programs_in_a_checkpoint_is_good_again_after_a_restore_and_nowhere_else(paused, kept, lena):
    began = _run(paused)
    run_tokens.make(paused, began)
    first = Token.objects.get(workspace=paused)
    made = kept(began=str(began.pk))
    run_tokens.revoke(paused.pk)  # the workspace is stopped
    first.refresh_from_db()
    assert (first.revoked_at, first.expires_at <= clock.now()) == (None, True)
    run_tokens.make(paused, _run(paused, began=str(began.pk)))
    first.refresh_from_db()
    assert first.expires_at > clock.now()
    fork = checkpoints.fork(made, "fork", caller=caller_of(lena))
    run_tokens.make(fork, _run(fork, began=str(began.pk)))
    assert Token.objects.get(workspace=fork).sha256 != first.sha256


def _run(workspace, began=""):
    Run.objects.filter(workspace=workspace, ended_at=None).update(ended_at=clock.now())
    host = workspace.runner
    return Run.objects.create(workspace=workspace, runner=host, started_at=clock.now(), owner={"began": began})


# Delete and retain ---------------------------------------------------------------------------------------------------


def test_deleting_one_removes_its_files(paused, kept, runner, lena, browser_of):
    Workspace.objects.update(runner=runner.daemon.row)
    made, other = kept("one"), kept("two")
    for one in (made, other):
        place = paths.checkpoint_of(paused.pk, one.pk)
        place.mkdir(parents=True)
        (place / "memory").write_text("memory")
    assert browser_of(lena).post(f"{LIST}{made.pk}/delete/").headers["Location"] == LIST
    runner()
    assert [path.name for path in paths.checkpoints_of(paused.pk).iterdir()] == [str(other.pk)]
    assert list(Checkpoint.objects.all()) == [other]
    assert events("checkpoint.deleted") == [{"name": "one", "key": "repo-task-1", "bytes": 5_000_000}]


def test_who_may_not_and_what_is_on_hold_stays(paused, kept, vera, bob, mallory, browser_of):
    made = kept()
    for client, status in ((browser_of(vera), 403), (browser_of(bob), 403), (browser_of(mallory), 404)):
        for what in ("restore", "fork", "delete"):
            assert client.post(f"{LIST}{made.pk}/{what}/", {"key": "fork"}).status_code == status
        assert client.post(LIST, {"name": "mine"}).status_code == status
    holds.hold(paused.team, workspace=paused, reason="lawsuit", by=NOBODY)
    with pytest.raises(Problem, match="on hold: lawsuit"):
        checkpoints.delete(made, by=NOBODY)
    assert (Checkpoint.objects.count(), Operation.objects.count()) == (1, 0)


def test_checkpoints_are_kept_without_a_retention_rule(team, paused, kept):
    for name, days in (("old", 40), ("older", 50), ("new", 2)):
        kept(name, days)
    retention.sweep()
    assert Checkpoint.objects.count() == 3
    RetentionRule.objects.create(team=team, layer="checkpoints", days=30, keep_newest=2)
    retention.sweep()
    assert set(Checkpoint.objects.values_list("name", flat=True)) == {"new", "old"}
    [operation] = Operation.objects.filter(kind="drop_checkpoint")
    assert operation.phase == Phase.DUE
