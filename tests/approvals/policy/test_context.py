"""What the caller knows of the workspace changes the verdict: where secrets lie, and what programs are its own."""

import pytest

from approvals.policy import Policy, classify
from approvals.policy.programs.registry import LISTERS
from approvals.policy.programs.searches import SEARCHES
from approvals.policy.programs.tables import READS


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
        "rg KEY",
        "rg -l KEY",
        "rg -n . config",
        "rg KEY -g '!*.py'",
        "ag KEY",
        "ag KEY config",
        "ack KEY .",
        "git grep KEY",
        "git grep -n KEY -- config",
        "git -C . grep KEY config",
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
    [
        "ls -R .",
        "tree",
        "du -sh .",
        "find . -name '*.py'",
        "rg --files",
        "rg KEY -t py",
        "grep -r KEY src",
        "grep -r K . --include='*.py'",
    ],
)
def test_what_lists_or_leaves_secrets_out_runs(command):
    assert tier(command, secrets=["config/prod.env"]) == "low"


@pytest.mark.parametrize("command", ["rg KEY", "ag KEY", "rg KEY config", "cat a | rg KEY", "git grep KEY '*.py'"])
def test_a_search_that_leaves_hidden_files_closed_runs_beside_them(command):
    assert tier(command, secrets=["config/.env"]) == "low"


def readers():
    """Yield the programs that read the files they are given, each with the kind of its operands."""
    for name, grammar in READS.items():
        kinds = {operand.rstrip("*?") for operand in grammar.operands}
        if kinds & {"in", "dir"} and not kinds & {"out"} and name not in LISTERS:
            yield name, "pattern" in kinds or name in ("join",)


@pytest.mark.parametrize(("name", "takes_pattern"), list(readers()))
def test_each_program_that_shows_a_file_asks_for_a_secret_as_cat_does(name, takes_pattern):
    words = f"{name} KEY" if takes_pattern else name
    assert tier(f"{words} config/server.key") == "high"
    assert tier(f"{words} config/notes", secrets=["config/notes"]) == "high"


@pytest.mark.parametrize("name", sorted(SEARCHES))
def test_each_search_asks_for_a_folder_that_holds_a_secret(name):
    recursive = " -r" if SEARCHES[name].asks else ""
    assert tier(f"{name}{recursive} KEY config", secrets=["config/notes"]) == "high"
    assert tier(f"{name}{recursive} KEY", secrets=["config/notes"]) == "high"


UNLISTED = [
    "ugrep -r KEY",
    "rga KEY",
    "bat config/*",
    "fzf --preview 'cat {}'",
    "glow config",
    "jq . config/server.key",
]
UNLISTED += ["yq . config/server.key", "less config/server.key", "view config/server.key", "zgrep -r KEY ."]


@pytest.mark.parametrize("command", UNLISTED)
def test_a_reader_that_no_table_has_asks(command):
    assert tier(command, secrets=["config/server.key"]) == "high"


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


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git config -l --show-origin", "high"),
        ("git config --list", "high"),
        ("git config list", "high"),
        ("git config --get-regexp .", "high"),
        ("git config --get http.https://git.example/.extraheader", "high"),
        ("git config credential.helper", "high"),
        ("git config --get remote.origin.url", "medium"),
        ("git remote -v", "medium"),
        ("git remote get-url origin", "medium"),
        ("git config user.email", "low"),
        ("git remote", "low"),
    ],
)
def test_settings_of_git_that_may_hold_a_token_are_not_merely_read(command, expected):
    assert tier(command) == expected
