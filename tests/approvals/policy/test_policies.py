"""Policies: what they may hold, that they run their own tests, and how lists and modes decide."""

import pytest

from approvals.policy import MODES, Policy, PolicyError, classify, default_policy, load_policy


def tier(policy, tool, **arguments):
    return classify(tool, arguments, policy=policy).tier


def bash(policy, command):
    return classify("Bash", {"command": command}, policy=policy)


@pytest.mark.parametrize("mode", MODES)
def test_each_default_policy_loads_and_carries_tests(mode):
    policy = load_policy(default_policy(mode))
    assert policy.mode == mode
    assert len(policy.tests) >= 4


def test_an_unknown_mode_is_refused():
    with pytest.raises(PolicyError, match="Unknown mode 'wild'"):
        default_policy("wild")
    with pytest.raises(PolicyError, match="Unknown mode 'wild'"):
        load_policy('mode = "wild"')


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mode = ", "not valid TOML"),
        ("low = []\nlow = ['Bash(ls)']\n", r"A key stands twice \(at line 2"),
        ("high = [\n  'Bash(ls)',\n", "at line 2, the last"),
        ("\ufefflow = []", "begins with a byte order mark"),
        ("low = ['Bash(ls)', 5]", r"status\), not 5\."),
        ('rules = ["Bash(ls)"]', "Unknown key 'rules'"),
        ('low = "Bash(ls)"', "low must be a list"),
        ("low = [1]", "A rule must be text"),
        ('low = ["Bash(ls"]', "is not a rule"),
        ('low = ["Bash(l\\u200bs)"]', "hidden characters"),
        ('tests = [{tool = "Bash"}]', "Test 1 needs tool, input and tier"),
        ('tests = [{tool = "Bash", input = {command = "ls"}, tier = "maybe"}]', "Test 1 needs tool, input and tier"),
        (b"low = []", "A policy must be text"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_a_sentence(text, says):
    with pytest.raises(PolicyError, match=says):
        load_policy(text)


def test_a_policy_whose_test_fails_is_refused_and_says_which():
    text = '[[tests]]\ntool = "Bash"\ninput = {command = "git push"}\ntier = "low"\n'
    with pytest.raises(PolicyError, match=r"Test 1 of the policy fails: Bash 'git push' is high, not low\."):
        load_policy(text)


@pytest.mark.parametrize(
    "rule",
    [
        "Bash",
        "Bash(*)",
        "Bash(env *)",
        "Bash(sh *)",
        "Bash(sh -c *)",
        "Bash(python3 *)",
        "Bash(python3 -m *)",
        "Bash(perl -ne *)",
        "Bash(* --version)",
        "Bash(git *)",
        "Bash(git -C *)",
        "Bash(sudo *)",
        "Bash(xargs:*)",
        "Bash(/usr/bin/env *)",
        "mcp__*",
    ],
)
@pytest.mark.parametrize("list_name", ["low", "medium"])
def test_a_rule_too_broad_to_allow_is_refused_with_its_reason(rule, list_name):
    with pytest.raises(PolicyError, match=r"would allow|covers reading, pushing"):
        load_policy(f"{list_name} = ['{rule}']")


@pytest.mark.parametrize("list_name", ["high", "critical", "forbidden"])
def test_broad_rules_may_hold_back(list_name):
    policy = load_policy(f"{list_name} = ['Bash(git *)']")
    assert bash(policy, "git status").tier == list_name


def test_the_strictest_list_wins():
    policy = load_policy(
        """
        forbidden = ["Bash(git push origin main)"]
        critical = ["Bash(git push origin *)"]
        high = ["Bash(git status)"]
        medium = ["Bash(git fetch *)"]
        low = ["Bash(git push *)", "Bash(git fetch *)", "Bash(git status)"]
        """
    )
    assert bash(policy, "git push origin main").tier == "forbidden"
    assert bash(policy, "git push origin x").tier == "critical"
    assert bash(policy, "git push upstream x").tier == "low"
    assert bash(policy, "git fetch origin").tier == "medium"
    assert bash(policy, "git status").tier == "high"


def test_the_strictest_line_of_a_command_decides():
    policy = load_policy('forbidden = ["Bash(npm publish *)"]')
    verdict = bash(policy, "ls && pytest -q; npm publish")
    assert [entry["tier"] for entry in verdict.commands] == ["low", "medium", "forbidden"]
    assert verdict.tier == "forbidden"
    assert verdict.rule == "Bash(npm publish *)"
    assert verdict.reasons == ["Forbidden: part 3 publishes a package with npm publish (rule Bash(npm publish *))."]


@pytest.mark.parametrize(
    "command",
    [
        "sudo git push",
        "env A=1 git push",
        "timeout 5 git push",
        "bash -c 'ls && git push'",
        "find . -exec git push {} ;",
        "echo | xargs git push",
        "GIT_SSH_COMMAND=x git push",
        "git  push",
        "'git' pu''sh",
        "/usr/bin/git push",
        "$(git push)",
        "eval 'git push'",
        "git push; if",
    ],
)
def test_a_ban_is_found_behind_wrappers_and_quoting(command):
    policy = load_policy('forbidden = ["Bash(git push *)", "Bash(git push)", "Bash(git push; *)"]')
    assert bash(policy, command).tier == "forbidden"


def test_a_ban_on_a_file_holds_for_every_tool_and_for_the_shell():
    policy = load_policy('forbidden = ["Read(notes/**)", "Edit(migrations/**)"]')
    assert tier(policy, "Read", file_path="notes/a.txt") == "forbidden"
    assert tier(policy, "Read", file_path="NOTES/a.txt") == "forbidden"
    assert bash(policy, "cat notes/a.txt").tier == "forbidden"
    assert bash(policy, "wc -l < notes/a.txt").tier == "forbidden"
    assert tier(policy, "Write", file_path="migrations/1.py", content="x") == "forbidden"
    assert bash(policy, "echo x > migrations/1.py").tier == "forbidden"
    assert bash(policy, "rm migrations/1.py").tier == "forbidden"
    assert tier(policy, "Write", file_path="src/1.py", content="x") == "medium"


def test_a_rule_never_allows_what_is_catastrophic():
    policy = load_policy('low = ["Bash(rm *)", "Edit(**)", "Edit(//**)", "Bash(dd *)"]\nhigh = ["Bash(mkfs*)"]')
    assert bash(policy, "rm -rf /").tier == "forbidden"
    assert bash(policy, "rm -rf /*").tier == "forbidden"
    assert bash(policy, 'rm -rf "$HOME"').tier == "forbidden"
    assert bash(policy, "dd if=/dev/zero of=/dev/sda").tier == "forbidden"
    assert bash(policy, "mkfs.ext4 /dev/sda1").tier == "forbidden"


MODE_TABLE = [
    # tool, arguments, irreversible, commands, everything
    ("Read", {"file_path": "src/app.py"}, "low", "low", "high"),
    ("Grep", {"pattern": "x"}, "low", "low", "high"),
    ("Read", {"file_path": ".env"}, "high", "high", "high"),
    ("Read", {"file_path": "/etc/passwd"}, "high", "high", "high"),
    ("Write", {"file_path": "src/app.py", "content": "x"}, "medium", "medium", "high"),
    ("Edit", {"file_path": ".git/config", "old_string": "a", "new_string": "b"}, "high", "high", "high"),
    ("NotebookEdit", {"notebook_path": "a.ipynb", "new_source": "x"}, "medium", "medium", "high"),
    ("MultiEdit", {"file_path": "a.py", "edits": []}, "medium", "medium", "high"),
    ("Write", {"file_path": "src/app.py", "content": "a\u202eb"}, "high", "high", "high"),
    ("Bash", {"command": "ls -la"}, "low", "low", "high"),
    ("Bash", {"command": "pytest -q"}, "medium", "high", "high"),
    ("Bash", {"command": "git commit -m x"}, "medium", "high", "high"),
    ("Bash", {"command": "rm -rf build"}, "medium", "high", "high"),
    ("Bash", {"command": "git push"}, "high", "high", "high"),
    ("Bash", {"command": "git push --force origin main"}, "critical", "critical", "critical"),
    ("Bash", {"command": "curl https://example.com"}, "high", "high", "high"),
    ("Bash", {"command": "sudo ls"}, "high", "high", "high"),
    ("Bash", {"command": "npm install x"}, "high", "high", "high"),
    ("Bash", {"command": "python3 x.py"}, "high", "high", "high"),
    ("Bash", {"command": "frobnicate"}, "high", "high", "high"),
    ("Bash", {"command": "rm -rf /"}, "forbidden", "forbidden", "forbidden"),
    ("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}, "high", "high", "high"),
    ("WebFetch", {"url": "https://example.com"}, "high", "high", "high"),
    ("WebSearch", {"query": "x"}, "high", "high", "high"),
    ("TodoWrite", {"todos": []}, "low", "low", "low"),
    ("Task", {"prompt": "x", "subagent_type": "a"}, "low", "low", "high"),
    ("mcp__github__get_issue", {"n": 1}, "high", "high", "high"),
    ("Frobnicate", {}, "high", "high", "high"),
]


@pytest.mark.parametrize(("tool", "arguments", "irreversible", "commands", "everything"), MODE_TABLE)
def test_what_no_rule_names_the_mode_decides(tool, arguments, irreversible, commands, everything):
    tiers = [classify(tool, arguments, policy=Policy(mode=mode)).tier for mode in MODES]
    assert tiers == [irreversible, commands, everything]


def test_a_changed_tool_waits_whatever_the_rules_say():
    policy = Policy.of_rules(["mcp__github__get_*"])
    same = {"tool_sha256_approved": "a", "tool_sha256_now": "a"}
    other = {"tool_sha256_approved": "a", "tool_sha256_now": "b"}
    assert classify("mcp__github__get_issue", {"n": 1}, policy=policy, context=same).tier == "low"
    verdict = classify("mcp__github__get_issue", {"n": 1}, policy=policy, context=other)
    assert (verdict.tier, verdict.reasons) == (
        "high",
        ["Needs approval: tool sha256 has changed since it was approved."],
    )
