"""kill -9 of the runner in each step of a revision that git merges: the files are as before, or the merge is whole."""

import subprocess
import uuid

import pytest

from tests.faults.conftest import ROUNDS
from tests.workspaces.test_upload import tar_of

# Each point, and whether the merge is whole by then.
POINTS = {"revise.saved": False, "revise.fetched": False, "revise.placed": False, "revise.merged": True}
POINTS |= {"revise.taken": True, "restore.frozen": True}
AT_ONCE = 2  # points of a single round


def git(path, *args) -> str:
    argv = ["git", "-c", "user.name=U", "-c", "user.email=u@example.org", "-c", "safe.directory=*", *args]
    return subprocess.run(argv, cwd=path, check=True, capture_output=True, text=True).stdout.strip()


class Revised:
    """A workspace with a commit and an edit of its own, whose source has moved on."""

    def __init__(self, desk):
        self.desk, self.key = desk, f"revised-{uuid.uuid4().hex[:8]}"
        self.source = desk.cartridges / self.key
        self.source.mkdir()
        git(self.source, "init", "-q", "-b", "main")
        for name in ("a", "b", "c"):
            (self.source / name).write_text(f"{name}\n")
        self.commit("one")
        self.call("POST", "", {"key": self.key, "source": {"git": str(self.source)}})
        assert self.settled()["state"] == "ready"
        self.run("echo mine > mine; git add mine; git commit -qm mine; echo edited >> a")
        (self.source / "b").write_text("theirs\n")
        (self.source / "c").unlink()
        self.theirs = self.commit("two")

    def commit(self, words) -> str:
        git(self.source, "add", "-A")
        git(self.source, "commit", "-qm", words)
        return git(self.source, "rev-parse", "HEAD")

    def call(self, method, path, body=None) -> dict:
        path = f"/workspaces/{self.key}{path}" if path else "/workspaces"
        answer = self.desk.insist(method, path, self.desk.agent, body)
        assert answer.status in (200, 201, 202), answer.body
        return answer.json

    def settled(self) -> dict:
        while (found := self.call("GET", "?wait=5"))["busy"]:
            pass
        return found

    def run(self, command: str) -> None:
        asked = self.call("POST", "/commands", {"command": command})["id"]
        while (done := self.desk.insist("GET", f"/commands/{asked}?wait=10", self.desk.agent).json)["ended_at"] is None:
            pass
        assert done["exit_status"] == 0, done

    def state(self) -> dict:
        """Return what git and the files say."""
        tree = self.tree()
        told = {path.name: path.read_text() for path in tree.iterdir() if path.is_file()}
        told |= {name: git(tree, "rev-parse", name) for name in ("HEAD", "origin/main")}
        told["status"] = git(tree, "status", "--porcelain", "--", ":!.handrail")
        return told | {"log": git(tree, "log", "--format=%P %s")}

    def tree(self):
        [found] = [path.parent for path in self.desk.product.home.glob("workspaces/*/tree/mine") if self.is_ours(path)]
        return found

    def is_ours(self, path) -> bool:
        return str(self.source) in (path.parent / ".git/config").read_text()


@pytest.fixture
def made(desk, chance):
    return Revised(desk)


@pytest.mark.parametrize("place", range(len(POINTS) if ROUNDS > 1 else AT_ONCE))
def test_a_revision_is_whole_or_undone(desk, made, chance, seed, place):
    names = list(POINTS)
    point = names[place] if ROUNDS > 1 else chance.choice(names[place::AT_ONCE])
    before = made.state()
    body = {"git": str(made.source)}
    answer = desk.survives(point, lambda: made.desk.call("POST", f"/workspaces/{made.key}/revisions", desk.agent, body))
    made.settled()
    assert desk.has_fired(point), answer
    after = made.state()
    [operation] = [row for row in made.call("GET", "/operations")["operations"] if row["kind"] == "revise"]
    if not POINTS[point]:
        assert after == before, f"seed {seed}: {point}"
        assert "The files are as they were before" in operation["outcome"]["reason"]
        assert made.call("GET", "?wait=0")["source"].get("revision") is None
        return
    assert operation["outcome"]["ok"], f"seed {seed}: {operation}"
    assert (after["a"], after["b"], after["origin/main"]) == (before["a"], "theirs\n", made.theirs)
    assert ("c" in after, after["status"]) == (False, "M a")
    assert after["log"].splitlines()[0].split(" ")[:2] == [before["HEAD"], made.theirs]
    assert made.call("GET", "?wait=0")["source"]["revision"] == 2


def test_an_upload_is_merged_once(desk, chance):
    """Killed with the merged files in place: they are not merged again with what is in them already."""

    def upload(text: str) -> str:
        return desk.product.call("POST", "/api/v1/uploads", desk.agent, tar_of(("a", text.encode()))).json["id"]

    def call(method, path, body=None):
        answer = desk.insist(method, f"/workspaces{path}", desk.agent, body)
        assert answer.status in (200, 201, 202), answer.body
        return answer.json

    key = f"merged-{uuid.uuid4().hex[:8]}"
    call("POST", "", {"key": key, "source": {"upload": upload("one\ntwo\nthree\n")}})
    while call("GET", f"/{key}?wait=5")["busy"]:
        pass
    asked = call("POST", f"/{key}/commands", {"command": "sed -i s/two/mine/ a"})["id"]
    while desk.insist("GET", f"/commands/{asked}?wait=10", desk.agent).json["ended_at"] is None:
        pass
    body = {"upload": upload("one\ntheirs\nthree\n"), "how": "merge"}
    desk.survives("revise.placed", lambda: desk.call("POST", f"/workspaces/{key}/revisions", desk.agent, body))
    while call("GET", f"/{key}?wait=5")["busy"]:
        pass
    assert desk.has_fired("revise.placed")
    [operation] = [row for row in call("GET", f"/{key}/operations")["operations"] if row["kind"] == "revise"]
    assert operation["outcome"]["conflicts"] == [{"path": "a", "why": "text", "lines": [[2, 6]]}]
    merged = desk.product.get(f"/api/v1/workspaces/{key}/files/a", desk.agent).text
    assert merged == "one\n<<<<<<< here\nmine\n=======\ntheirs\n>>>>>>> revision 2\nthree\n"
