"""A revision is merged from the source that the files descend from, also after going back and in a fork."""

from types import SimpleNamespace

import pytest

from dashboard.models import Actor
from dashboard.people.access import caller_of
from tests.pages.conftest import keep_tree, workspace  # noqa: F401 - fixture
from workspaces import lifecycle
from workspaces.host import paths
from workspaces.models import Environment, Snapshot, Workspace
from workspaces.provisioning import eligibility
from workspaces.runner.operations.restore import Restore
from workspaces.runner.operations.revise import Revise
from workspaces.runner.steps import revise_files, revise_git
from workspaces.services import source_trees
from workspaces.store import Store

SUMS = {"created": 0, "changed": 0, "removed": 0}
REPLACED = {"ok": True, "proof": {}, "missing_snapshot": "", "not_compared": ""} | SUMS


class Place:
    """A workspace's row with trees in its team's store; operations end in it as their outcome says."""

    def __init__(self, row, folder):
        self.pk, self.team, self.folder = row.pk, row.team, folder

    @property
    def row(self):
        return Workspace.objects.get(pk=self.pk)

    @property
    def store(self):
        return Store.open(paths.store_of(self.team.pk))

    def keep(self, **files) -> str:
        return keep_tree(self.team, self.folder / str(len(list(self.folder.iterdir()))), files).hex()

    def is_from(self, **source):
        Workspace.objects.filter(pk=self.pk).update(source=source)

    def job(self, **args):
        by = Actor("person", "1", "alice")
        return SimpleNamespace(workspace=self.row, args=args, by=by)

    def revise(self, source: dict, *, safety: int):
        told = {"ok": True, "source": source, "revision": source["revision"], "snapshot": safety + 1}
        Revise().finish(self.job(replace=False), told | SUMS | {"safety_snapshot": safety})

    def go_back(self, number: int, *, safety: int, **args):
        told = REPLACED | {"snapshot": number, "safety_snapshot": safety}
        Restore().finish(self.job(**args), told)

    def merged(self, here: str, coming: str, base=None):
        how = {"name": "revision", "by": Actor("person", "1", "alice"), "cancel": None}
        return revise_files.merged(self.row, self.store, base, here, coming, **how)


@pytest.fixture
def place(workspace, tmp_path):  # noqa: F811
    (tmp_path / "trees").mkdir()
    return Place(workspace, tmp_path / "trees")


def test_the_same_upload_is_taken_again_after_going_back(place):
    first, second = place.keep(a="1\n"), place.keep(a="2\n", b="new\n")
    place.is_from(upload="u1", tree=first)
    place.revise({"upload": "u2", "tree": second, "revision": 2, "snapshot": 4}, safety=3)
    assert place.merged(second, second).paths == []
    place.go_back(3, safety=5, paths_b64=["YQ=="])  # single files are an edit of the revision
    assert place.row.source["upload"] == "u2"
    place.go_back(3, safety=6)
    assert place.merged(first, second).paths == [b"a", b"b"]
    assert lifecycle.creation.source_history.public_part(place.row.source) == {"upload": "u1"}
    assert source_trees.of_team(place.team).keys() == {first, second}
    place.go_back(6, safety=7)  # and forward again: a snapshot of what the revision left
    assert place.row.source["tree"] == second
    place.go_back(7, safety=8)
    assert place.row.source["tree"] == first


def test_not_all_sources_of_long_ago_are_kept(place):
    place.is_from(upload="u1", tree="a1" * 32)
    for number in range(2, 40):
        source = {"upload": f"u{number}", "tree": f"{number:064x}", "revision": number}
        place.revise(source, safety=number * 10)
    assert len(place.row.source["before"]) == 20
    assert len(source_trees.of_team(place.team)) == 20
    place.go_back(390, safety=400)
    assert place.row.source["tree"] == f"{38:064x}"
    place.go_back(20, safety=410)
    assert "tree" not in place.row.source


def test_a_tree_that_is_forgotten_is_so_in_all_sources(place):
    first, second = place.keep(a="1\n"), place.keep(a="2\n")
    place.is_from(upload="u1", tree=first)
    place.revise({"upload": "u2", "tree": second, "revision": 2}, safety=3)
    assert source_trees.forget(place.team, lambda tree: tree.hex() == first).keys() == {first}
    assert source_trees.of_team(place.team).keys() == {second}
    place.go_back(3, safety=5)
    assert source_trees.of(place.row, place.store) == ""


def test_nothing_is_overwritten_where_the_source_is_not_known(place):
    base = place.keep(mine="agent\n", same="s\n", setup="built\n")
    coming = place.keep(mine="upstream\n", same="s\n", new="n\n")
    done = place.merged(base, coming)
    assert [(found.path, found.why) for found in done.conflicts] == [(b"mine", "text")]
    assert done.paths == [b"mine", b"new"]
    seen = Snapshot(tree=bytes.fromhex(base))  # the caller knows what is there
    done = place.merged(base, coming, seen)
    assert (done.conflicts, done.taken) == (
        [],
        [b"mine", b"new"],
    )


def test_a_fork_has_the_source_of_its_snapshot(place, alice):
    first, second = place.keep(a="1\n"), place.keep(a="2\n")
    place.is_from(upload="u1", tree=first)
    place.revise({"upload": "u2", "tree": second, "revision": 2}, safety=1)
    for number, tree in ((1, first), (2, second)):
        made = lifecycle.fork(place.row, f"fork-{number}", caller=caller_of(alice), number=number)
        assert (made.source["tree"], "before" in made.source) == (tree, False)


def test_what_is_kept_of_a_source_makes_no_other_source_of_it(place):
    own = {"git": "https://git.example.org/x", "ref": "main"}
    environment = Environment(repository=own["git"], ref=own["ref"], name="own", secrets={"setup": ["KEY"]})
    place.is_from(**own, sha="ab" * 20, tree="ab" * 32, before=[])
    environment.agents = ["builder"]
    assert eligibility.why_not(environment, place.row.source, SimpleNamespace(name="builder")) == ""


def test_a_merge_of_gits_leaves_the_ref_and_the_tree(place):
    own = {"git": "https://git.example.org/x", "ref": "feature", "sha": "ab" * 20, "tree": "cd" * 32}
    place.is_from(**own)
    fetched = {"source": {"git": own["git"], "ref": ""}, "is_origin": True}
    sha = "ef" * 20
    assert revise_git._source_after(place.row, fetched, sha, None) == own | {"sha": sha}
    assert revise_git._source_after(place.row, fetched, sha, "beside") == own
    named = {"source": {"git": own["git"], "ref": "main"}, "is_origin": True}
    assert revise_git._source_after(place.row, named, sha, "rebase") == own | {"sha": sha, "ref": "main"}
    assert revise_git._source_after(place.row, named | {"is_origin": False}, sha, "merge") == own
