"""No input holds the engine: whatever it is given, it answers within a number of steps that can be counted."""

import ast
import re
import sys
from itertools import chain
from pathlib import Path

import pytest

from approvals.policy import Policy, classify, parse_rule, shell
from approvals.policy.bash import TOO_MUCH
from approvals.policy.globs import Glob, PathGlob, shell_fits
from approvals.policy.programs.awk import awk_problem
from approvals.policy.programs.queries import sql_problem
from approvals.policy.programs.sed import sed_problem
from approvals.policy.step_budget import TooMuch, limited, spend
from bench.policy import hostile

MAX_LINES = 1_500_000  # lines of the engine that run for one call: some 0.2 s
ENGINE = Path(shell.__file__).parent
POLICY = Policy.of_rules(hostile.RULES)


class Lines:
    """Counts the lines of the engine that run, and ends what runs more of them than it may."""

    def __init__(self, most=MAX_LINES):
        self.run, self.most = 0, most

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.call)
        return self

    def __exit__(self, *_):
        sys.settrace(self.before)

    def call(self, frame, event, arg):
        return self.line if frame.f_code.co_filename.startswith(str(ENGINE)) else None

    def line(self, frame, event, arg):
        self.run += event == "line"
        if self.run > self.most:
            raise TimeoutError(f"more than {self.most:,} lines")
        return self.line


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [pytest.param(tool, arguments, id=name) for name, tool, arguments in hostile.calls()],
)
def test_a_hostile_call_runs_a_bounded_number_of_lines(tool, arguments):
    with Lines() as lines:
        verdict = classify(tool, arguments, policy=POLICY)
    assert verdict.reasons
    assert lines.run <= MAX_LINES


def test_random_calls_run_a_bounded_number_of_lines():
    most = 0
    for _, tool, arguments in hostile.random_calls(60, seed=11):
        with Lines() as lines:
            assert classify(tool, arguments, policy=POLICY).reasons
        most = max(most, lines.run)
    assert most <= MAX_LINES


@pytest.mark.parametrize("command", ["loops", "while", "doubling", "xargs", "sed, 85 characters", "awk brackets"])
def test_what_takes_too_many_steps_asks_and_says_so(command):
    verdict = classify("Bash", {"command": hostile.commands()[command]}, policy=Policy())
    assert verdict.tier == "high"
    assert verdict.reasons[0].startswith("Needs approval:")


def test_a_command_that_takes_too_many_steps_still_meets_what_the_policy_forbids():
    policy = Policy(rules={"forbidden": [parse_rule("Bash(a=* ls *)")]})
    verdict = classify("Bash", {"command": hostile.commands()["doubling"]}, policy=policy)
    assert (verdict.tier, verdict.rule) == ("forbidden", "Bash(a=* ls *)")


def test_many_rules_with_wildcards_cost_no_more_than_their_number():
    policy = Policy(rules={"high": [parse_rule(f"Bash({'*a' * 30}{number})") for number in range(900)]})
    with Lines() as lines:
        verdict = classify("Bash", {"command": "; ".join("ls " + "a" * 40 for _ in range(190))}, policy=policy)
    assert verdict.reasons == [f"Needs approval: {TOO_MUCH}."]
    assert lines.run <= MAX_LINES


def test_the_same_call_takes_the_same_steps():
    left = []
    for _ in range(2):
        with limited() as budget:
            shell.parse("for i in a b; do sed s/x/y/ $i; done")
        left.append(budget.left)
    assert left[0] == left[1]


def test_a_budget_ends_what_spends_more():
    with limited(10):
        spend(10)
        with pytest.raises(TooMuch):
            spend()
    spend(10**9)  # outside a judgement nothing is counted


def test_a_command_whose_tree_is_too_large_asks(monkeypatch):
    for command in ("arithmetic", "xargs", "pipes"):
        verdict = classify("Bash", {"command": hostile.commands()[command]}, policy=Policy())
        assert verdict.tier == "high"
        assert re.search("more parts than can be judged|takes too long to take apart|nested", verdict.reasons[0])


# Scanners ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "harmless"),
    [
        ("s/a/b/", True),
        ("s/a/b/g;s|c|d|", True),
        ("s/[a-z]*/x/g", True),
        ("s/[]a]/x/", True),
        ("s/[/]/x/", False),  # in some readings the bracket holds the slash
        (r"s/[\/]/x/", True),
        ("s/a/b/e", False),
        ("s/a/b/w out", False),
        ("1,5p", True),
        ("1,+3!d", True),
        ("0~3p", True),
        ("/a/,/b/d", True),
        ("/a/I,$p", True),
        ("$!N;P;D", True),
        ("a text to the end; w out", True),
        ("a text\nw out", False),
        ("a text\\\nw out", True),
        ("a text\\\\\nw out", False),  # the backslash is part of the text, so the next line is a command
        ("y/abc/xyz/", True),
        ("ba; :a", True),
        ("w out", False),
        ("e", False),
        ("1", False),
        ("s/a/b", False),
        ("s/[a/b/", True),
    ],
)
def test_sed_scripts_are_read_once_from_left_to_right(script, harmless):
    assert (sed_problem(script) is None) == harmless


@pytest.mark.parametrize(
    ("program", "harmless"),
    [
        ("/a/ {print $1}", True),
        ("/[]a]/ {print}", True),
        ("/[^]a]/", True),
        ("/[a/]/", False),
        ("/a", False),
        ('{print > "x"}', False),
        ("//", False),
    ],
)
def test_awk_patterns_are_read_once_from_left_to_right(program, harmless):
    assert (awk_problem(program) is None) == harmless


@pytest.mark.parametrize(
    ("text", "harmless"),
    [
        ("select 'it''s' from t", True),
        ('select "a""b" from t', True),
        ("select [a] from t", True),
        ("select 'a; drop table t", False),
        ("select [a from t", False),
        ("select 'a' ; delete from t", False),
        ("select `x` from t", True),
    ],
)
def test_sql_is_read_once_from_left_to_right(text, harmless):
    assert (sql_problem(text) is None) == harmless


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "a-c-b", False),
        ("a*a", "a", False),
        ("*", "", True),
        ("abc", "abc", True),
        ("*a*" * 200, "a" * 60_000, True),
        ("*a*" * 200 + "b", "a" * 60_000, False),
    ],
    ids=range(7),
)
def test_a_wildcard_fits_in_one_pass(pattern, text, fits):
    with Lines() as lines:
        assert Glob(pattern).fits(text) == fits
    assert lines.run < 2_000


@pytest.mark.parametrize(
    ("spec", "path", "fits"),
    [
        ("src/**", "/w/src/a/b", True),
        ("src/*", "/w/src/a/b", False),
        ("**/a.py", "/w/a.py", True),
        ("**/a.py", "/w/x/y/a.py", True),
        ("**/a.py", "/w/xa.py", False),
        ("a?c", "/w/abc", True),
        ("a?c", "/w/a/c", False),
        ("**/x/**/y", "/w/x/y", True),
        ("**/x/**/y", "/w/1/x/2/3/y", True),
        ("**/x/**/y", "/w/1/x/2/3y", False),
        ("a**b", "/w/a/1/b", True),
    ],
)
def test_a_path_pattern_fits_like_a_gitignore(spec, path, fits):
    assert PathGlob("/w/", spec).fits(path) == fits
    assert PathGlob("/W/", spec.upper(), caseless=True).fits(path) == fits


def test_a_path_pattern_with_many_wildcards_reads_the_path_once():
    glob = PathGlob("/w/", "**/a*" * 60 + "b")
    with Lines() as lines:
        assert not glob.fits("/w/" + "a/" * 2_000)
    assert lines.run < 100_000


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        (".e*", ".env", True),
        (".en?", ".env", True),
        (".[e]nv", ".env", True),
        (".[!e]nv", ".env", False),
        (".[a-f]nv", ".env", True),
        ("[]]x", "]x", True),
        ("[x", "[x", True),
        ("*" * 9_000 + "v", ".env", True),
    ],
    ids=range(8),
)
def test_a_shell_wildcard_fits_a_name(pattern, name, fits):
    assert shell_fits(pattern, name) == fits


# No regular expression of the engine backtracks through ways to read the same text ---------------------------------


def expressions():
    """Yield (file, pattern) of each regular expression that stands in the engine as a literal."""
    for file in sorted(ENGINE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            called = isinstance(node, ast.Call) and ast.unparse(node.func).startswith("re.") and node.args
            if called and isinstance(getattr(node.args[0], "value", None), str):
                yield f"{file.name}:{node.lineno}", node.args[0].value


def repeats_in_repeats(parsed, inside=False):
    for op, value in parsed:
        endless = str(op) in ("MAX_REPEAT", "MIN_REPEAT") and str(value[1]) == "MAXREPEAT"
        if endless and inside:
            return True
        parts = value if isinstance(value, tuple | list) else ()
        for part in chain(parts, *(part for part in parts if isinstance(part, list))):
            if type(part).__name__ == "SubPattern" and repeats_in_repeats(part, inside or endless):
                return True
    return False


def test_no_expression_repeats_a_repetition():
    found = dict(expressions())
    assert len(found) > 40
    assert [at for at, pattern in found.items() if repeats_in_repeats(re._parser.parse(pattern))] == []
    assert repeats_in_repeats(re._parser.parse("(?:a+b?)*"))
