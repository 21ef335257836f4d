"""Rules that can never match, and those that look like it but can."""

import pytest

from approvals.policy import default_policy, parse_rule, read_policy
from approvals.policy.policy import Policy
from approvals.policy.unmatched import never_matching, shadowed_by_earlier


@pytest.mark.parametrize(
    ("tier", "rule"),
    [
        ("low", "Bash(git log *)"),
        ("low", "Bash(make test 2>&1)"),
        ("low", "Bash(FOO=1 make)"),
        ("low", "Bash(find . -name x -exec rm {} \\;)"),
        ("low", "Bash(grep 'a|b' *)"),
        ("high", "Bash(FOO=* make *)"),
        ("low", "Edit(src/**)"),
        ("low", "Edit(//home/me/x/**)"),
        ("low", "Edit(*.py)"),
        ("low", "Read(.env)"),
        ("high", "Edit(.git/**)"),
        ("low", "WebFetch(domain:*.example.com)"),
        ("high", "WebFetch"),
        ("high", "WebFetch(example.com)"),
        ("low", "mcp__db__get_*"),
        ("low", "mcp__db__query(sql:SELECT *)"),
        ("low", "Task(reviewer)"),
        ("low", "SomeToolOfTomorrow"),
    ],
)
def test_what_can_match_is_kept(tier, rule):
    assert never_matching(Policy(rules={tier: [parse_rule(rule)]})) == []


@pytest.mark.parametrize(
    ("tier", "rule"),
    [
        ("high", "bash(ls)"),
        ("high", "Bash(a && b)"),
        ("low", "Bash(ls; rm x)"),
        ("low", "Bash(FOO=1 make *)"),
        ("low", "Bash(cat * < x)"),
        ("high", "Read(./a/../b)"),
        ("low", "Edit(.claude/settings.json)"),
        ("low", "Write(.env)"),
        ("low", "WebFetch"),
        ("high", "WebFetch(domain:https://example.com/x)"),
        ("high", "mcp____x"),
        ("high", "mcp__db__query(SELECT)"),
        ("high", "TodoWrite(x)"),
    ],
)
def test_what_cannot_match_is_named(tier, rule):
    (found,) = never_matching(Policy(rules={tier: [parse_rule(rule)]}))
    assert found.startswith(f"{rule} in {tier} can never match: ")


def test_a_rule_behind_a_stricter_one_that_takes_all_of_it_is_named():
    rules = {"low": ["Bash(git push origin *)", "Bash(git log *)", "Edit(src/**)"], "forbidden": ["Bash(git push *)"]}
    policy = Policy(rules={tier: [parse_rule(rule) for rule in texts] for tier, texts in rules.items()})
    assert never_matching(policy) == [
        "Bash(git push origin *) in low can never match: Bash(git push *) in forbidden comes first."
    ]


@pytest.mark.parametrize("mode", ["irreversible", "commands", "everything"])
def test_the_policies_to_start_with_hold_none(mode):
    assert never_matching(read_policy(default_policy(mode))) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('high = ["Bash(git push *)", "Bash(git push origin *)"]', {"Bash(git push origin *)": "Bash(git push *)"}),
        ('forbidden = ["Bash(npm *)"]\nhigh = ["Bash(npm publish)"]', {"Bash(npm publish)": "Bash(npm *)"}),
        ('medium = ["Bash(npm run *)"]\nlow = ["Bash(npm run lint *)"]', {"Bash(npm run lint *)": "Bash(npm run *)"}),
        ('low = ["Edit(src/**)", "Edit(src/app/**)"]', {"Edit(src/app/**)": "Edit(src/**)"}),
        ('low = ["mcp__github__get_*", "mcp__github__get_issue"]', {"mcp__github__get_issue": "mcp__github__get_*"}),
        ('low = ["Bash(ls)", "Bash(ls)"]', {"Bash(ls)": "Bash(ls)"}),
        # A dangerous form that the second rule spells out, and a file that only an exact rule covers.
        ('low = ["Bash(git push *)", "Bash(git push --force *)"]', {}),
        ('low = ["Bash(cat *)", "Bash(cat .env)"]', {}),
        ('low = ["Bash(git log *)", "Bash(git diff *)"]', {}),
        ('low = ["Edit(src/**)", "Edit(srcs/**)"]', {}),
        ('high = ["Bash(git push origin *)", "Bash(git push *)"]', {}),
    ],
)
def test_a_rule_that_an_earlier_one_takes_all_of_is_named(text, found):
    assert {each["rule"]: each["by"] for each in shadowed_by_earlier(read_policy(text))} == found


def test_what_the_team_forbids_comes_before_all_lists():
    own, team = read_policy('high = ["Bash(git fetch *)"]'), read_policy('forbidden = ["Bash(git *)"]')
    assert shadowed_by_earlier(own, team) == [
        {"rule": "Bash(git fetch *)", "tier": "high", "by": "Bash(git *)", "by_tier": "forbidden", "by_team": True}
    ]
