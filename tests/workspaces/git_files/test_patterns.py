"""Gitignore patterns match what git says they match, and none takes long."""

import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workspaces.git_files.patterns import MAX_PATTERN, Glob, glob_of, innermost, matching, parse

PIECES = "a|b|ab|A|*|**|?|/|**/|/**|/**/|!|#| |\\ |.x|-|\t|\r|é|\x01|\\|\\*|\\a|[|]"
PIECES += "|[ab]|[!a]|[^a]|[a-b]|[b-a]|[]a]|[!]a]|[a-]|[--a]"
PIECES += (
    "|[\\]a]|[a\\-b]|[A-Z]|[[:alpha:]]|[![:upper:]a]|[[:space:][:punct:]]|[[:cntrl:]]|[[:none:]]|[[:alpha:]|[a/b]|[:a:]"
)
NAMES = "a|b|ab|ba|aa|A|a b|a |!a|#a|*|?|**|[|]|[a|a]|\\|-|b-|a.x|é|a\r|\ta|\x01"
patterns_of_git = st.lists(st.sampled_from(PIECES.split("|")), min_size=1, max_size=7).map("".join)
ignore_files = st.lists(patterns_of_git, min_size=1, max_size=4).map("\n".join)
paths = st.lists(st.sampled_from(NAMES.split("|")), min_size=1, max_size=4).map("/".join)


@pytest.fixture(scope="module")
def ignored_by_git(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ignore")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)

    def ask(text: str, paths: list[str]) -> set[str]:
        (folder / ".gitignore").write_bytes(text.encode())
        argv = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
        asked = "\0".join(f"./{path}" for path in paths).encode()
        found = subprocess.run(argv, cwd=folder, input=asked, capture_output=True, check=False)
        assert found.returncode < 2, found.stderr
        return {path.removeprefix("./") for path in found.stdout.decode().split("\0") if path}

    return ask


def ignored(text: str, path: str) -> bool:
    """As git: the path itself, or a folder above it."""
    patterns, parts = parse(text.encode()), path.encode().split(b"/")
    folders = [b"/".join(parts[:n]) for n in range(1, len(parts))]
    return any(matching(patterns, above, True) for above in folders) or bool(matching(patterns, path.encode(), False))


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ignore_files, st.lists(paths, min_size=1, max_size=60, unique=True))
def test_as_git_says(ignored_by_git, text, paths):
    assert {path for path in paths if ignored(text, path)} == ignored_by_git(text, paths)


@pytest.mark.parametrize(
    "text", ["\ufeffa\n", "a\r\n", "a  \n", "a\\ \n", "a\\\\ \n", "ab**/b", "x/ab**", "/", "//", "!", "a//"]
)
def test_as_git_says_of_what_is_rare(ignored_by_git, text):
    paths = ["a", "a ", "a\\", "a\\ ", "ab/b", "abx/y/b", "x/ab/c", "x/abc/d", "b"]
    assert {path for path in paths if ignored(text, path)} == ignored_by_git(text, paths)


def test_the_last_match_counts():
    patterns = parse(b"*.o\n!keep.o\n")
    assert [matching(patterns, name, False) for name in (b"a.o", b"keep.o", b"a.c")] == [True, False, None]


def test_the_innermost_file_that_matches_counts():
    files = ((b"", parse(b"*.o")), (b"src/", parse(b"!keep.o")))
    assert [innermost(files, name, False, lambda: None) for name in (b"src/keep.o", b"src/a.o", b"keep.o", b"a.c")] == [
        False, True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        (b"*a" * 240 + b"b", b"a" * 4000),
        (b"/".join([b"**"] * 120 + [b"x"]), b"/".join([b"y"] * 2000)),
        (b"/" + b"**/*" * 100 + b"x", b"a/" * 2000 + b"a"),
        (b"[!x-z]*" * 70 + b"x", b"a" * 4000),
    ],
)
def test_a_pattern_made_to_take_long_does_not(glob, path):
    """A backtracking engine would not end."""
    assert len(glob) <= MAX_PATTERN
    assert not glob_of(glob).matches(path)


@pytest.mark.parametrize("calls", [1, 2, 30])
def test_matching_ends_where_its_caller_ends_it(calls):
    """Each pattern that may take long is counted, also within one file."""
    left = iter(range(calls - 1))
    with pytest.raises(StopIteration):
        matching(parse(b"*a*b\n" * 29), b"aaa", False, lambda: next(left))


def test_a_pattern_keeps_few_steps_and_still_matches():
    glob = glob_of(b"*?\xff*b")
    text = bytes(byte for byte in range(1, 256) if byte != 0x2F)
    assert [glob.matches(text * 3 + end) for end in (b"b", b"c", b"b")] == [True, False, True]


def test_a_pattern_that_is_too_long_is_not_used():
    assert parse(b"a" * MAX_PATTERN + b"\n" + b"a" * (MAX_PATTERN + 1)) == [
        (False, False, Glob(b"a" * MAX_PATTERN, b"", True, None))
    ]
