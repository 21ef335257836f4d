"""Names of branches: exactly those that `git check-ref-format --branch` takes outside of a repository.

Everything that Handrail pushes or asks goes by the full name, `refs/heads/NAME`, so that a tag of the same name, a
branch called `@` or one called like a commit is never meant instead.
"""

import re

from dashboard.problems import invalid

LONGEST = 200  # characters
HEADS, TAGS = "refs/heads/", "refs/tags/"
_REFUSED = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|(?:^|/)\.|^/|\.lock(?:/|$)|[/.]$|^-|^HEAD$", re.ASCII)


def is_branch(name: str) -> bool:
    """Return whether git takes it as the name of a branch."""
    try:
        name.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return bool(name) and "\n" not in name and not _REFUSED.search(name)


def check_branch(name: str, *, field: str = "branch") -> str:
    """Return the name of a branch. Problem 422, with the field that holds it, for any that git would not take.

    A name that begins with refs/ is refused although git takes it: it would become refs/heads/refs/….
    """
    if name.startswith("refs/"):
        raise invalid("Give the branch's name alone, without refs/heads/.", field=field)
    if len(name) > LONGEST:
        raise invalid(f"A branch name has at most {LONGEST} characters here.", field=field)
    if not is_branch(name):
        raise invalid("Not a valid branch name.", field=field)
    return name
