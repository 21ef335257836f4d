"""Diffs that people read, and patches that git takes."""

import os
import random
import subprocess
from pathlib import Path

from workspaces.store import LocalTree
from workspaces.store.text import diff_of_change, patch, quoted, text_diff


def test_lines_have_their_numbers_and_counts():
    found = text_diff(b"one\ntwo\nthree\n", b"one\n2\nthree\nfour")
    assert (found.additions, found.deletions, found.binary, found.too_large) == (2, 1, False, False)
    (hunk,) = found.hunks
    assert (hunk.old_start, hunk.old_lines, hunk.new_start, hunk.new_lines) == (1, 3, 1, 4)
    assert [(line.origin, line.old_number, line.new_number, line.content) for line in hunk.lines] == [
        (" ", 1, 1, b"one\n"),
        ("-", 2, None, b"two\n"),
        ("+", None, 2, b"2\n"),
        (" ", 3, 3, b"three\n"),
        ("+", None, 4, b"four"),
    ]
    assert [line.ends_without_newline for line in hunk.lines] == [False, False, False, False, True]


def test_binary_and_huge_files_say_so():
    assert text_diff(b"a\0b", b"text").binary
    assert text_diff(b"x" * 100, b"y", max_bytes=99).too_large


def test_a_huge_file_is_not_read_for_its_diff(store, tree, work):
    a = store.snapshot(tree).tree
    (work / "big.txt").write_bytes(b"line\n" * 2_000_000)
    b = store.snapshot(tree).tree
    (change,) = store.diff(a, b)
    assert diff_of_change(store, change).too_large


def test_names_are_quoted_as_git_does(tmp_path):
    usual = [b"plain", b"a b"]
    names = [*usual, b"tab\t", b'quo"te', b"back\\slash", "grün".encode(), b"\xff\xfe", b"new\nline", b"\x01\x7f"]
    repo = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", repo], check=True)
    for name in names:
        with open(os.path.join(os.fsencode(repo), name), "w"):
            pass
    subprocess.run(["git", "add", "-A"], cwd=repo, check=True)
    said = subprocess.run(["git", "ls-files"], cwd=repo, check=True, capture_output=True).stdout.splitlines()
    assert sorted(said) == sorted(quoted(name) for name in names)


def content_of(root):
    found = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            path = os.path.join(folder, name)
            link = os.path.islink(path)
            data = os.readlink(path) if link else Path(os.fsdecode(path)).read_bytes()
            executable = not link and bool(os.stat(path).st_mode & 0o100)
            found[os.path.relpath(path, os.fsencode(root))] = (link, executable, data)
    return found


def write(path, data, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def test_a_patch_applies_with_git(store, tmp_path):
    work, repo = tmp_path / "tree", tmp_path / "repo"
    random.seed(1)
    noise = random.randbytes(5000)
    write(work / "text.txt", b"one\ntwo\nthree\n")
    write(work / "no newline", b"a\nb")
    write(work / "binary.bin", noise)
    write(work / "moved.txt", b"moved content\n")
    write(work / "run.sh", b"#!/bin/sh\n")
    write(work / "gone.txt", b"bye\n")
    write(work / "grün name.txt", b"x\n")
    write(work / "becomes link", b"file\n")
    write(work / "was folder" / "inner", b"inner\n")
    write(work / "empty", b"")
    write(work / " blank " / " empty ", b"")
    write(work / "latin1.txt", b"caf\xe9\n" * 5)
    (work / "link").symlink_to("text.txt")
    a = store.snapshot(LocalTree(work)).tree
    subprocess.run(["cp", "-a", work, repo], check=True)
    write(work / "text.txt", b"one\n2\nthree\nfour\n")
    write(work / "no newline", b"a\nb\nc")
    write(work / "binary.bin", noise[:2000] + b"\0" + noise[2000:])
    (work / "sub").mkdir()
    (work / "moved.txt").rename(work / "sub" / "moved to here.txt")
    (work / "run.sh").chmod(0o755)
    (work / "gone.txt").unlink()
    write(work / "grün name.txt", b"y\n")
    (work / "becomes link").unlink()
    (work / "becomes link").symlink_to("anywhere")
    (work / "was folder" / "inner").unlink()
    (work / "was folder").rmdir()
    write(work / "was folder", b"now a file\n")
    write(work / "new\nline", b"n\n", 0o755)
    write(work / "new empty", b"")
    write(work / "new.bin", b"\0\1\2")
    (work / "empty").unlink()
    (work / " blank " / " empty ").unlink()
    (work / " blank ").rmdir()
    write(work / "latin1.txt", b"caf\xe9\n" * 4 + b"th\xe9\n")
    (work / "link").unlink()
    (work / "link").symlink_to("run.sh")
    write(work / ".git" / "config", b"[core]\n")
    b = store.snapshot(LocalTree(work)).tree
    for number, (old, new) in enumerate(((a, b), (b, a))):
        file = tmp_path / f"{number}.patch"
        file.write_bytes(b"".join(patch(store, old, new)))
        done = subprocess.run(["git", "apply", file], cwd=repo, capture_output=True)
        assert (done.returncode, done.stderr) == (0, b"")
        expected = tmp_path / f"expected{number}"
        expected.mkdir()
        store.restore(new, LocalTree(expected), journal=tmp_path / "journal")
        assert content_of(repo) == content_of(expected)
