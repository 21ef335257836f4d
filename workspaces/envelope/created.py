"""Protected paths that a held program created: no mount and no Landlock rule can name what does not exist yet.

They are found by comparing the tree before the program with the tree after it, so another program's may be among them.
"""

import os
import re

MAX_CONFIG = 64 << 10  # bytes of a new repository's configuration that are read
# What `git init`, `clone`, `submodule` and `worktree` write, none of which names a program.
PLAIN_SECTION = re.compile(
    r'\[(core|init|user|submodule|extensions|remote|branch|submodule "[^"]*"|(remote|branch) "[^"]*")\]'
)
PLAIN_KEYS = frozenset(
    [
        "repositoryformatversion",
        "filemode",
        "bare",
        "logallrefupdates",
        "ignorecase",
        "precomposeunicode",
        "symlinks",
        "worktreeconfig",
        "defaultbranch",
        "name",
        "email",
        "active",
        "url",
        "fetch",
        "merge",
        "rebase",
        "remote",
        "partialclonefilter",
        "promisor",
        "objectformat",
        "tagopt",
    ]
)


def created(before, after, workspace):
    """Return the protected paths of `after` that were not in `before`, relative to the workspace, sorted.

    Left out is what git itself writes into the .git of a new repository.
    """
    new = sorted(set(after.named) - set(before.named))
    found = [path for path in new if not _is_gits_own(path)]
    return [os.path.relpath(path, workspace) for path in found]


def _is_gits_own(path):
    folder, name = os.path.split(path)
    if os.path.islink(path) or not re.search(r"/\.git(/(modules|worktrees)/.+)?$", folder):
        return False
    if name == "config":
        return _is_plain_config(path)
    if name == "hooks":
        return os.path.isdir(path) and all(entry.endswith(".sample") for entry in os.listdir(path))
    if name == "info":
        return os.path.isdir(path) and set(os.listdir(path)) <= {"exclude", "refs", "sparse-checkout"}
    return name == "commondir"


def _is_plain_config(path):
    """Return whether a configuration of git holds nothing but what a new repository needs."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_CONFIG + 1)
    except (OSError, UnicodeDecodeError):
        return False
    lines = [line.strip() for line in text.splitlines()]
    return len(text) <= MAX_CONFIG and all(_is_plain_line(line) for line in lines if line and line[0] not in "#;")


def _is_plain_line(line):
    if line.startswith("["):
        return PLAIN_SECTION.fullmatch(line) is not None
    key, _, value = line.partition("=")
    return key.strip().lower() in PLAIN_KEYS and "::" not in value and not line.endswith("\\")
