"""What the caller knows of the workspace changes the verdict: where secrets lie, and what programs are its own."""

import pytest

from approvals.policy import Policy, classify


def tier(command, **context):
    return classify("Bash", {"command": command}, policy=Policy(), context=context).tier


@pytest.mark.parametrize(
    "command",
    [
        "grep -r KEY .",
        "grep -r KEY",
        "grep -r KEY config",
        "grep -rn '' config --include='*'",
        "rg --no-ignore KEY",
        "rg --hidden KEY config",
        "ack KEY .",
        "diff -r . src",
        "cp -r config backup",
        "tar -cf out.tar config",
        "zip -r out.zip .",
    ],
)
def test_a_search_of_a_folder_that_holds_secrets_asks(command):
    assert (tier(command) == "high", tier(command, secrets=["config/prod.env"])) == (False, "high")


@pytest.mark.parametrize(
    "command",
    ["ls -R .", "tree", "du -sh .", "find . -name '*.py'", "rg KEY", "grep -r KEY src", "grep -r K . --include='*.py'"],
)
def test_what_lists_or_leaves_secrets_out_runs(command):
    assert tier(command, secrets=["config/prod.env"]) == "low"


@pytest.mark.parametrize("runner", ["npx", "bunx"])
def test_a_package_runner_runs_only_what_the_project_has(runner):
    assert tier(f"{runner} eslint src") == "high"
    assert tier(f"{runner} eslint src", installed=["eslint"]) == "medium"
    assert tier(f"{runner} jest", installed=["eslint"]) == "high"
    assert tier(f"{runner} evil", installed=["evil"]) == "high"


def test_npx_that_may_not_fetch_runs():
    assert tier("npx --no-install eslint src") == "medium"


@pytest.mark.parametrize("value", [None, 3, "x", {"a": 1}, [None, 3], [["a"]]])
def test_odd_values_of_a_context_change_nothing(value):
    assert tier("grep -r KEY .", secrets=value, installed=value) == "low"
