"""A file that an earlier call of the workspace downloaded is run only after two people agreed."""

import pytest

from approvals.models import Action, Status, Tier

pytestmark = pytest.mark.django_db
FETCH = {"command": "curl -o i.sh https://get.example/i.sh"}
RUN = {"command": "bash i.sh"}


@pytest.mark.parametrize("status", [Status.APPROVED, Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.UNCERTAIN])
def test_a_download_that_may_have_run_is_remembered(ask, workspace, status):
    fetched = ask(FETCH, workspace=workspace)
    Action.objects.filter(pk=fetched.pk).update(status=status)
    asked = ask(RUN, workspace=workspace)
    assert (asked.tier, asked.quorum) == (Tier.CRITICAL, 2)
    assert asked.title == "Run a script that an earlier call downloaded from get.example"


@pytest.mark.parametrize("status", [Status.PENDING, Status.DENIED, Status.CANCELLED, Status.EXPIRED])
def test_a_download_that_did_not_run_is_not(ask, workspace, status):
    fetched = ask(FETCH, workspace=workspace)
    Action.objects.filter(pk=fetched.pk).update(status=status)
    assert ask(RUN, workspace=workspace).tier == Tier.HIGH


def test_what_only_reads_the_file_stays_as_it_was(ask, workspace):
    Action.objects.filter(pk=ask(FETCH, workspace=workspace).pk).update(status=Status.SUCCEEDED)
    assert ask({"command": "cat i.sh"}, workspace=workspace).tier == Tier.LOW
