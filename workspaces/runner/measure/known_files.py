"""What the policy asks of a live tree: which files hold secrets, and which programs its packages brought."""

import os
import stat

from workspaces.envelope.tree_scan import UNSEARCHED, is_secret
from workspaces.runner.measure.tree_stats import Counter, LimitReached

MAX_SECRETS = 200
MAX_TOOLS = 50


def secrets(tree, *, seconds: float) -> list[bytes]:
    """Return paths below the tree that hold secrets, without those of fetched packages; within a bound of time."""
    found: list[bytes] = []
    with tree.files() as files:
        counter, waiting = Counter(files, seconds), [b""]
        try:
            while waiting and len(found) < MAX_SECRETS:
                folder = waiting.pop()
                parent = os.fsdecode(folder.rsplit(b"/", 1)[-1]).lower()
                for name, info in counter.entries(folder):
                    path = folder + b"/" + name if folder else name
                    lower, is_folder = os.fsdecode(name).lower(), stat.S_ISDIR(info.st_mode)
                    if is_secret(parent, lower, is_folder):
                        found.append(path)
                    elif is_folder and lower not in UNSEARCHED and lower != ".git":
                        waiting.append(path)
        except LimitReached:
            pass
    return found


def installed(tree, tools: list[str], folder: bytes) -> list[str]:
    """Return those of the tools that lie in node_modules/.bin of the folder or of one above it."""
    found = []
    with tree.files() as files:
        counter = Counter(files, 1.0)
        for tool in tools[:MAX_TOOLS]:
            at = folder
            while True:
                path = b"/".join(filter(None, (at, b"node_modules/.bin", os.fsencode(tool))))
                if counter.exists(path):
                    found.append(tool)
                    break
                if not at:
                    break
                at = at.rpartition(b"/")[0]
    return found
