"""What git does with a revision in a workspace's repository is what `git pull` does in a plain clone of it.

The program of the step runs here as it does in its sandbox, on plain folders.
"""

import hashlib
import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from workspaces.provisioning.git import lfs_filter
from workspaces.runner.git import merge_step

CASES = int(os.environ.get("HANDRAIL_TEST_MERGES", "40"))
NAMES = ("a.txt", "b.txt", "c.dos", "d/e.txt", "d/f.txt", "g/h/i.txt", "über ä.txt", "-dash")
ATTRIBUTES = "*.dos text eol=crlf\n*.txt text=auto\n*.uni merge=union\n*.drv merge=agent filter=agent\n"
LINK = "160000"


class Sides:
    """A repository, a plain clone of it that pulls, and one into which a revision is taken."""

    def __init__(self, folder: Path):
        self.folder, self.pulled, self.taken = folder, folder / "pulled", folder / "taken"
        self.up, self.mirror = folder / "up", folder / "up/.git"
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1", "GIT_EDITOR": ":",
        }  # fmt: skip
        self.home = folder / "home"  # as the steps see it
        (folder / "home").mkdir()
        (folder / "home/.gitconfig").write_text(
            "[user]\n\tname = A\n\temail = a@example.org\n[init]\n\tdefaultBranch = trunk\n"
            '[core]\n\tquotePath = false\n[protocol "file"]\n\tallow = always\n[advice]\n\tdetachedHead = false\n'
        )

    def git(self, at: Path, *args, check=True) -> str:
        done = subprocess.run(["git", *args], cwd=at, env=self.environment, capture_output=True)
        assert not check or done.returncode == 0, (args, done.stdout, done.stderr)
        return os.fsdecode(done.stdout)

    def begin(self, files: dict[str, str]) -> None:
        """Make the repository with a first commit, and its clone."""
        self.git(self.folder, "init", "-q", "up")
        (self.up / ".gitattributes").write_text(ATTRIBUTES)
        for name, text in files.items():
            self.write(self.up, name, text)
        self.commit(self.up, "base")
        self.git(self.folder, "clone", "-q", str(self.up), "pulled")

    def write(self, at: Path, name: str, text: str) -> None:
        path = at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(text.encode())

    def commit(self, at: Path, words: str) -> None:
        self.git(at, "add", "-A")
        self.git(at, "commit", "-q", "--allow-empty", "-m", words)

    def fork(self) -> None:
        """Make the side that takes the revision, equal to the one that pulls."""
        shutil.copytree(self.pulled, self.taken, symlinks=True)
        for side in (self.pulled, self.taken):
            self.git(side, "update-index", "-q", "--refresh", check=False)

    def step(self, do: str, **what) -> dict:
        request = {
            "do": do, "root": str(self.taken), "source": str(self.mirror), "seconds": 60, "origin": True,
            "remote": str(self.up), "identity": ["A", "a@example.org"], "scratch": str(self.folder),
            "home": str(self.home), "how": "merge", "rehearse": True, "asked": False,
        }  # fmt: skip
        try:
            return merge_step.STEPS[do](merge_step.Git(request | what), request | what)
        except merge_step.Failed as error:
            return {"error": str(error), "paths": error.paths}

    def take(self, how: str = "merge", ref: str = "refs/heads/trunk", **what) -> tuple[dict, dict]:
        """Return what the two steps of a revision answer."""
        sha = self.git(self.mirror, "rev-parse", f"{ref}^{{commit}}").strip()
        self.git(self.mirror, "update-ref", merge_step.COMING, sha)
        came = self.step("fetch", ref=ref, sha=sha, how=how, **what)
        if "error" in came:
            return came, came
        if how == "beside":
            return came, came
        return came, self.step(how, **{name: came[name] for name in ("coming", "ref", "since")})

    def state(self, at: Path) -> dict:
        """Return all that `git pull` leaves, but the times of its commits."""
        status = self.git(at, "status", "--porcelain=v2", "--branch")
        log = self.git(at, "log", "--topo-order", "--format=%T %s %b %an", "-n", "30")
        return {
            "files": {str(path.relative_to(at)): told(path) for path in sorted(at.rglob("*")) if plain(at, path)},
            "index": self.git(at, "ls-files", "-s", "-u"),
            "status": [line for line in status.splitlines() if not line.startswith("# branch.oid")],
            "refs": self.git(at, "for-each-ref", "--format=%(refname) %(objectname)", "refs/remotes", "refs/tags"),
            "head": log,
            "merging": (at / ".git/MERGE_HEAD").exists() and (at / ".git/MERGE_HEAD").read_text(),
            "message": (at / ".git/MERGE_MSG").exists() and (at / ".git/MERGE_MSG").read_text(),
            "rebasing": (at / ".git/rebase-merge").exists(),
        }


def plain(at: Path, path: Path) -> bool:
    return ".git" not in path.relative_to(at).parts and (path.is_symlink() or not path.is_dir())


def told(path: Path):
    return os.readlink(path) if path.is_symlink() else (path.read_bytes(), path.stat().st_mode & 0o111)


@pytest.fixture
def sides(tmp_path):
    return Sides(tmp_path)


def change(sides: Sides, at: Path, chance: random.Random, mark: str) -> None:
    """Make one random change of the working tree."""
    found = sorted(str(path.relative_to(at)) for path in at.rglob("*") if plain(at, path) and not path.is_symlink())
    files = [name for name in found if name != ".gitattributes"]
    name = chance.choice(files) if files else "a.txt"
    match chance.randrange(9):
        case 0 | 1 | 2 if files:
            lines = (at / name).read_bytes().split(b"\n")
            place = chance.randrange(len(lines))
            lines[place : place + 1] = [f"{mark} {chance.randrange(3)}".encode()]
            (at / name).write_bytes(b"\n".join(lines))
        case 3 if files:
            (at / name).unlink()
        case 4 if files:
            new = f"{chance.choice(('moved', 'd', 'x/y'))}/{chance.choice('pq')}{Path(name).suffix}"
            if not any(part.is_symlink() or part.is_file() for part in [at / new, *(at / new).parents][:3]):
                (at / new).parent.mkdir(parents=True, exist_ok=True)
                (at / name).rename(at / new)
        case 5 if files:
            (at / name).chmod(chance.choice((0o644, 0o755)))
        case 6:
            link = at / f"link{chance.randrange(2)}"
            link.unlink(missing_ok=True)
            link.symlink_to(chance.choice(("a.txt", "d", mark)))
        case 7:
            sha = f"{chance.randrange(1, 4):040x}"
            sides.git(at, "update-index", "--add", "--cacheinfo", f"{LINK},{sha},sub")
            (at / "sub").mkdir(exist_ok=True)
        case _:
            sides.write(at, f"new{chance.randrange(3)}.dos", f"{mark}\r\nlast\r\n")


def history(sides: Sides, at: Path, chance: random.Random, mark: str) -> None:
    for number in range(chance.randrange(3)):
        for _ in range(chance.randrange(1, 4)):
            change(sides, at, chance, mark)
        sides.git(at, "add", "-A", "--", ":/", ":!sub")
        sides.git(at, "commit", "-q", "--allow-empty", "-m", f"{mark} {number}")


@pytest.mark.parametrize("seed", range(CASES))
def test_a_revision_leaves_what_git_pull_leaves(sides, seed):
    chance = random.Random(seed)
    sides.begin({name: "".join(f"line {n} of {name}\n" for n in range(8)) for name in NAMES})
    history(sides, sides.up, chance, "up")
    history(sides, sides.pulled, chance, "here")
    if chance.random() < 0.2:
        sides.git(sides.up, "tag", "-am", "one", "v1")
    for _ in range(chance.choice((0, 0, 1, 2))):
        change(sides, sides.pulled, chance, "uncommitted")
    sides.fork()
    before = sides.state(sides.taken)
    how = chance.choice(("merge", "merge", "rebase"))
    sides.git(sides.pulled, "pull", "-q", "--rebase" if how == "rebase" else "--no-rebase", check=False)
    came, done = sides.take(how)
    found = sides.state(sides.taken)
    pulled = sides.state(sides.pulled)
    if "error" in done and found["rebasing"]:  # git stops without a conflict; the runner restores the files
        assert pulled["rebasing"]
        return
    if "error" in done:  # the runner then restores what it fetched, too
        unlike = {"refs": None, "status": None}
        assert found | unlike == before | unlike
        found, pulled = found | unlike, pulled | unlike
    assert found == pulled, (came, done)
    unmerged = {line.split("\t")[1] for line in sides.git(sides.pulled, "ls-files", "-u").splitlines()}
    assert {row["path"] for row in done.get("conflicts", ())} == unmerged
    if how == "merge" and "error" not in done:
        assert {row["path"].partition("~")[0] for row in came["conflicts"]} == {
            path.partition("~")[0] for path in unmerged
        }


def test_contents_of_git_lfs_that_came_are_kept_by_the_fetch(sides):
    sides.begin({"a.txt": "a\n"})
    sides.fork()
    content = b"big" * 1000
    oid = hashlib.sha256(content).hexdigest()
    coming = Path(lfs_filter.place_of(str(sides.mirror), oid))
    coming.parent.mkdir(parents=True)
    coming.write_bytes(content)
    came, _ = sides.take("beside", lfs=Path(lfs_filter.__file__).read_text(), source=str(sides.mirror))
    assert "error" not in came
    assert Path(lfs_filter.place_of(str(sides.taken / ".git"), oid)).read_bytes() == content


# What a repository can set so that git runs a program; each would leave the file `mark`.
PROGRAMS = """
[core]
    editor = {mark}
    fsmonitor = {mark}
    hooksPath = {folder}/hooks
    pager = {mark}
    gitProxy = {mark}
    sshCommand = {mark}
    alternateRefsCommand = {mark}
    askPass = {mark}
[sequence]
    editor = {mark}
[rebase]
    instructionFormat = "%s%nexec {mark}"
[commit]
    gpgSign = true
[merge]
    verifySignatures = true
    tool = bad
    guitool = bad
[mergetool "bad"]
    cmd = {mark}
[gpg]
    program = {mark}
[gpg "ssh"]
    program = {mark}
    defaultKeyCommand = {mark}
[merge "agent"]
    driver = {mark}
[filter "agent"]
    clean = {mark}
    smudge = {mark}
    process = {mark}
    required = true
[diff]
    external = {mark}
[diff "agent"]
    textconv = {mark}
    command = {mark}
[alias]
    merge = !{mark}
    rebase = !{mark}
    fetch = !{mark}
[trailer "agent"]
    command = {mark}
[remote "origin"]
    uploadpack = {mark}
    vcs = bad
[uploadpack]
    packObjectsHook = {mark}
[credential]
    helper = !{mark}
[interactive]
    diffFilter = {mark}
[fetch]
    recurseSubmodules = true
[submodule]
    recurse = true
[submodule "sub"]
    update = !{mark}
    active = true
"""
# What a repository can set so that git works elsewhere, or otherwise than the rehearsal.
ELSEWHERE = (
    '[branch "trunk"]\n\tmergeOptions = -Xsubtree=.claude\n',
    '[branch "trunk"]\n\tmergeOptions = -s ours\n',
    "[pull]\n\ttwohead = ours\n",
    "[core]\n\tworktree = {folder}/elsewhere\n",
    "[core]\n\tbare = true\n",
    '[url "{folder}/nowhere"]\n\tinsteadOf = {folder}/up\n',
    "[include]\n\tpath = {folder}/more\n",
    '[includeIf "gitdir:/"]\n\tpath = {folder}/more\n',
    "[extensions]\n\tworktreeConfig = true\n",
    "[remote]\n\tpushDefault = x\n[rebase]\n\tupdateRefs = true\n\trebaseMerges = true\n[commit]\n\ttemplate = /x\n",
)


@pytest.fixture
def both(sides):
    """A repository and its clone that both moved on; what runs leaves `mark`."""
    sides.begin({"a.txt": "a\nb\nc\n", "x.drv": "1\n2\n3\n4\n5\n"})
    (sides.folder / "elsewhere").mkdir()
    (sides.folder / "hooks").mkdir()
    mark = sides.folder / "run"
    mark.write_text(f"#!/bin/sh\ntouch {sides.folder}/mark\n")
    mark.chmod(0o755)
    for name in (
        "post-merge",
        "post-checkout",
        "pre-merge-commit",
        "commit-msg",
        "pre-rebase",
        "reference-transaction",
    ):
        shutil.copy(mark, sides.folder / "hooks" / name)
    for at, old, new in ((sides.up, "5", "five"), (sides.pulled, "1", "one")):
        sides.write(at, "x.drv", (at / "x.drv").read_text().replace(old, new))
        sides.write(at, f"{new}.txt", new)
        sides.commit(at, new)
    return sides


def taken_with(both: Sides, settings: str, how: str, file=".git/config") -> dict:
    """Return what a revision leaves in a fresh copy with these settings."""
    shutil.rmtree(both.taken, ignore_errors=True)
    both.fork()
    both.home = both.folder / "home of agent"
    both.home.mkdir(exist_ok=True)
    (both.home / ".gitconfig").unlink(missing_ok=True)
    with open(both.taken / file, "a") as config:
        config.write(settings.format(mark=both.folder / "run", folder=both.folder))
    done = both.take(how)[1]
    shutil.copy(both.pulled / ".git/config", both.taken / ".git/config")
    assert "error" not in done, done
    assert not (both.folder / "mark").exists()
    assert not list((both.folder / "elsewhere").iterdir())
    return both.state(both.taken)


@pytest.mark.parametrize("how", ["merge", "rebase"])
@pytest.mark.parametrize("file", [".git/config", "../home of agent/.gitconfig"])
def test_no_setting_runs_a_program(both, how, file):
    plain_one = taken_with(both, "", how)
    assert taken_with(both, PROGRAMS, how, file) == plain_one
    assert taken_with(both, '[rebase]\n\tinstructionFormat = "%s%nexec {mark}"\n', how, file) == plain_one


def test_no_setting_leads_elsewhere(both):
    plain_one = taken_with(both, "", "merge")
    more = PROGRAMS + "[core]\n\tworktree = {folder}/elsewhere\n"
    (both.folder / "more").write_text(more.format(mark=both.folder / "run", folder=both.folder))
    shutil.copy(both.folder / "more", both.pulled / ".git/config.worktree")
    for settings in ELSEWHERE:
        assert taken_with(both, settings, "merge") == plain_one, settings


def test_a_nested_repository_runs_no_program(both):
    both.git(both.pulled, "init", "-q", "sub")
    both.git(both.pulled / "sub", "commit", "-q", "--allow-empty", "-m", "nested")
    both.commit(both.pulled, "nested")
    (both.pulled / "sub/new").write_text("new")
    both.git(both.pulled / "sub", "config", "core.fsmonitor", str(both.folder / "run"))
    for how in ("merge", "rebase"):
        shutil.rmtree(both.taken, ignore_errors=True)
        shutil.copytree(both.pulled, both.taken, symlinks=True)
        assert "error" not in both.take(how)[1]
        assert not (both.folder / "mark").exists()


def test_git_sees_no_other_settings_than_those_that_are_read(both):
    both.fork()
    with open(both.taken / ".git/config", "a") as config:
        config.write('[core]\n\tautocrlf = input\n[branch "a.b\\"c"]\n\tmerge = "x # \\\\ \\n y"\n\tpushRemote = x\n')
    request = {"root": str(both.taken), "seconds": 60, "identity": ["A", "a@example.org"]}
    git = merge_step.Git(request | {"scratch": str(both.folder), "home": str(both.folder / "home")})
    told = dict(row.split("\n", 1) for row in git("config", "--local", "--null", "--list").split("\0") if row)
    assert told["core.autocrlf"] == "input"
    assert told['branch.a.b"c.merge'] == "x # \\ \n y"
    assert {key for key in told if not merge_step.READ_SETTINGS.fullmatch(key)} == {"core.bare"}


def test_a_branch_below_the_name_of_one_that_went_is_fetched(both):
    both.git(both.up, "branch", "foo")
    both.git(both.pulled, "fetch", "-q")
    both.git(both.up, "branch", "-D", "foo")
    both.git(both.up, "branch", "foo/bar")
    both.fork()
    assert "error" not in both.take()[1]
    assert both.git(both.taken, "rev-parse", "origin/foo/bar") == both.git(both.up, "rev-parse", "foo/bar")


def test_the_upstream_of_the_branch_is_taken(both):
    both.git(both.up, "checkout", "-q", "-b", "dev")
    both.commit(both.up, "dev")
    both.git(both.up, "checkout", "-q", "trunk")
    both.git(both.pulled, "config", "branch.trunk.merge", "refs/heads/dev")
    both.fork()
    came, done = both.take()
    assert (came["ref"], came["coming"]) == ("refs/heads/dev", both.git(both.up, "rev-parse", "dev").strip())
    assert both.git(both.taken, "log", "-1", "--format=%P").split()[1] == came["coming"], done


def test_a_shallow_clone_takes_what_comes_and_stays_shallow(both):
    shutil.rmtree(both.pulled)
    both.git(both.folder, "clone", "-q", "--depth", "1", f"file://{both.up}", "pulled")
    both.commit(both.up, "next")
    both.fork()
    assert "error" not in both.take()[1]
    assert both.git(both.taken, "rev-parse", "HEAD") == both.git(both.up, "rev-parse", "HEAD")
    assert (both.taken / ".git/shallow").read_text() == (both.pulled / ".git/shallow").read_text()


def test_the_lines_of_many_conflicts_are_counted_once(monkeypatch):
    monkeypatch.setattr(merge_step, "RANGES", 3)
    content = b"a\n<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\nb\n" * 4
    assert merge_step.conflict_fields("p", content)["lines"] == [[2, 6], [9, 13], [16, 20]]

    class Counted(bytes):
        searched = 0

        def count(self, part, start, end):
            Counted.searched += end - start
            return bytes.count(self, part, start, end)

    merge_step.conflict_fields("p", Counted(b"<<<<<<< \n" * 1000))
    assert Counted.searched <= 9 * 1000
