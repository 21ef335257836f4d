"""Clone a source into a bare repository, from which a workspace fetches without contact to the source."""

import os
import threading
from pathlib import Path
from typing import NamedTuple

from workspaces.provisioning.git import cloning, names
from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.credentials import Credential
from workspaces.provisioning.git.running import CloneFailed, environment_for, git_in

COMING = "refs/handrail/coming"  # names the commit that was asked for, also where no branch or tag does


class Coming(NamedTuple):
    """What the ref of a source names: the branch or tag, "" for neither, and the commit."""

    ref: str
    sha: str


def mirror(source: Git, target: Path, *, credential: Credential, cancel: threading.Event | None) -> Coming:
    """Clone the source's branches and tags into the empty folder `target`, and return what its ref names there.

    Setting `cancel` kills git and raises Cancelled; the caller removes what was written to `target`.
    """
    with git_in(target, cancel) as git:
        env = environment_for(source, credential)
        cloning.fetch(git, source, env, "--quiet", "--bare", "--template=", "--no-hardlinks")
        found = _named(git, source, env)
        git("update-ref", COMING, found.sha)
    make_readable(target)
    return found


def _named(git, source: Git, env: dict[str, str]) -> Coming:
    """Return what the ref names, as `cloning.clone` reads it. CloneFailed if there is none."""

    def commit(name: str) -> str:
        return git(*cloning.VERIFY, f"{name}^{{commit}}", check=False)

    ref = source.ref
    if ref in ("", "HEAD"):
        if not (sha := commit("HEAD")):
            raise CloneFailed("The repository has no commit yet.")
        return Coming(git("symbolic-ref", "--quiet", "HEAD", check=False), sha)
    known = (f"{names.HEADS}{ref}", f"{names.TAGS}{ref}", ref) if not ref.startswith("refs/") else (ref,)
    for name in known:
        if name.startswith("refs/") and (sha := commit(name)):
            return Coming(name, sha)
    return Coming(ref if ref.startswith("refs/") else "", cloning.commit_of(git, source, env))


def make_readable(folder: Path) -> None:
    """Let the workspace's user read the repository, whatever the umask of this process is."""
    for path, _, found in os.walk(folder):
        os.chmod(path, 0o755)
        for name in found:
            os.chmod(os.path.join(path, name), 0o644)
