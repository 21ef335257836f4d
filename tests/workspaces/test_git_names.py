"""Names of branches and refs: what git takes is taken, and leads to what git would take it for."""

import itertools
import random
import subprocess

import pytest

from dashboard.problems import Problem
from workspaces.provisioning.git import addresses, cloning, names
from workspaces.provisioning.git.running import CloneFailed

PIECES = [
    "a", ".", "/", "@", "{", "}", "-", "HEAD", "refs/heads/", "lock", ".lock", "~", "^", ":", "?", "*", "[", "]",
    "\\", " ", "#", "!", "'", '"', "$", ";", "%", "+", "ü", "日本", "\u202e", "\u200b", "\x85", "\xa0", "\x7f", "\x01",
    "\t", "\n", "v1", "@{-1}", "@{u}", "..", "//", "😀",
]  # fmt: skip
LISTED = [
    "",
    "ünï",
    "fix/#12-like",
    "@",
    "HEAD",
    "-x",
    "@{-1}",
    "a/-x",
    "x.lock/y",
    "a.",
    "a./b",
    "heads/x",
    "refs/heads/x",
]
GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]


def git(folder, *args):
    done = subprocess.run([*GIT, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def sources(tmp_path, settings):
    settings.HANDRAIL_LOCAL_SOURCES = [tmp_path / "sources"]
    (tmp_path / "sources").mkdir()
    return tmp_path / "sources"


@pytest.fixture
def source(sources):
    """A repository of which each branch and tag is at a commit of its own; {full name: SHA}."""
    folder = sources / "named"
    git(sources, "init", "-q", "-b", "trunk", folder)
    refs = ["refs/heads/trunk", "refs/heads/feature/slash", "refs/heads/ünï", "refs/heads/fix/#12", "refs/heads/@"]
    refs += ["refs/heads/v1", "refs/heads/refs/tags/v2", "refs/heads/origin/trunk"]
    refs += ["refs/tags/v1", "refs/tags/v2", "refs/tags/trunk", "refs/tags/origin/v1", "refs/pull/7/head"]
    shas = {}
    for ref in refs:
        git(folder, "commit", "-q", "--allow-empty", "-m", ref)
        shas[ref] = git(folder, "rev-parse", "HEAD")
    git(folder, "reset", "-q", "--hard", shas["refs/heads/trunk"])
    for ref in refs:
        git(folder, "update-ref", ref, shas[ref])
    return folder, shas


def checked_out(source, ref, tmp_path):
    """Clone the ref; (its SHA, the branch that is checked out, "" for none)."""
    target = tmp_path / "clone"
    target.mkdir()
    sha = cloning.clone(addresses.check_git(str(source), ref), target)
    assert git(target, "rev-parse", "HEAD") == sha
    assert git(target, "status", "--porcelain") == ""
    return sha, git(target, "branch", "--show-current")


def takes(name: str) -> bool:
    done = subprocess.run(["git", "check-ref-format", "--branch", name], cwd="/", capture_output=True, check=False)
    return done.returncode == 0


def test_a_branch_is_called_what_git_lets_it_be_called():
    pick = random.Random(38)
    made = ["".join(pick.choices(PIECES, k=pick.randint(1, 4))) for _ in range(150)]
    for name in [*made, *PIECES, *LISTED]:
        assert names.is_branch(name) == takes(name), repr(name)


def test_a_name_that_is_no_text_is_refused():
    assert not names.is_branch("x\udc80")


def test_every_two_characters_of_ascii_are_judged_as_git_judges_them(tmp_path):
    """One process of git makes all the branches that are taken; of the others some are asked one by one."""
    pairs = {f"{one}x{two}" for one, two in itertools.product(map(chr, range(33, 127)), repeat=2)}
    taken = {name for name in pairs if names.is_branch(name)}
    git(tmp_path, "init", "-q", "--bare", "-b", "trunk", ".")
    tree = git(tmp_path, "mktree", "--missing")
    sha = git(tmp_path, "commit-tree", "-m", "one", tree)
    plain = sorted(name for name in taken if not name.startswith('"'))  # that begins a quoted name
    feed = "".join(f"create refs/heads/{name} {sha}\n" for name in plain)
    subprocess.run(["git", "update-ref", "--stdin"], cwd=tmp_path, input=feed.encode(), check=True, capture_output=True)
    for name in pick_of(pairs - taken):
        assert not takes(name), name


def pick_of(left: set[str]) -> list[str]:
    return random.Random(7).sample(sorted(left), 100)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("refs/heads/x", "without refs/heads/"),
        ("refs/tags/v1", "without refs/heads/"),
        ("x" * 201, "at most 200 characters"),
        ("a..b", "Not a valid branch name"),
    ],
)
def test_a_refused_name_is_told_why(name, said):
    with pytest.raises(Problem, match=said):
        names.check_branch(name)


@pytest.mark.parametrize(
    ("ref", "full", "branch"),
    [
        ("", "refs/heads/trunk", "trunk"),
        ("HEAD", "refs/heads/trunk", "trunk"),
        ("trunk", "refs/heads/trunk", "trunk"),  # before the tag of that name
        ("refs/heads/trunk", "refs/heads/trunk", "trunk"),
        ("refs/tags/trunk", "refs/tags/trunk", ""),
        ("feature/slash", "refs/heads/feature/slash", "feature/slash"),
        ("refs/heads/feature/slash", "refs/heads/feature/slash", "feature/slash"),
        ("heads/feature/slash", None, ""),
        ("ünï", "refs/heads/ünï", "ünï"),
        ("refs/heads/ünï", "refs/heads/ünï", "ünï"),
        ("fix/#12", "refs/heads/fix/#12", "fix/#12"),
        ("v1", "refs/heads/v1", "v1"),
        ("origin/trunk", "refs/heads/origin/trunk", "origin/trunk"),
        ("refs/tags/v1", "refs/tags/v1", ""),
        ("tags/v1", "refs/tags/v1", ""),
        ("v2", "refs/tags/v2", ""),
        ("refs/tags/v2", "refs/tags/v2", ""),
        ("refs/heads/v2", None, ""),
        ("refs/pull/7/head", "refs/pull/7/head", ""),
        ("refs/pull/*/head", None, ""),
    ],
)
def test_a_ref_leads_to_what_its_name_says(source, ref, full, branch, tmp_path):
    folder, shas = source
    if full is None:
        with pytest.raises(CloneFailed, match="has no branch, tag or commit"):
            checked_out(folder, ref, tmp_path)
    else:
        assert checked_out(folder, ref, tmp_path) == (shas[full], branch)


def test_a_hash_leads_to_its_commit_whole_and_short(source, tmp_path):
    folder, shas = source
    sha = shas["refs/heads/v1"]
    for at, ref in enumerate((sha, sha[:10])):
        (tmp_path / str(at)).mkdir()
        assert checked_out(folder, ref, tmp_path / str(at)) == (sha, "")
