"""A bare repository that a code host on this machine serves over git's smart HTTP, with one commit on main."""

import subprocess
from pathlib import Path

from tests.support.code_host_records import FullCodeHost

IDENTITY = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *args: str) -> str:
    return subprocess.run(
        ["git", *IDENTITY, *args], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


class GitSource:
    """`host` serves the bare repository team/shop below `root`."""

    def __init__(self, root: Path, kind: str = "gitea"):
        self.root, self.bare = root, root / "team" / "shop.git"
        tree = root / "tree"
        git(root, "init", "-q", "-b", "main", str(tree))
        (tree / "cart.py").write_text("total = 0\n")
        git(tree, "add", ".")
        git(tree, "commit", "-qm", "Begin")
        git(root, "clone", "-q", "--bare", str(tree), str(self.bare))
        git(self.bare, "config", "http.receivepack", "true")
        self.host = FullCodeHost(kind, root)

    @property
    def address(self) -> str:
        return f"{self.host.url}/team/shop.git"

    def at(self, ref: str) -> str:
        """Return the object that a ref names, "" without one."""
        told = subprocess.run(
            ["git", "rev-parse", "-q", "--verify", ref], cwd=self.bare, capture_output=True, text=True, check=False
        )
        return told.stdout.strip()

    def somebody_pushes(self, branch: str) -> str:
        """Somebody else adds a commit to a branch; return it."""
        tree = git(self.bare, "rev-parse", f"{branch}^{{tree}}")
        made = git(self.bare, "commit-tree", "-m", "Theirs", "-p", self.at(branch), tree)
        git(self.bare, "update-ref", f"refs/heads/{branch}", made)
        return made
