"""What an operation that raised comes to: one outcome, with words for people and a code for programs."""

import pytest

from dashboard.problems import conflict
from workspaces.drivers.base import DriverError
from workspaces.models import Operation, Phase, ReasonCode
from workspaces.provisioning.git.running import CloneFailed
from workspaces.runner.operations.create import Failed
from workspaces.runner.operations.restore import Restore
from workspaces.runner.operations.snapshot import TakeSnapshot
from workspaces.runner.operations.stop import Stop
from workspaces.runner.refusals import Refused, outcome_of, unclear
from workspaces.store import Cancelled, StoreError


@pytest.mark.parametrize(
    ("kind", "error", "reason", "code"),
    [
        (TakeSnapshot, Cancelled(""), "Cancelled. Nothing was kept.", "cancelled"),
        (Restore, Cancelled(""), "Cancelled. Nothing was restored.", "cancelled"),
        (TakeSnapshot, StoreError("Full."), "The snapshot could not be kept: Full.", "store"),
        (Stop, StoreError("Full."), "Full.", "store"),
        (Stop, DriverError("No answer."), "No answer.", "driver"),
        (Stop, Failed("Exit 7."), "Exit 7.", "driver"),
        (Stop, CloneFailed("No such ref."), "No such ref.", "source"),
        (Stop, conflict("It is busy."), "It is busy.", "refused"),
        (
            Stop,
            OSError(28, "No space left on device"),
            "System error: [Errno 28] No space left on device.",
            "system",
        ),
        (Stop, Refused("w is paused.", ReasonCode.STATE), "w is paused.", "state"),
    ],
)
def test_each_failure_has_its_words_and_its_code(kind, error, reason, code):
    told = {"ok": False, "reason": reason, "reason_code": code}
    assert outcome_of(error, kind(), Operation(phase=Phase.STARTED)) == told


def test_a_refusal_has_data_beside_its_sentence():
    refused = Refused("3 paths were changed.", ReasonCode.CONFLICTS, safety_snapshot=4)
    told = {"ok": False, "reason": "3 paths were changed.", "reason_code": "conflicts", "safety_snapshot": 4}
    assert refused.outcome() == told
    assert unclear("It stopped.").outcome() == {
        "ok": False,
        "reason": "It stopped.",
        "reason_code": "runner_stopped",
        "uncertain": True,
    }


@pytest.mark.parametrize(("phase", "uncertain"), [(Phase.CLAIMED, False), (Phase.STARTED, True)])
def test_an_operation_that_broke_after_its_start_is_uncertain(phase, uncertain):
    assert outcome_of(KeyError("x"), Stop(), Operation(phase=phase)) == {
        "ok": False,
        "reason": "Internal error in the runner (KeyError('x')).",
        "reason_code": "runner_error",
        "uncertain": uncertain,
    }
