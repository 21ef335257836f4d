import os
import time

import pytest

from workspaces.envelope import tree_scan
from workspaces.envelope.tree_scan import TreeScan


@pytest.fixture
def tree(tmp_path):
    for path in (
        ".env",
        ".env.example",
        "src/.env.local",
        "src/main.py",
        "deep/er/id_ed25519",
        "node_modules/x/key.pem",
        ".git/hooks/pre-commit",
        ".git/config",
        ".git/index",
        ".git/modules/sub/config",
        ".git/modules/libs/deep/HEAD",
        ".git/modules/libs/deep/config",
        ".git/modules/libs/deep/objects/ab/config",
        ".git/modules/libs/deep/refs/heads/config",
        ".git/modules/config/config",
        ".git/worktrees/side/commondir",
        "bare/HEAD",
        "bare/config/.env",
        "bare/objects/pack/p",
        "bare/refs/heads/config",
        "unlike/HEAD",
        "unlike/config",
        "sub/.git",
        ".claude/settings.json",
        ".codex/auth.json",
        ".github/workflows/ci.yml",
        ".aws/credentials",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    return tmp_path


def names(tree, paths):
    return {os.path.relpath(path, tree) for path in paths}


def test_secrets_and_protected_paths_are_found(tree):
    found = TreeScan(str(tree)).find()
    assert names(tree, found.secrets) == {
        ".env",
        "src/.env.local",
        "deep/er/id_ed25519",
        "bare/config/.env",
        ".codex/auth.json",
        ".aws",
    }
    assert names(tree, found.protected) == {
        ".git/hooks",
        ".git/config",
        ".git/modules/sub/config",
        ".git/modules/libs/deep/config",
        ".git/modules/config/config",
        ".git/worktrees/side/commondir",
        "bare/config",
        "sub/.git",
        ".claude",
        ".codex",
        ".github/workflows",
    }


def test_what_is_made_later_is_found_and_what_is_gone_is_not(tree):
    scan = TreeScan(str(tree))
    scan.find()
    (tree / "src" / "new.key").write_text("x")
    (tree / ".env").unlink()
    found = names(tree, scan.find().secrets)
    assert ("src/new.key" in found, ".env" in found) == (True, False)


def test_a_folder_that_did_not_change_is_not_read_again(tree, monkeypatch):
    scan = TreeScan(str(tree))
    scan.find()
    time.sleep(tree_scan.SETTLED_NS / 1e9 + 0.05)
    scan.find()
    read = []
    real = tree_scan._read
    monkeypatch.setattr(tree_scan, "_read", lambda path, *more: (read.append(path), real(path, *more))[1])
    scan.find()
    assert read == []
    (tree / "src" / "b.key").write_text("x")
    scan.find()
    assert names(tree, read) == {"src"}


def test_a_link_counts_as_what_it_leads_to_and_never_outside(tree):
    (tree / "prod.txt").write_text("x")
    (tree / "src" / ".env").symlink_to("../prod.txt")
    (tree / "src" / "a.key").symlink_to("/etc/passwd")
    (tree / "src" / "b.key").symlink_to("nowhere")
    found = names(tree, TreeScan(str(tree)).find().secrets)
    assert {name for name in found if name in ("prod.txt", "src/.env", "src/a.key", "src/b.key")} == {"prod.txt"}


def test_a_tree_too_large_to_search_is_refused(tree, monkeypatch):
    monkeypatch.setattr(tree_scan, "MAX_FOLDERS", 3)
    with pytest.raises(ValueError, match="folders"):
        TreeScan(str(tree)).find()
