"""Clone a source into a folder."""

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

from workspaces.provisioning.git import addresses, alternates, names
from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.provisioning.git.explained import explains, is_served, not_a_repository
from workspaces.provisioning.git.running import LOCAL, CloneFailed, contacted, environment_for, git_in, pin

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
VERIFY = ("rev-parse", "--verify", "--quiet", "--end-of-options")
SHALLOW = (
    "The repository is a shallow clone: the commits before its newest ones are missing, so work on it could not be"
    " pushed. Run `git fetch --unshallow` in it, or name the repository that it was cloned from."
)
PARTIAL = (
    "The repository is a partial clone: some of its files are only where it was cloned from. Name that repository, or"
    " fetch them with `git fetch --refetch --no-filter` first."
)


@explains
def clone(source: Git, target: Path, *, credential: Credential = NONE, cancel: threading.Event | None = None) -> str:
    """Clone into the empty folder `target`, check out the ref and return the commit's SHA ("" for an empty repository).

    A plain name is a branch before it is a tag or a commit, as for `git clone --branch`; refs/heads/NAME and
    refs/tags/NAME are what they say. Setting `cancel` kills git and raises Cancelled; the caller removes what was
    written to `target`.
    """
    options = ("--quiet", "--no-checkout", "--template=", "--no-hardlinks")
    with git_in(target, cancel) as git:
        env = environment_for(source, credential)
        fetch(git, source, env, *options)
        git("remote", "set-url", "origin", source.address)
        if source.ref in ("", "HEAD"):
            if git(*VERIFY, "HEAD", check=False) == "":
                if not is_served(source, env):
                    raise CloneFailed(not_a_repository(source))
                return ""
            git("checkout", "--quiet")
        elif branch := _branch(git, source.ref):
            git("checkout", "--quiet", "-B", branch, "--track", f"refs/remotes/origin/{branch}")
        else:
            git("checkout", "--quiet", "--detach", commit_of(git, source, env))
        return git("rev-parse", "HEAD")


def fetch(git: Callable[..., str], source: Git, env: dict[str, str], *options: str) -> None:
    """Run `git clone` into the current folder. CloneFailed for a source whose history is not whole."""
    is_partial = source.scheme == "file" and _is_partial_clone(git, source.address)
    try:
        git(*pin(source), "clone", *options, "--", contacted(source), ".", env=env)
    except CloneFailed:
        if is_partial:
            raise CloneFailed(PARTIAL) from None
        raise
    if git("rev-parse", "--is-shallow-repository") == "true":
        raise CloneFailed(SHALLOW)


def _is_partial_clone(git: Callable[..., str], folder: str) -> bool:
    """Return whether the repository in a folder of this host is a partial clone.

    Problem 422 if it or its objects are outside of the allowed folders, as those of a linked worktree can be.
    """
    env = LOCAL | {"GIT_CEILING_DIRECTORIES": str(Path(folder).parent)}
    found = git("-C", folder, "rev-parse", "--git-dir", "--git-common-dir", env=env)
    for place in found.splitlines():
        inside = addresses.allowed_folder(os.path.join(folder, place), "Repositories of linked worktrees are cloned")
    alternates.check_objects(inside)
    config = ("config", "--local", "--get-regexp", r"^remote\..*\.promisor$")
    return bool(git("-C", folder, *config, env=env, check=False))


def _branch(git: Callable[..., str], ref: str) -> str:
    """Return the branch of the source that the ref names, "" if none."""
    name = ref.removeprefix(names.HEADS)
    if (
        not name.startswith("refs/")
        and names.is_branch(name)
        and git(*VERIFY, f"refs/remotes/origin/{name}", check=False)
    ):
        return name
    return ""


def commit_of(git: Callable[..., str], source: Git, env: dict[str, str]) -> str:
    """Return the commit that the ref names, fetched if no branch or tag leads to it. CloneFailed if there is none."""
    ref = source.ref
    named = (*VERIFY, f"{ref}^{{commit}}")
    if ref.startswith(names.HEADS):
        sha, wanted = "", ""
    else:
        sha = git(*named, check=False)
        wanted = ref if _COMMIT.fullmatch(ref) else f"{ref}:{ref}" if _is_other_ref(ref) else ""
    if not sha and wanted:  # a host may give it all the same
        fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        git(*pin(source), *fetch, contacted(source), wanted, env=env, check=False)
        sha = git(*named, check=False)
    if not sha:
        raise CloneFailed(f"The repository has no branch, tag or commit {ref!r}.")
    return sha


def _is_other_ref(ref: str) -> bool:
    """Return whether it is the full name of a ref that a clone does not have, such as refs/pull/7/head."""
    return ref.startswith("refs/") and not ref.startswith(names.TAGS) and names.is_branch(ref)


def default_branch(clone: Path) -> str:
    """Return the branch that the source's HEAD named when it was cloned; "" if it named none."""
    with git_in(clone) as git:
        named = git("symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD", check=False)
    return named.removeprefix("origin/")
