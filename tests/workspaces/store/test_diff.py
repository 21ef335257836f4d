"""A diff names what changed, how, and nothing else."""


def told(store, a, b):
    return [(change.path, change.kind, change.old_path) for change in store.diff(a, b)]


def test_each_kind_of_change_has_its_name(store, tree, work):
    a = store.snapshot(tree).tree
    (work / "README.md").write_text("# Other words\n")
    (work / "src" / "main.py").rename(work / "src" / "start.py")
    (work / "src" / "deep" / "data.bin").chmod(0o600)
    (work / "link").unlink()
    (work / "link").write_text("now a file")
    (work / "empty").rmdir()
    (work / "fresh").write_text("x")
    b = store.snapshot(tree).tree
    assert told(store, a, b) == [
        (b"README.md", "modified", None),
        (b"empty", "removed", None),
        (b"fresh", "added", None),
        (b"link", "type", None),
        (b"src/deep/data.bin", "mode", None),
        (b"src/start.py", "renamed", b"src/main.py"),
    ]
    modes = {change.path: (change.old_mode, change.new_mode) for change in store.diff(a, b)}
    assert modes[b"src/deep/data.bin"] == (0o100644, 0o100600)
    assert told(store, a, a) == []
