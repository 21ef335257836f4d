"""What is known of the text of a script makes a call stricter, and never lets it run."""

import pytest

from approvals.policy import classify, load_policy

DEFAULT = load_policy("")


def tier(command, text, policy=DEFAULT, **context):
    known = {"scripts": {"tools/run.sh": text}} | context
    return classify("Bash", {"command": command}, policy=policy, context=known).tier


@pytest.mark.parametrize(
    "command",
    [
        "bash tools/run.sh",
        "bash -eu tools/run.sh x",
        "cd tools && bash run.sh",
        "./tools/run.sh",
        "timeout 5 bash tools/run.sh",
    ],
)
def test_what_is_critical_in_a_script_is_critical_to_run(command):
    text = "#!/bin/bash\nset -e\nfor x in a b; do echo $x; done\ngit push --force origin main\n"
    assert (tier(command, text), tier(command, "#!/bin/bash\necho ok\n")) == ("critical", "high")
    assert tier(command, "#!/bin/bash\nif true; then rm -rf /; fi\n") == "forbidden"


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("bash tools/run.sh", "f() { rm -rf /; }\nf\n"),
        ("bash tools/run.sh", "if"),
        ("bash tools/run.sh", "\0"),
        ("bash tools/run.sh", "for i in 1 2 3 4 5 6 7 8 9 10; do\n" * 8 + "echo x\n" + "done\n" * 8),
        ("bash --rcfile x tools/run.sh", "rm -rf /"),
        ("zsh tools/run.sh", "rm -rf /"),
        ("./tools/run.sh", "#!/usr/bin/env fish\nrm -rf /"),
        ("bash tools/other.sh", "rm -rf /"),
    ],
)
def test_what_is_not_read_asks_as_ever(command, text):
    assert tier(command, text) == "high"


def test_a_rule_for_a_script_does_not_cover_what_is_forbidden_in_it():
    policy = load_policy('low = ["Bash(bash tools/run.sh *)", "Bash(bash tools/run.sh)"]')
    assert tier("bash tools/run.sh", "echo ok > out.txt\n", policy) == "low"
    assert tier("bash tools/run.sh", "rm -rf / \n", policy) == "forbidden"


def test_a_long_script_that_a_rule_names_runs_as_ever():
    policy = load_policy('low = ["Bash(bash tools/run.sh)"]')
    assert (
        tier("bash tools/run.sh", "for i in 1 2 3 4 5 6 7 8 9; do\n" * 6 + "echo $i\n" + "done\n" * 6, policy) == "low"
    )
    assert tier("bash tools/run.sh", "echo x\n" * 15_000, policy) == "low"


@pytest.mark.parametrize("text", ["echo x > infra/a\n", "cd infra && touch a\n", "terraform apply\n"])
def test_rules_that_forbid_hold_in_scripts(text):
    policy = load_policy('forbidden = ["Edit(infra/**)", "Bash(terraform *)"]\nlow = ["Bash(bash tools/run.sh)"]')
    assert tier("bash tools/run.sh", text, policy) == "forbidden"
    assert tier("bash tools/run.sh", "echo x > src/a\n", policy) == "low"


def test_a_link_to_elsewhere_is_no_script_of_the_workspace():
    assert tier("bash tools/run.sh", "rm -rf /", symlinks={"tools": "/srv/tools"}) == "high"


def test_a_script_for_python_that_writes_what_is_forbidden_is_forbidden():
    policy = load_policy('forbidden = ["Edit(infra/**)"]')
    known = {"scripts": {"x.py": "open('infra/a', 'w')"}}
    assert classify("Bash", {"command": "python3 x.py"}, policy=policy, context=known).tier == "forbidden"


@pytest.mark.parametrize("value", [None, 3, "x", ["a"], {"tools/run.sh": None}, {3: "rm -rf /"}])
def test_odd_values_change_nothing(value):
    assert tier("bash tools/run.sh", "", scripts=value) == "high"


def test_in_an_envelope_only_what_is_critical_counts():
    text = "cp x /srv/y\nkill 1\n"
    assert tier("bash tools/run.sh", text, held=True) == "medium"
    assert tier("bash tools/run.sh", "rm -rf /\n", held=True) == "forbidden"
