"""Bring the commits of a source into a workspace's git repository, and merge or rebase onto them, as `git pull` does.

Git runs in a sandbox made for one step, in which the tree can be written, as the workspace's own user and without
network. Of the settings of the repository and of the home it reads only some that run no program and lead
nowhere else; hooks, filters and merge drivers do not run (git/merge_step.py).
"""

import os
from pathlib import Path
from typing import NamedTuple

from workspaces.models import Workspace
from workspaces.provisioning import git_identity
from workspaces.provisioning.git.mirroring import Coming
from workspaces.runner.git import sandbox

SECONDS = 600.0
MERGE, REBASE, BESIDE = "merge", "rebase", "beside"


class CannotMerge(Exception):
    """Git refused or failed; the message is a sentence, `paths` are those that are in its way."""

    def __init__(self, message: str, paths: list[bytes]):
        super().__init__(message)
        self.paths = paths


class Conflict(NamedTuple):
    """A path that git could not merge; `lines` are the [first, last] of each part that it marked in the file."""

    path: bytes
    lines: list[list[int]]


class Fetched(NamedTuple):
    """What came: the commit, the request of the next step, and, if it was rehearsed, what a merge would do."""

    head: str
    coming: str
    request: dict
    conflicts: list[Conflict]
    changed: list[bytes]


class Merging:
    """The steps of one revision in one folder of this host, which holds the workspace's tree."""

    def __init__(self, workspace: Workspace, tree: Path, source: Path, remote: str, *, is_origin: bool):
        self.workspace, self.tree, self.source = workspace, tree, source
        self.request = {
            "origin": is_origin,
            "remote": remote,
            "identity": git_identity.identity(workspace),
            "ignored": git_identity.IGNORED.decode(),
        }

    async def fetch(self, coming: Coming, *, asked: bool, how: str, rehearse: bool) -> Fetched:
        """Fetch the source's commits: `origin/*` and tags follow it. `asked`: the caller named the ref.

        `rehearse`: return what a merge would change, and where it would conflict.
        """
        what = {"ref": coming.ref, "sha": coming.sha, "asked": asked, "how": how, "rehearse": rehearse}
        told = await self._step("fetch", **what)
        request = {name: told[name] for name in ("coming", "ref", "since")}
        changed = [os.fsencode(path) for path in told["changed"]]
        return Fetched(told["head"], told["coming"], request, _conflicts(told), changed)

    async def merge(self, fetched: Fetched, how: str) -> tuple[str, list[Conflict]]:
        """Merge what was fetched, or rebase onto it; return the commit that HEAD is then, and the conflicts."""
        told = await self._step(how, **fetched.request)
        return told["head"], _conflicts(told)

    async def _step(self, name: str, **what) -> dict:
        request = self.request | what | {"do": name}
        try:
            told = await sandbox.change(
                self.workspace, self.tree, "merge_step.py", request, seconds=SECONDS, source=self.source
            )
        except sandbox.NoAnswer as error:
            raise CannotMerge(str(error), []) from None
        if "error" in told:
            raise CannotMerge(told["error"], [os.fsencode(path) for path in told.get("paths", ())])
        return told


def _conflicts(told: dict) -> list[Conflict]:
    return [Conflict(os.fsencode(row["path"]), row["lines"]) for row in told["conflicts"]]
