"""Who leads a workspace: a start and a request under an older epoch are refused, for ever, by what has seen a newer."""

from dataclasses import replace

import pytest

from workspaces.drivers import lead_epochs
from workspaces.drivers.base import DriverError, RunRecord
from workspaces.drivers.init_client import InitClient, InitRefused


@pytest.fixture
def run(driver_name, begin):
    return begin(driver_name, lead=2)


def test_the_record_keeps_the_epoch_and_its_init_refuses_a_lower_one_for_ever(run):
    socket = run.owner.address.socket
    assert run.owner.address.lead == ("1", 2)
    assert RunRecord.from_json(run.owner.to_json()) == run.owner
    with InitClient(socket, lead=run.owner.address.lead) as own, InitClient(socket, lead=("1", 3)) as newer:
        assert own.request("tasks")["tasks"] > 0
        assert newer.request("tasks")["tasks"] > 0
        with pytest.raises(InitRefused, match=r"another runner leads this workspace \(epoch 3, not 2\)"):
            own.start(["/bin/true"], env={}, cwd=run.owner.address.cwd, stdio="pipe")
    with InitClient(socket, lead=("1", 2)) as again, pytest.raises(InitRefused, match="another runner leads"):
        again.request("tasks")
    with InitClient(socket, lead=("another", 1)) as other:  # memory of one workspace that goes on in a fork
        assert other.request("tasks")["tasks"] > 0


def test_nothing_is_started_under_a_lower_epoch_than_was_here(run):
    run.do.stop(run.owner)
    run.do.clear(run.owner)
    assert lead_epochs.known(run.driver.home, "1") == 2
    late = replace(run.spec, run_id=f"{run.spec.run_id}-late", lead=1)
    for verb in (run.do.prepare, run.do.start, run.again().start):
        with pytest.raises(DriverError, match=r"Another runner leads this workspace now \(epoch 2, and this is 1\)"):
            verb(late)
    assert run.do.start(replace(late, lead=5)).address.lead == ("1", 5)
    assert lead_epochs.known(run.driver.home, "1") == 5
