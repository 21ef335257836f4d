"""Clone a source into a folder."""

import re
import threading
from pathlib import Path

from workspaces.provisioning.git.addresses import Git
from workspaces.provisioning.git.running import CloneFailed, contacted, environment_for, git_in, pin

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def clone(source: Git, target: Path, *, cancel: threading.Event | None = None) -> str:
    """Clone into the empty folder `target`, check out the ref and return the commit's SHA ("" for an empty repository).

    Setting `cancel` kills git and raises Cancelled; the caller removes what was written to `target`.
    """
    verify = ("rev-parse", "--verify", "--quiet")
    options = ("--quiet", "--no-checkout", "--template=", "--no-hardlinks")
    with git_in(target, cancel) as git:
        env = environment_for(source)
        git(*pin(source), "clone", *options, "--", contacted(source), ".", env=env)
        git("remote", "set-url", "origin", source.address)
        if not source.ref:
            if git(*verify, "HEAD", check=False) == "":
                return ""
            git("checkout", "--quiet")
        elif git(*verify, "--end-of-options", f"refs/remotes/origin/{source.ref}", check=False):
            git("checkout", "--quiet", "-B", source.ref, "--track", f"origin/{source.ref}")
        else:
            named = (*verify, "--end-of-options", f"{source.ref}^{{commit}}")
            sha = git(*named, check=False)
            if not sha and _COMMIT.fullmatch(source.ref):  # no branch leads to it; a host may give it all the same
                fetch = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
                git(*pin(source), *fetch, contacted(source), source.ref, env=env, check=False)
                sha = git(*named, check=False)
            if not sha:
                raise CloneFailed(f"The repository has no branch, tag or commit {source.ref!r}.")
            git("checkout", "--quiet", "--detach", sha)
        return git("rev-parse", "HEAD")
