"""Copies of a folder's remotes, made with a person's credentials: what `git fetch` in the folder's box then reads.

A copy is a bare repository of ours. Git reads nothing of the folder here: neither its configuration nor its objects.
"""

import hashlib
import os
from pathlib import Path

from dashboard.keys.key_files import make_private
from workspaces.drivers.box import CODE_HOST
from workspaces.host import paths

BRANCHES = "copies"
# The configuration of every git that runs outside the box. Transports are limited by GIT_ALLOW_PROTOCOL.
SETTINGS = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "fetch.recurseSubmodules": "no",
    "submodule.recurse": "false",
    "fetch.writeCommitGraph": "false",
    "init.defaultBranch": "main",
    "init.templateDir": "",
}
# What the box's git may ask of a copy: any commit that it holds.
SERVED = {"uploadpack.allowAnySHA1InWant": "true"}


def folder_of(workspace_id) -> Path:
    """Return the folder that the box of a connected folder sees as `box.CODE_HOST`; make it."""
    folder = make_private(paths.folder_of(workspace_id) / "code-host")
    for name in (BRANCHES, "bin", "nowhere"):
        (folder / name).mkdir(exist_ok=True, mode=0o700)
    return folder


def copy_of(workspace_id, url: str) -> Path:
    return folder_of(workspace_id) / BRANCHES / f"{hashlib.sha256(url.encode()).hexdigest()}.git"


def in_box(workspace_id, url: str) -> str:
    """Return the path of the copy as programs of the box see it."""
    return f"{CODE_HOST}/{BRANCHES}/{copy_of(workspace_id, url).name}"


def settings_of_git() -> dict[str, str]:
    """Return the variables that give git SETTINGS, above what its configuration files say."""
    told = {"GIT_CONFIG_COUNT": str(len(SETTINGS))}
    for number, (name, value) in enumerate(SETTINGS.items()):
        told |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return told


def steps(workspace_id, url: str, refspecs: list[str]) -> list[list[str]]:
    """Return the arguments of the git programs that bring a copy up to date."""
    copy = str(copy_of(workspace_id, url))
    made = [] if os.path.exists(f"{copy}/HEAD") else [["init", "--quiet", "--bare", copy]]
    made += [["--git-dir", copy, "config", name, value] for name, value in SERVED.items()] if made else []
    fetch = ["fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"]
    return [*made, ["--git-dir", copy, *fetch, "--", url, *refspecs]]
