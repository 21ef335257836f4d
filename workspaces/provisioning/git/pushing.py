"""Push a bundle of a workspace's commits to its source, and ask the source for its branches."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.credentials import NONE, Credential
from workspaces.provisioning.git.running import CloneFailed, contacted, environment_for, git_in, pin

Check = Callable[[Path, str, list[str]], None]


def push_bundle(
    scratch: Path, source: Git, branch: str, *, check: Check, credential: Credential = NONE, again: bool = False
) -> str:
    """Push HEAD of the bundle in `scratch` to a branch of the source, never by force; return the commit's SHA.

    `check(repository, sha, tips)` refuses by raising, before anything is pushed: `tips` are those of the branches that
    the source has, which this repository may lack. Raise CloneFailed if a branch there has this commit already, unless
    it is this branch and `again` is true.

    The bundle comes from a workspace and is untrusted: its objects are checked, and it carries no git configuration.
    """
    repository = scratch / "repository"
    repository.mkdir()
    with git_in(repository) as git:
        git("init", "--quiet", "--bare", "--template=")
        git("-c", "fetch.fsckObjects=true", "fetch", "--quiet", "../bundle", "HEAD:refs/heads/pushed")
        sha = git("rev-parse", "refs/heads/pushed")
        env = environment_for(source, credential)
        there = _branches_there(git, source, env)
        check(repository, sha, list(there.values()))
        if again and there.get(branch) == sha:
            return sha
        if sha in there.values():
            named = branch if there.get(branch) == sha else next(name for name, tip in there.items() if tip == sha)
            raise CloneFailed(f"Nothing to push: HEAD, {sha[:12]}, is what {named} there has already.")
        git(*pin(source), "push", "--quiet", contacted(source), f"{sha}:refs/heads/{branch}", env=env)
    return sha


def default_branch(source: Git, *, credential: Credential = NONE) -> str:
    """Return the branch that the source's HEAD names, "" if it does not say. Raise CloneFailed."""
    with tempfile.TemporaryDirectory() as folder, git_in(Path(folder)) as git:
        env = environment_for(source, credential)
        told = git(*pin(source), "ls-remote", "--symref", "--", contacted(source), "HEAD", env=env)
    named = re.search(r"^ref: refs/heads/(.+)\tHEAD$", told, re.MULTILINE)
    return named[1] if named else ""


def _branches_there(git: Callable[..., str], source: Git, env: dict[str, str]) -> dict[str, str]:
    """Return {branch: SHA} of the source as it is now."""
    told = git(*pin(source), "ls-remote", "--quiet", "--heads", "--", contacted(source), env=env)
    rows = (line.split("\t", 1) for line in told.splitlines() if "\t" in line)
    return {name.removeprefix("refs/heads/"): sha for sha, name in rows}
