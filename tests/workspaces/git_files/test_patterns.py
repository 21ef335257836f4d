"""Gitignore patterns match what git says they match, and none takes long."""

import subprocess

import pytest

from workspaces.git_files.patterns import is_name, matching, parse

PATHS = [
    "a.o",
    "keep.o",
    "x/a.o",
    "build",
    "x/build",
    "docs/a.txt",
    "docs/x/a.txt",
    "a/b/c",
    "a/x/y/c",
    "foo",
    "foo/bar",
]
PATHS += ["#x", "!x", "é", "a]b", "a-b", "ab", "x/deep/er/name", "log1", "logz", "sp ", "sp"]
PATTERNS = ["*.o", "!keep.o", "build/", "/build", "docs/*.txt", "docs/**/*.txt", "a/**/c", "**/name", "foo/**", "foo/*"]
PATTERNS += [
    "\\#x",
    "\\!x",
    "?b",
    "a[]-]b",
    "[!a]b",
    "log[0-9]",
    "log[^0-9]",
    "*",
    "/*",
    "**",
    "x/",
    "# comment",
    "",
    "sp\\ ",
]
PATTERNS += ["é", "deep/er", "/x/deep", "*/build", "a/*/c"]


@pytest.fixture(scope="module")
def ignored_by_git(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ignore")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)

    def ask(pattern: str, path: str) -> bool:
        (folder / ".gitignore").write_text(pattern + "\n")
        argv = ["git", "check-ignore", "-q", "--no-index", "--", path]
        return subprocess.run(argv, cwd=folder, check=False).returncode == 0

    return ask


def ignored(pattern: str, path: str) -> bool:
    """As git: the path itself, or a folder above it."""
    patterns, parts = parse(pattern.encode() + b"\n"), path.encode().split(b"/")
    folders = [b"/".join(parts[:n]) for n in range(1, len(parts))]
    return any(matching(patterns, above, True) for above in folders) or bool(matching(patterns, path.encode(), False))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_as_git_says(ignored_by_git, pattern):
    found = {path: ignored(pattern, path) for path in PATHS}
    assert found == {path: ignored_by_git(pattern, path) for path in PATHS}


def test_the_last_match_counts():
    patterns = parse(b"*.o\n!keep.o\n")
    assert [matching(patterns, name, False) for name in (b"a.o", b"keep.o", b"a.c")] == [True, False, None]


def test_a_pattern_made_to_take_long_does_not():
    assert not is_name(b"*a" * 200 + b"b", b"a" * 250)  # a backtracking engine would not end
    assert not matching(parse(b"/".join([b"**"] * 100 + [b"x"])), b"/".join([b"y"] * 200), False)
