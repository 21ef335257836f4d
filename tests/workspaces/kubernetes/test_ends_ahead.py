"""A pod of agent-sandbox has an end, which the host that leads it moves ahead: a dead man's switch."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.waiting import until
from tests.workspaces.drivers.runs import OPTIONS
from workspaces.drivers.kubernetes.pods import LIVES_S


@pytest.fixture
def sandboxed(pod, agent_sandbox, monkeypatch):
    """`sandboxed()`: a Run that is up in the pod of a Sandbox."""
    monkeypatch.setitem(OPTIONS["kubernetes"], "source", "agent-sandbox")
    return pod


def name_of(run) -> str:
    return run.driver.pods.name_of(run.spec.run_id)


def end_of(run) -> datetime:
    found = run.driver.pods.source._get("Sandbox", name_of(run))
    return datetime.fromisoformat(found["spec"]["shutdownTime"])


def set_end(run, at: datetime) -> None:
    ends = {"spec": {"shutdownTime": at.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    run.driver.pods.source._patch("Sandbox", name_of(run), ends)


def is_far(at: datetime) -> bool:
    return at > datetime.now(UTC) + timedelta(seconds=LIVES_S - 600)


def test_a_host_moves_the_end_of_its_pods_ahead(sandboxed):
    run = sandboxed()
    assert is_far(end_of(run))
    set_end(run, datetime.now(UTC) + timedelta(seconds=60))
    run.again().held_up()
    assert is_far(end_of(run))
    assert run.sh("echo on") == ("on\n", 0)


def test_an_end_is_moved_once_in_an_hour(sandboxed):
    run = sandboxed()
    again = run.again()
    again.held_up()
    set_end(run, soon := (datetime.now(UTC) + timedelta(seconds=60)).replace(microsecond=0))
    again.held_up()
    assert end_of(run) == soon
    run.again().held_up()


def test_a_pod_whose_time_is_over_while_its_host_looks_gives_its_files_back(sandboxed):
    run = sandboxed()
    run.sh("echo kept > note")
    set_end(run, datetime(2020, 1, 1, tzinfo=UTC))
    until(lambda: not run.again().alive(run.owner))
    assert run.again().how_it_crashed(run.owner).endswith("; its files were fetched before.")
    run.again().stop(run.owner)
    assert (run.spec.workspace / "note").read_text() == "kept\n"


def test_a_pod_whose_time_was_over_is_lost_with_its_files_and_not_revived_without(sandboxed):
    run = sandboxed()
    run.sh("echo lost > note")
    set_end(run, datetime(2020, 1, 1, tzinfo=UTC))
    source = run.driver.pods.source
    until(lambda: (found := source.find(name_of(run))) is None or found.metadata.deletionTimestamp)
    run.driver.pods.delete(run.spec.run_id, grace_s=0)  # instead of waiting for its grace
    run.again().held_up()
    until(lambda: source.find(name_of(run)) is None)
    run.again().held_up()
    assert source._get("Sandbox", name_of(run)) is None
    until(lambda: not run.again().alive(run.owner))
    run.again().stop(run.owner)
    assert run.again().driver.lacks_files(run.spec)  # `Resume` takes those of the newest snapshot
