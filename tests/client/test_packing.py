"""What push sends of a folder: what git keeps, with or without a repository, and not what a pattern names."""

import io
import os
import subprocess
import tarfile

import pytest

from handrail_client.errors import HandrailError
from handrail_client.packing import pack

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]


def write(folder, **files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def git(folder, *words):
    subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)


def sent(folder, *ignore) -> set[str]:
    out = io.BytesIO()
    pack(folder, out, ignore)
    out.seek(0)
    with tarfile.open(fileobj=out) as tar:
        return {member.name for member in tar}


TREE = {
    ".gitignore": "node_modules/\n*.mp4\n!kept.mp4\n/only-here\n**/deep/secret\n",
    "a.mp4": "",
    "kept.mp4": "",
    "only-here": "",
    "sub/only-here": "",
    "sub/.gitignore": "*.log\n!mine.log\n",
    "sub/x.log": "",
    "sub/mine.log": "",
    "sub/node_modules/x/index.js": "",
    "node_modules/x/.gitignore": "!*\n",
    "far/deep/secret": "",
    "far/caf\u00e9": "",
    "far/:(top)x": "",
    "far/a\nb": "",
}
KEPT = {".gitignore", "kept.mp4", "sub/only-here", "sub/.gitignore", "sub/mine.log", "far/caf\u00e9"}
KEPT |= {"far/:(top)x", "far/a\nb"}


@pytest.mark.parametrize("kind", ["no repository", "repository", "below one", "ignored by one", "in a hook"])
def test_each_gitignore_holds(tmp_path, monkeypatch, kind):
    folder = tmp_path / "outer" / "folder"
    write(folder, **TREE)
    (folder / "link").symlink_to("/usr/bin/python3")
    if kind == "repository":
        git(folder, "init", "-q")
    if kind in ("below one", "ignored by one"):
        git(folder.parent, "init", "-q")
        write(folder.parent, **{".gitignore": "folder/\n" if kind == "ignored by one" else "kept.mp4\n"})
    if kind == "in a hook":
        git(tmp_path, "init", "-q", "other")
        monkeypatch.setenv("GIT_DIR", str(tmp_path / "other/.git"))
        monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other/.git/index"))
    assert sent(folder) == KEPT | {"link"}


def test_patterns_leave_out_more(tmp_path):
    write(tmp_path, **{"a.py": "", "dist/a": "", "dist/deep/keep": "", "b.log": "", "out/dist/a": "", "x/b.log": ""})
    write(tmp_path, **{":(top)y": "", "y": ""})
    assert sent(tmp_path, "/dist/", "*.log", "!/b.log", "/y") - {":(top)y"} == {"a.py", "out/dist/a", "b.log"}
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    write(tmp_path, **{"handrail.toml": 'ignore = ["dist/", "new*"]\n', "dist/new": "", "new": ""})
    assert {"dist/a", "new", "dist/new"} & sent(tmp_path) == {"dist/a"}  # as in snapshots: what git tracks stays
    assert not {"dist/a", "out/dist/a"} & sent(tmp_path, "dist/")


@pytest.mark.parametrize("text", ['ignore = "x"', "ignore = [1]", "ignore = [", "\udcff"])
def test_an_unreadable_project_file_sends_nothing(tmp_path, text):
    (tmp_path / "handrail.toml").write_bytes(os.fsencode(text))
    with pytest.raises(HandrailError, match=r"handrail\.toml"):
        sent(tmp_path)


def test_repositories_inside_go_along(tmp_path):
    write(tmp_path / "leaf", **{"leaf": "", ".gitignore": "*.o\n"})
    git(tmp_path / "leaf", "init", "-q")
    git(tmp_path / "leaf", "add", ".")
    git(tmp_path / "leaf", "commit", "-qm", "leaf")
    whole = tmp_path / "whole"
    whole.mkdir()
    git(whole, "init", "-q")
    git(whole, "submodule", "--quiet", "add", "../leaf", "lib/leaf")
    write(whole, **{"lib/leaf/x.o": "", "lib/leaf/new": ""})
    git(tmp_path, "clone", "-q", "leaf", "whole/other")
    inside = {f"{place}/{name}" for place in ("lib/leaf", "other") for name in ("leaf", ".gitignore")}
    assert sent(whole) == {".gitmodules", "lib/leaf/new"} | inside
    assert sent(whole, "other/", "/lib/leaf/new") == {".gitmodules", "lib/leaf/leaf", "lib/leaf/.gitignore"}


def test_without_git_nothing_ignored_is_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "no"))
    write(tmp_path, **{"a": "", "b/c": ""})
    assert sent(tmp_path) == {"a", "b/c"}
    with pytest.raises(HandrailError, match="git is not installed"):
        sent(tmp_path, "a")
    write(tmp_path, **{"b/.gitignore": "c\n"})
    with pytest.raises(HandrailError, match="git is not installed"):
        sent(tmp_path)
