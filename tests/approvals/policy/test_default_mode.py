"""What the default policy lets run without a rule, by class, and what it asks about."""

import pytest

from approvals.policy import Policy, classify

from .default_rows import ASKS, OBEYING, RUNS


def tier(command):
    return classify("Bash", {"command": command}, policy=Policy()).tier


@pytest.mark.parametrize("kind", ASKS)
def test_what_may_do_harm_asks(kind):
    assert [command for command in ASKS[kind] if tier(command) in ("low", "medium")] == []


@pytest.mark.parametrize("kind", RUNS)
def test_its_harmless_neighbours_run(kind):
    assert [command for command in RUNS[kind] if tier(command) not in ("low", "medium")] == []


def test_what_obeys_files_of_the_workspace_never_counts_as_reading():
    assert [command for command in OBEYING if tier(command) != "medium"] == []
