"""A revision of a git repository is merged in the workspace by git, as `git pull` does, and undone if it fails."""

import os
import subprocess
import uuid
from types import SimpleNamespace

import pytest

from dashboard.models import Actor
from tests.support.waiting import until
from workspaces.runner.refusals import Refused
from workspaces.runner.steps import revise_git
from workspaces.store import LocalTree, Store, swap


class Upstream:
    """The source of a workspace, which moves on."""

    def __init__(self, path):
        self.path = path

    def git(self, *args, check=True) -> str:
        argv = ["git", "-c", "user.name=U", "-c", "user.email=u@example.org", *args]
        return subprocess.run(argv, cwd=self.path, check=check, capture_output=True, text=True).stdout.strip()

    def commit(self, files: dict[str, str | None], words="upstream") -> str:
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).unlink(missing_ok=True)
            if text is not None:
                (self.path / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", words)
        return self.git("rev-parse", "HEAD")


LINES = "".join(f"{n}\n" for n in range(1, 10))


@pytest.fixture
def upstream(repository):
    made = Upstream(repository[0])
    made.git("config", "receive.denyCurrentBranch", "ignore")
    made.commit({"a.txt": LINES, "b.txt": "b\n", "c.txt": "c\n", "d.txt": "d\n", "e.txt": "e\n" * 20})
    return made


@pytest.fixture
def lead(desk, lead_token):
    return type(desk)(desk.product, lead_token)


@pytest.fixture
def key(desk, upstream):
    return desk.create(source={"git": str(upstream.path)})["key"]


def read(desk, key, name) -> str:
    return desk.get(f"/workspaces/{key}/files/{name}").body.decode()


def state(desk, key) -> str:
    return desk.run(key, "git status --porcelain; git ls-files -s -u; git rev-parse HEAD origin/main; cat *").decode()


def revise(desk, key, upstream, status=201, **wish) -> dict:
    """Take a revision; with `how` the answer comes at once, so wait for the operation too."""
    told = desk.post(f"/workspaces/{key}/revisions", {"git": str(upstream.path)} | wish, status).json
    if "how" in wish and "operation" in told:
        return until(lambda: desk.get(f"/workspaces/{key}/operations/{told['operation']}").json["outcome"])
    return told


def test_edits_stay_and_deletions_and_renames_arrive(desk, key, upstream):
    desk.run(key, "echo mine >> a.txt; echo mine >> b.txt; echo new > mine.txt")
    sha = upstream.commit({"c.txt": "c2\n", "d.txt": None, "e.txt": None, "e2.txt": "e\n" * 20})
    taken = revise(desk, key, upstream)
    assert (taken["state"], taken["revision"]) == ("settled", 2)
    assert [taken[name] for name in ("changed", "created", "removed")] == [1, 1, 2]
    told = desk.run(key, "git status --porcelain; git rev-parse HEAD origin/main").decode().split("\n")
    assert told == [" M a.txt", " M b.txt", "?? mine.txt", sha, sha, ""]
    assert read(desk, key, "c.txt") == "c2\n"
    assert desk.run(key, "ls").decode().split() == ["a.txt", "b.txt", "c.txt", "calc.py", "e2.txt", "mine.txt"]
    assert desk.get(f"/workspaces/{key}").json["source"]["sha"] == sha


def test_a_branch_that_moved_on_is_merged_and_takes_the_push(desk, lead, key, upstream):
    desk.run(key, "git config user.name Agent; git config user.email g@example.org; sed -i s/9/nine/ a.txt")
    desk.run(key, "git commit -qam 'agent: a'")
    theirs = upstream.commit({"a.txt": LINES.replace("1", "one"), "d.txt": None})
    revise(desk, key, upstream, 202, how="merge")
    assert read(desk, key, "a.txt") == LINES.replace("1", "one").replace("9", "nine")
    told = desk.run(key, "git log -1 --format='%P|%an|%s'; git status --porcelain").decode().strip()
    parents, by, subject = told.split("|")
    assert (parents.split()[1], by, subject) == (theirs, "Agent", f"Merge branch 'main' of {upstream.path}")
    pushed = lead.post(f"/workspaces/{key}/push", {"branch": "main"}, None).json
    assert pushed["outcome"]["ok"], pushed
    assert upstream.git("log", "-1", "--format=%P", "main") == parents


def test_a_conflict_takes_nothing_unless_asked(desk, key, upstream):
    desk.run(key, "sed -i s/5/five/ a.txt; git commit -qam 'agent: a'")
    upstream.commit({"a.txt": LINES.replace("5", "V"), "c.txt": "c2\n"})
    before = state(desk, key)
    refused = revise(desk, key, upstream, 409)
    assert refused["conflicts"] == [{"path": "a.txt", "lines": [[5, 9]]}]
    assert state(desk, key) == before
    revise(desk, key, upstream, 202, how="merge")
    told = desk.run(key, "git status --porcelain; git rev-parse MERGE_HEAD origin/main; sed -n '5p;9p' a.txt").decode()
    status, merging, origin, first, last = told.splitlines()[:1] + told.splitlines()[-4:]
    assert (status, merging) == ("UU a.txt", origin)
    assert (first[:8], last[:8]) == ("<<<<<<< ", ">>>>>>> ")
    assert read(desk, key, "c.txt") == "c2\n"


def test_an_edit_in_the_way_is_named_and_nothing_changes(desk, key, upstream):
    desk.run(key, "echo mine >> c.txt; echo mine > new.txt")
    upstream.commit({"c.txt": "c2\n", "new.txt": "theirs\n", "b.txt": "b2\n"})
    before = state(desk, key)
    refused = revise(desk, key, upstream, 409)
    assert [row["path"] for row in refused["conflicts"]] == ["c.txt", "new.txt"]
    assert state(desk, key) == before


def test_commits_are_rebased_or_brought_beside(desk, key, upstream):
    desk.run(key, "echo mine > mine.txt; git add .; git commit -qm 'agent: mine'")
    theirs = upstream.commit({"c.txt": "c2\n"})
    head = desk.run(key, "git rev-parse HEAD").decode()
    revise(desk, key, upstream, 202, how="beside")
    told = desk.run(key, "git rev-parse HEAD origin/main; git status --porcelain").decode()
    assert told == f"{head}{theirs}\n"
    revise(desk, key, upstream, 202, how="rebase")
    told = desk.run(key, "git log -2 --format=%s; git rev-parse HEAD^; git status --porcelain").decode().splitlines()
    assert told == ["agent: mine", "upstream", theirs]


@pytest.fixture
def checked_key(desk, lead, upstream):
    """A workspace with a check."""
    name = f"checked-{uuid.uuid4().hex[:8]}"
    lead.post("/environments", {"name": name, "checks": {"unit": "test -f c.txt && echo checked"}}, 201)
    return desk.create(source={"git": str(upstream.path)}, environment=name)["key"]


def test_a_rebase_runs_the_checks_of_the_environment(desk, checked_key, upstream):
    key = checked_key
    desk.run(key, "echo mine > mine.txt; git add .; git commit -qm 'agent: mine'")
    theirs = upstream.commit({"c.txt": "c2\n"})
    assert rebase(desk, key)["conflicts"] == []
    told = desk.run(key, "git log -2 --format=%s; git rev-parse HEAD^; git status --porcelain").decode().splitlines()
    assert told == ["agent: mine", "upstream", theirs]
    [check] = [each for each in desk.get(f"/workspaces/{key}/commands").json["commands"] if each["check"] == "unit"]
    assert until(lambda: desk.get(f"/commands/{check['id']}").json["exit_status"] == 0)


def test_a_rebase_with_a_conflict_leaves_it_in_the_files_and_checks_nothing(desk, checked_key, upstream):
    key = checked_key
    desk.run(key, "echo mine > c.txt; git commit -qam 'agent: mine'")
    upstream.commit({"c.txt": "theirs\n"})
    assert [each["path"] for each in rebase(desk, key)["conflicts"]] == ["c.txt"]
    assert "<<<<<<<" in read(desk, key, "c.txt")
    assert [each for each in desk.get(f"/workspaces/{key}/commands").json["commands"] if each["check"]] == []


def test_a_rebase_by_an_agent_brings_no_protected_files(desk, key, upstream):
    upstream.commit({".claude/settings.json": "{}\n"})
    before = state(desk, key)
    assert "A person has to take this revision" in rebase(desk, key)["reason"]
    assert state(desk, key) == before


def rebase(desk, key) -> dict:
    told = desk.post(f"/workspaces/{key}/rebase", {}, 202).json
    return until(lambda: desk.get(f"/workspaces/{key}/operations/{told['operation']}").json["outcome"])


def test_commits_of_another_repository_leave_where_a_push_goes(desk, lead, key, upstream):
    before = desk.get(f"/workspaces/{key}").json["source"]
    other = Upstream(upstream.path.parent / f"other-{key}")
    upstream.git("clone", "-q", str(upstream.path), str(other.path))
    theirs = other.commit({"c.txt": "c2\n"})
    revise(lead, key, other)
    told = desk.run(key, "git rev-parse HEAD HEAD~1 origin/main; git config remote.origin.url").decode().split()
    assert told == [theirs, *[upstream.git("rev-parse", "HEAD")] * 2, str(upstream.path)]
    source = desk.get(f"/workspaces/{key}").json["source"]
    assert (source["git"], source["sha"], source["revision"]) == (before["git"], before["sha"], 2)


def test_no_program_of_the_repository_runs(desk, lead, key, upstream):
    upstream.commit({".gitattributes": "*.txt filter=bad merge=bad\n"})
    revise(lead, key, upstream)
    said = "touch /workspace/ran; cat"
    desk.run(
        key,
        f"git config filter.bad.smudge '{said}'; git config filter.bad.clean '{said}';"
        f" git config merge.bad.driver '{said}'; git config core.fsmonitor '{said}';"
        " for hook in post-merge post-checkout pre-merge-commit commit-msg reference-transaction; do"
        " printf '#!/bin/sh\\ntouch /workspace/ran\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook; done;"
        " sed -i s/9/nine/ a.txt; git commit -qam mine; rm -f ran",
    )
    upstream.commit({"a.txt": LINES.replace("1", "one"), "c.txt": "c2\n"})
    revise(desk, key, upstream)
    assert read(desk, key, "a.txt") == LINES.replace("1", "one").replace("9", "nine")
    assert "ran" not in desk.run(key, "ls").decode().split()


def test_an_agent_cannot_bring_protected_files(desk, key, upstream):
    upstream.commit({".claude/settings.json": "{}\n", "c.txt": "c2\n"})
    before = state(desk, key)
    assert "A person has to take this revision" in revise(desk, key, upstream, 409)["detail"]
    assert state(desk, key) == before


def test_a_copy_is_made_after_a_runner_was_killed_as_it_made_one(tmp_path):
    """The process ends in the middle, when all files are staged and none is in its place."""
    store, work = Store.create(tmp_path / "store"), tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("a")
    saved = store.snapshot(LocalTree(work)).tree
    if not (pid := os.fork()):
        swap.carry_out = lambda *args: os._exit(9)
        revise_git._make_copy(store, saved, tmp_path / "copy")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    copy = revise_git._make_copy(store, saved, tmp_path / "copy")
    assert (copy / "a.txt").read_text() == "a"
    assert sorted(os.listdir(tmp_path)) == ["copy", "store", "work"]
    assert os.listdir(tmp_path / "copy") == ["tree"]


@pytest.mark.parametrize("path", [b".claude/settings.json", b".CLAUDE/Settings.local.json", b".claude"])
def test_an_agent_cannot_change_the_files_of_the_hook_even_with_an_approval(path):
    by = Actor("agent", "1", "agent", approval="1")
    with pytest.raises(Refused):
        revise_git._refuse_to_agents(by, [b"a.txt", path], SimpleNamespace(number=1))
    revise_git._refuse_to_agents(by, [b"a.txt"], None)
