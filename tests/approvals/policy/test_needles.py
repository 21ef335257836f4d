"""What a call has to hold so that two policies can differ about it: a replay judges only those calls."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.policy import classify, read_policy
from approvals.policy.needles import of_change, touches


def touched(before, after, tool, arguments):
    return touches(of_change(read_policy(before), read_policy(after)), tool, arguments)


@pytest.mark.parametrize(
    ("before", "after", "tool", "arguments", "is_touched"),
    [
        ("", 'high = ["Bash(make *)"]', "Bash", {"command": "make test"}, True),
        ("", 'high = ["Bash(make *)"]', "Bash", {"command": "cd x && /usr/bin/make -j4"}, True),
        ("", 'high = ["Bash(make *)"]', "Bash", {"command": "m'a'ke test"}, True),
        ("", 'high = ["Bash(make *)"]', "Bash", {"command": "ls"}, False),
        ("", 'high = ["Bash(make *)"]', "Read", {"file_path": "Makefile"}, False),
        ("", 'high = ["Bash(* --force)"]', "Bash", {"command": "ls"}, True),
        ("", 'low = ["Edit(src/**)"]', "Edit", {"file_path": "src/a.py"}, True),
        ("", 'low = ["Edit(src/**)"]', "Bash", {"command": "echo x > src/a.py"}, True),
        ("", 'low = ["Edit(src/**)"]', "Edit", {"file_path": "docs/a.md"}, False),
        ("", 'high = ["Edit"]', "Edit", {"file_path": "docs/a.md"}, True),
        ("", 'low = ["mcp__pay__*"]', "mcp__pay__refund", {}, True),
        ("", 'low = ["mcp__pay__*"]', "mcp", {"server": "pay", "tool": "refund"}, True),
        ("", 'low = ["mcp__pay__*"]', "Bash", {"command": "pay"}, False),
        ('high = ["Bash(make *)"]', 'low = ["Bash(make *)"]', "Bash", {"command": "make"}, True),
        ("", 'mode = "everything"', "Bash", {"command": "ls"}, True),
        ("", '[trust]\nplaces = ["/home/mia/design"]', "Read", {"file_path": "x"}, True),
        ("", '[[when]]\nagent = "a"\nhigh = ["Bash(make *)"]', "Bash", {"command": "ls"}, False),
        ("", '[[when]]\nagent = "a"\nhigh = ["calls"]', "Bash", {"command": "ls"}, True),
        ("", '[[when]]\nagent = "a"\nmode = "everything"', "Bash", {"command": "ls"}, True),
    ],
)
def test_a_call_is_touched_by_the_words_of_what_changed(before, after, tool, arguments, is_touched):
    assert touched(before, after, tool, arguments) is is_touched


RULES = ["Bash(git push *)", "Bash(make *)", "Bash(ls)", "Edit(src/**)", "Read(docs/*.md)", "mcp__pay__*", "WebFetch"]
CALLS = [
    ("Bash", {"command": "git push origin x && ls"}),
    ("Bash", {"command": "sudo make install"}),
    ("Bash", {"command": "bash -c 'ls; make'"}),
    ("Bash", {"command": "cp docs/a.md src/b.md"}),
    ("Bash", {"command": "cat README.md"}),
    ("Edit", {"file_path": "src/x/a.py", "new_string": "x"}),
    ("Read", {"file_path": "docs/a.md"}),
    ("mcp__pay__refund", {"amount": 1}),
    ("WebFetch", {"url": "https://example.com/"}),
]
parts = st.lists(st.tuples(st.sampled_from(["low", "high", "forbidden"]), st.sampled_from(RULES)), max_size=4)


def text_of(listed):
    tiers = {tier: [rule for each, rule in listed if each == tier] for tier in ("low", "high", "forbidden")}
    kept = {tier: [rule for rule in rules if (tier, rule) != ("low", "WebFetch")] for tier, rules in tiers.items()}
    return "".join(f"{tier} = {rules!r}\n" for tier, rules in kept.items()).replace("'", '"')


@settings(max_examples=60, deadline=None)
@given(parts, parts)
def test_calls_that_nothing_touches_are_judged_alike(before, after):
    sides = [read_policy(text_of(each)) for each in (before, after)]
    needles = of_change(*sides)
    for call in CALLS:
        tiers = {classify(*call, policy=policy).tier for policy in sides}
        assert len(tiers) == 1 or touches(needles, *call)
