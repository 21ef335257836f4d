"""Folders that an agent filled are removed, however deep, whatever their permissions, and nothing outside of them."""

import os

from workspaces.runner.removing import remove


def test_a_folder_deeper_than_any_path_is_removed(tmp_path):
    here = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(2500):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)
    remove(tmp_path / "d")
    assert os.listdir(tmp_path) == []


def test_what_links_and_permissions_hide_is_removed_and_their_targets_stay(tmp_path):
    outside = tmp_path / "outside"
    (outside / "kept").mkdir(parents=True)
    gone = tmp_path / "gone"
    (gone / "a" / "b").mkdir(parents=True)
    (gone / "a" / "b" / "file").touch()
    (gone / "a" / "link").symlink_to(outside)
    (gone / "a").chmod(0o000)
    gone.chmod(0o500)
    remove(gone)
    remove(gone)  # there is nothing any more
    (tmp_path / "link").symlink_to(outside)
    remove(tmp_path / "link")
    assert sorted(os.listdir(tmp_path)) == ["outside"]
    assert os.listdir(outside) == ["kept"]
