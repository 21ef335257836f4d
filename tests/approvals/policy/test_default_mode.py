"""What the default policy lets run without a rule, by class, and what it asks about."""

import pytest

from approvals.policy import Policy, classify

from .default_rows import ASKS, OBEYING, RUNS


def tier(command, **context):
    return classify("Bash", {"command": command}, policy=Policy(), context=context).tier


@pytest.mark.parametrize("kind", ASKS)
def test_a_harmful_command_asks(kind):
    assert [command for command in ASKS[kind] if tier(command) in ("low", "medium")] == []


@pytest.mark.parametrize("kind", RUNS)
def test_harmless_variants_of_commands_run(kind):
    assert [command for command in RUNS[kind] if tier(command) not in ("low", "medium")] == []


def test_what_obeys_files_of_the_workspace_never_counts_as_reading():
    assert [command for command in OBEYING if tier(command) != "medium"] == []


@pytest.mark.parametrize(
    ("command", "name"),
    [("ls >-", "-"), ("ls >>- src", "-"), ("sed -i-i s/a/b/ x", "x-i"), ("sed --in-place=.old s/a/b/ x", "x.old")],
)
def test_a_written_file_is_named(command, name):
    verdict = classify("Bash", {"command": command}, policy=Policy())
    assert (verdict.tier, name in verdict.commands[0]["targets"]) == ("medium", True)


@pytest.mark.parametrize("command", ["mv config new", "mv config/ new", "mv -t new config"])
def test_moving_a_folder_with_secrets_asks(command):
    assert tier(command, files=["/workspace/config/server.key"]) == "high"
    assert tier(command, files=["/workspace/config/a.yml"]) == "medium"


@pytest.mark.parametrize(
    "command",
    [
        "cat docs/*",
        "cat */far.txt",
        "wc -l d*/*",
        "cp -r docs new",
        "mv docs new",
        "git mv docs new",
        "tar cf a.tar d*",
        "diff -r docs src",
        "grep -R foo docs",
    ],
)
def test_known_links_are_followed_where_the_program_or_the_shell_does(command):
    arguments = {"command": command}
    context = {"symlinks": {"docs/far.txt": "/outside/data.txt"}}
    tiers = [classify("Bash", arguments, policy=Policy(), context=known).tier for known in ({}, context)]
    assert (tiers[0] in ("low", "medium"), tiers[1]) == (True, "high")


@pytest.mark.parametrize("command", ["cat config/*", "wc -l */*", "cat config/?*", "tar cf a.tar c*", "cp -r con* new"])
def test_a_wildcard_reads_the_known_secrets_that_it_meets(command):
    known = {"secrets": ["config/server.key"]}
    tiers = [classify("Bash", {"command": command}, policy=Policy(), context=files).tier for files in ({}, known)]
    assert (tiers[0] in ("low", "medium"), tiers[1]) == (True, "high")


@pytest.mark.parametrize("command", ["grep -rn foo", "grep -d recurse foo", "grep -rn foo .", "rg --hidden foo"])
def test_a_search_that_names_no_folder_reads_the_current_one(command):
    known = {"files": [".env"]}
    tiers = [classify("Bash", {"command": command}, policy=Policy(), context=files).tier for files in ({}, known)]
    assert tiers == ["low", "high"]


PLANS = "/home/mia/.claude/plans"


@pytest.mark.parametrize("root", [None, "/workspace"])
@pytest.mark.parametrize("tool", ["Write", "Edit", "Read"])
def test_the_file_in_which_claude_code_plans_is_not_asked_about(root, tool):
    arguments = {"file_path": f"{PLANS}/tidy-up-golden-conway.md", "content": "# Plan"}
    verdict = classify(tool, arguments, policy=Policy(), workspace_root=root)
    assert (verdict.tier, verdict.undo) == ("low", "no" if tool != "Read" else "yes")


@pytest.mark.parametrize(
    "path",
    [
        f"{PLANS}/x.sh",
        f"{PLANS}/../settings.json",
        f"{PLANS}/../CLAUDE.md",
        f"{PLANS}/a/x.md",
        f"{PLANS}/.x.md",
        f"{PLANS}/.md",
        "/home/mia/.claude/CLAUDE.md",
        "/home/mia/.claude/agents/x.md",
        "/home/mia/plans/x.md",
        "/workspace/.claude/plans/x.md",
    ],
)
def test_files_beside_the_plans_ask(path):
    assert classify("Write", {"file_path": path, "content": "x"}, policy=Policy()).tier == "high"


def test_a_plan_that_is_a_link_is_asked_about():
    links = {"symlinks": {f"{PLANS}/x.md": "/home/mia/.bashrc"}}
    assert (
        classify("Write", {"file_path": f"{PLANS}/x.md", "content": "x"}, policy=Policy(), context=links).tier == "high"
    )


def test_a_command_that_writes_a_plan_is_asked_about():
    assert classify("Bash", {"command": f"echo x > {PLANS}/x.md"}, policy=Policy()).tier == "high"
