"""Sources of every kind that git knows: taken whole, or refused with a sentence that says what to do."""

import shutil
import subprocess

import pytest

from dashboard.problems import Problem
from workspaces.provisioning.git import addresses, cloning
from workspaces.provisioning.git.running import CloneFailed

GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"]


def git(folder, *args):
    done = subprocess.run([*GIT, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def sources(tmp_path, settings):
    settings.HANDRAIL_LOCAL_SOURCES = [tmp_path / "sources"]
    (tmp_path / "sources").mkdir()
    return tmp_path / "sources"


def repository(folder, *options):
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "trunk", *options)
    (folder / "lib").mkdir()
    for number in range(4):
        (folder / "lib" / f"{number}.txt").write_text(f"{number}\n" * 50)
        (folder / "README").write_text(f"version {number}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", f"commit {number}")
    git(folder, "config", "uploadpack.allowFilter", "true")
    return folder


def cloned(tmp_path, address, ref=""):
    target = tmp_path / "clone"
    target.mkdir()
    return target, cloning.clone(addresses.check_git(str(address), ref), target)


def assert_is_whole(target, sha, source):
    assert sha == git(source, "rev-parse", "HEAD")
    assert git(target, "ls-tree", "-r", "HEAD") == git(source, "ls-tree", "-r", "HEAD")
    assert git(target, "rev-list", "--count", "HEAD") == "4"
    assert git(target, "status", "--porcelain") == ""
    assert git(target, "fsck") == ""
    assert (target / "lib" / "3.txt").exists()


def test_a_repository_of_sha256_is_cloned(sources, tmp_path):
    source = repository(sources / "new", "--object-format=sha256")
    target, sha = cloned(tmp_path, source)
    assert len(sha) == 64
    assert_is_whole(target, sha, source)
    shutil.rmtree(target)
    _, again = cloned(tmp_path, source, sha)
    assert again == sha


def test_a_sparse_checkout_is_cloned_with_all_of_its_files(sources, tmp_path):
    source = repository(sources / "sparse")
    git(source, "sparse-checkout", "set", "nothing")
    assert not (source / "lib").exists()
    target, sha = cloned(tmp_path, source)
    assert_is_whole(target, sha, source)


def test_a_linked_worktree_is_cloned_at_its_own_branch(sources, tmp_path):
    main = repository(sources / "main")
    git(main, "worktree", "add", "-q", sources / "linked", "-b", "side")
    (sources / "linked" / "README").write_text("side\n")
    git(sources / "linked", "commit", "-q", "--amend", "-am", "side")
    target, sha = cloned(tmp_path, sources / "linked")
    assert_is_whole(target, sha, sources / "linked")
    assert git(target, "branch", "--show-current") == "side"


@pytest.mark.parametrize("by", ["worktree", "link"])
def test_a_repository_outside_of_the_allowed_folders_is_not_reached_by_one_inside(by, sources, tmp_path):
    outside = repository(tmp_path / "private")
    inside = sources / "inside"
    if by == "worktree":
        git(outside, "worktree", "add", "-q", inside)
    else:
        inside.mkdir()
        (inside / ".git").symlink_to(outside / ".git")
    with pytest.raises(Problem, match="linked worktrees are cloned from the folders in HANDRAIL_LOCAL_SOURCES only"):
        cloned(tmp_path, inside)
    assert list((tmp_path / "clone").iterdir()) == []


@pytest.mark.parametrize("ref", ["", "trunk", "side"])
def test_a_shallow_repository_is_refused_before_work_is_done_on_it(ref, sources, tmp_path):
    full = repository(tmp_path / "full")
    git(full, "branch", "side")
    git(sources, "clone", "-q", "--bare", "--depth", "2", "--no-single-branch", full.as_uri(), "shallow.git")
    with pytest.raises(CloneFailed, match=r"is a shallow clone.*git fetch --unshallow"):
        cloned(tmp_path, sources / "shallow.git", ref)
    git(sources / "shallow.git", "fetch", "-q", "--unshallow")
    shutil.rmtree(tmp_path / "clone")
    assert_is_whole(*cloned(tmp_path, sources / "shallow.git", ref), full)


def test_a_partial_clone_is_refused_and_nothing_is_fetched_for_it(sources, tmp_path):
    full = repository(tmp_path / "full")
    source = sources / "partial"
    git(sources, "clone", "-q", "--filter=blob:none", full.as_uri(), source)
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec git-upload-pack "$@"\n')
    program.chmod(0o755)
    git(source, "config", "remote.origin.uploadpack", str(program))
    with pytest.raises(CloneFailed, match=r"is a partial clone.*git fetch --refetch --no-filter"):
        cloned(tmp_path, source)
    assert not (tmp_path / "ran").exists()
    git(source, "config", "--unset", "remote.origin.uploadpack")
    git(source, "fetch", "-q", "--refetch", "--no-filter")
    shutil.rmtree(tmp_path / "clone")
    assert_is_whole(*cloned(tmp_path, source), full)


def test_a_partial_clone_that_has_all_objects_is_cloned(sources, tmp_path):
    full = repository(tmp_path / "full")
    git(sources, "clone", "-q", "--filter=blob:limit=1m", full.as_uri(), "partial")
    assert_is_whole(*cloned(tmp_path, sources / "partial"), full)


def borrowing(folder, lender, *, line=""):
    """A repository whose objects are those of another one."""
    git(folder.parent, "clone", "-q", "--bare", "--shared", lender, folder)
    if line:
        (folder / "objects" / "info" / "alternates").write_text(line)
    return folder


@pytest.mark.parametrize("how", ["named", "relative", "nested", "linked objects", "linked pack", "linked object"])
def test_objects_outside_of_the_allowed_folders_are_not_reached(how, sources, tmp_path):
    outside = repository(tmp_path / "private")
    objects = outside / ".git" / "objects"
    if how == "nested":
        near = borrowing(sources / "near", outside)
        inside = borrowing(sources / "inside", near, line=f"# near\n{near}/objects\n")
    elif how.startswith("linked"):
        inside = borrowing(sources / "inside", outside, line="\n")
        git(outside, "repack", "-adq")
        if how == "linked object":
            [pack] = [file for file in (objects / "pack").iterdir() if file.suffix == ".pack"]
            for file in (pack, pack.with_suffix(".idx")):
                (inside / "objects" / "pack" / file.name).symlink_to(file)
        else:
            name = "pack" if how == "linked pack" else "."
            place = inside / "objects" / name
            shutil.rmtree(place)
            place.symlink_to(objects / name)
    else:
        line = "../../../private/.git/objects" if how == "relative" else str(objects)
        inside = borrowing(sources / "inside", outside, line=f"{line}\n")
    with pytest.raises(
        Problem, match=r"objects elsewhere .* are cloned from the folders in HANDRAIL_LOCAL_SOURCES only"
    ):
        cloned(tmp_path, inside)
    assert list((tmp_path / "clone").iterdir()) == []


def test_a_repository_that_borrows_from_allowed_folders_is_cloned(sources, tmp_path):
    lender = repository(sources / "lender")
    near = borrowing(sources / "near", lender)
    gone = f"{tmp_path}/gone/objects"
    inside = borrowing(sources / "inside", near, line=f"{gone}\n../../near/objects\n../objects\n")
    assert_is_whole(*cloned(tmp_path, inside), lender)


@pytest.mark.parametrize("line", ['"/a\\tb"\n', "#\n" * 40_000])
def test_places_of_objects_that_are_not_read_are_refused(line, sources, tmp_path):
    inside = borrowing(sources / "inside", repository(sources / "lender"), line=line)
    with pytest.raises(CloneFailed, match="in a way that is not read here"):
        cloned(tmp_path, inside)


def test_a_repository_beside_the_named_folder_is_not_taken_for_it(sources, tmp_path):
    """git tries /x.git where /x is no repository."""
    outside = repository(tmp_path / "private")
    (sources / "inside").mkdir()
    (sources / "inside.git").symlink_to(outside)
    with pytest.raises(CloneFailed, match="not a git repository"):
        cloned(tmp_path, sources / "inside")
