"""What programs decide by is a code beside the words: a person may read whatever, and nothing hangs on it."""

import pytest

from workspaces.drivers.base import EndReason
from workspaces.models import EndCode, StateCode, Workspace
from workspaces.programs.terminals import ENDED_BY, RUN_ENDED
from workspaces.runner.reconcile.liveness import set_reason


@pytest.fixture
def up(workspace):
    workspace.reason, workspace.state = "", "ready"
    workspace.save()
    return workspace


def test_a_new_reason_drops_the_code_of_the_old_one(up):
    rows = Workspace.objects.filter(pk=up.pk)
    rows.update(reason="Its host does not answer.", reason_code=StateCode.UNREACHABLE)
    rows.update(labels={"a": "b"})
    assert rows.values_list("reason", "reason_code").get() == ("Its host does not answer.", "unreachable")
    rows.update(reason="Nothing was set up.")
    assert rows.values_list("reason", "reason_code").get() == ("Nothing was set up.", "")


def test_what_can_be_reached_again_loses_only_the_words_of_that(up):
    rows = Workspace.objects.filter(pk=up.pk)
    set_reason(up, "Whatever the words are.", StateCode.UNREACHABLE)
    assert rows.values_list("reason", "reason_code").get() == ("Whatever the words are.", "unreachable")
    set_reason(up, "")
    assert rows.values_list("reason", "reason_code").get() == ("", "")
    rows.update(reason="It cannot be reached now, says somebody else.")
    set_reason(up, "")
    assert rows.values_list("reason", "reason_code").get() == ("It cannot be reached now, says somebody else.", "")


def test_whatever_a_driver_says_of_an_end_has_its_code_and_words():
    assert {EndReason(code): bool(EndCode(code).label) for code in EndReason} == dict.fromkeys(EndReason, True)
    assert {code.value: ENDED_BY[move] for code, move in RUN_ENDED.items()} == {
        "archived": "Ended when the workspace was archived.",
        "moved": "Ended when the workspace was moved.",
        "paused": "Ended when the workspace was paused.",
        "stopped": "Ended when the workspace was stopped.",
        "trashed": "Ended when the workspace was moved to the trash.",
    }
