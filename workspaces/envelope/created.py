"""Protected paths that a held program created: no mount and no Landlock rule can name what does not exist yet.

They are found by comparing the tree before the program with the tree after it, so another program's may be among them.
"""

import os
import re
import stat

from .tree_scan import is_bare

MAX_TEXT = 64 << 10  # bytes of a file of git's that are read
# pattern: a path of at most 4,096 bytes
GIT_FOLDER = re.compile(r"/\.git(/(modules|worktrees)/.+)?$")
# pattern: a path of at most 4,096 bytes
NESTED_FOLDER = re.compile(r"/\.git/(modules|worktrees)/.+$")
# pattern: a path of at most 4,096 bytes
WORKTREE_FOLDER = re.compile(r"/\.git(/modules/.+)?/worktrees/[^/]+$")
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
    found = [path for path in new if not _is_gits_own(path, workspace)]
    return [os.path.relpath(path, workspace) for path in found]


def _is_gits_own(path, workspace):
    folder, name = os.path.split(path)
    if os.path.islink(path):
        return False
    if name == ".git":
        return _leads_to_own_folder(path, workspace)
    if not (GIT_FOLDER.search(folder) or is_bare(folder)):
        return False
    if name == "config":
        return _is_plain_config(path, workspace)
    if name == "hooks":
        return os.path.isdir(path) and all(entry.endswith(".sample") for entry in os.listdir(path))
    if name == "info":
        return os.path.isdir(path) and set(os.listdir(path)) <= {"exclude", "refs", "sparse-checkout"}
    # Anywhere else it makes git read the configuration and the hooks of a folder that the program chose.
    return name == "commondir" and WORKTREE_FOLDER.search(folder) is not None and _text(path).strip() == "../.."


def _leads_to_own_folder(path, workspace):
    """Return whether the file .git of a worktree or submodule names its folder below a .git of this workspace."""
    found = re.fullmatch(r"gitdir: ([^\n]+)\n?", _text(path))
    if found is None:
        return False
    real = os.path.realpath(os.path.join(os.path.dirname(path), found[1]))
    return real.startswith(workspace + "/") and NESTED_FOLDER.search(real) is not None


def _is_plain_config(path, workspace):
    """Return whether a configuration of git holds nothing but what a new repository needs."""
    text = _text(path)
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and line[0] not in "#;"]
    return bool(text) and all(_is_plain_line(line) or _is_own_tree(line, path, workspace) for line in lines)


def _is_plain_line(line):
    if line.startswith("["):
        return PLAIN_SECTION.fullmatch(line) is not None
    key, _, value = line.partition("=")
    return key.strip().lower() in PLAIN_KEYS and "::" not in value and not line.endswith("\\")


def _is_own_tree(line, config, workspace):
    """Return whether a line of a submodule's configuration names the folder whose .git leads back to it."""
    key, _, value = line.partition("=")
    if key.strip().lower() != "worktree" or not NESTED_FOLDER.search(os.path.dirname(config)):
        return False
    tree = os.path.realpath(os.path.join(os.path.dirname(config), value.strip()))
    back = os.path.join(tree, ".git")
    if not tree.startswith(workspace + "/") or os.path.islink(back):
        return False
    found = re.fullmatch(r"gitdir: ([^\n]+)\n?", _text(back))
    return found is not None and os.path.realpath(os.path.join(tree, found[1])) == os.path.dirname(config)


def _text(path):
    """Return the text of a small regular file; "" for anything else."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return ""
            raw = file.read(MAX_TEXT + 1)
            return raw.decode() if len(raw) <= MAX_TEXT else ""
    except (OSError, UnicodeDecodeError):
        return ""
