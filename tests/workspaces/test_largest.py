"""The largest files and folders of a tree, as the page on disk usage lists and removes them."""

from workspaces.runner.measure.disk_usage import largest
from workspaces.store.tree import LocalTree


def test_two_levels_are_listed_and_a_repository_is_one_entry(tmp_path):
    for name in (".git/objects/aa/bb", "vendor/lib/.git/HEAD", "vendor/lib/main.c", "src/a/deep.py", "README"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * 5000)
    found = dict(largest(LocalTree(tmp_path)))
    assert sorted(found) == [b".git", b"README", b"src", b"src/a", b"vendor", b"vendor/lib"]
    assert found[b".git"] > 5000
