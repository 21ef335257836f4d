"""`python -m workspaces.ignoring`: find what ignore patterns match, for the web process, which kills a late one.

Patterns are an agent's text and become regular expressions, some of which take minutes.
"""

import sys
from fnmatch import fnmatchcase
from functools import lru_cache

import pathspec

from dashboard.workers.loop import answer_lines
from workspaces.envelope.sensitive_names import NOT_SECRET, SECRET_NAMES, any_takes_effect

# What tools make again from other files. Names that a project may use for its own, such as `build`, are not among them.
BUILT = [
    "node_modules/",
    "bower_components/",
    "__pycache__/",
    "*.pyc",
    "*.pyo",
    ".venv/",
    "venv/",
    ".tox/",
    ".nox/",
    ".eggs/",
    "*.egg-info/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".ipynb_checkpoints/",
    ".gradle/",
    ".next/",
    ".nuxt/",
    ".svelte-kit/",
    ".parcel-cache/",
    ".turbo/",
    ".nyc_output/",
    ".terraform/",
    ".DS_Store",
]


def answer(request: dict) -> dict:
    """Return {ignored}: the indexes of the `paths` that are ignored in each of the `trees`.

    A tree is {folder: the lines of its .gitignore}; the folder is "" for the root, else it ends with a slash.
    """
    trees = [_Rules(folders) for folders in request["trees"]]
    return {"ignored": [n for n, path in enumerate(request["paths"]) if all(rules.ignore(path) for rules in trees)]}


class _Rules:
    """The ignore patterns of one tree: of the build folders, and of each .gitignore."""

    def __init__(self, folders: dict[str, list[str]]):
        self.built = pathspec.GitIgnoreSpec.from_lines(BUILT)
        self.specs = {folder: _spec(lines) for folder, lines in folders.items()}
        self.ignore_folder = lru_cache(maxsize=None)(self._is_ignored)

    def ignore(self, path: str) -> bool:
        """Return whether the path, or a folder that it is in, is ignored."""
        ends = [at + 1 for at, letter in enumerate(path) if letter == "/"]
        inside = (path[:end] for end in ends)
        return any(self.ignore_folder(folder) for folder in inside) or self._is_ignored(path)

    def _is_ignored(self, path: str) -> bool:
        """Return whether the last pattern that matches the path ignores it; a folder's name ends with a slash."""
        if self.built.match_file(path):
            return True
        if _is_always_shown(path):
            return False
        # Git asks the .gitignore nearest to the file first.
        ends = [at + 1 for at, letter in enumerate(path[:-1]) if letter == "/"]
        for folder in (*(path[:end] for end in reversed(ends)), ""):
            spec = self.specs.get(folder)
            found = spec.check_file(path[len(folder) :]).include if spec else None
            if found is not None:
                return found
        return False


def _spec(lines: list[str]) -> pathspec.GitIgnoreSpec | None:
    try:
        return pathspec.GitIgnoreSpec.from_lines(lines)
    except ValueError:  # a line that is no pattern, as git has it
        return None


def _is_always_shown(path: str) -> bool:
    """Return whether a review must not miss it whatever is ignored: it takes effect by itself, or may hold secrets."""
    parts = path.rstrip("/").split("/")
    if any_takes_effect([part.lower() for part in parts]):
        return True
    name = parts[-1].lower()
    if name == ".gitignore":
        return True
    is_secret = any(fnmatchcase(name, pattern) for pattern in SECRET_NAMES)
    return is_secret and not any(fnmatchcase(name, pattern) for pattern in NOT_SECRET)


if __name__ == "__main__":
    answer_lines(sys.stdin.buffer, sys.stdout.buffer, answer)
