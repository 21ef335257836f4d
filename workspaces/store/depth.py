"""How deep folders may be nested, and the process limits that a walk of that depth needs.

Runs inside guests too, so it uses the standard library only.
"""

import resource
import sys

MAX_DEPTH = 2000  # nested folders: about the deepest that a path of 4,095 bytes can name
RAISE_LIMITS_AT = 100  # folder depth at which the limits are raised; few trees reach it


def raise_limits() -> None:
    """Raise the recursion and descriptor limits for MAX_DEPTH nested folders: a few frames and one descriptor each."""
    # From Python 3.11 on, frames of Python functions are not on the C stack, so raising the limit is safe.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + 8 * MAX_DEPTH))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DEPTH + 1000 if hard == resource.RLIM_INFINITY else min(hard, MAX_DEPTH + 1000)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def raise_limits_at(path: bytes) -> None:
    """Raise the limits when a walk that visits every level reaches the depth RAISE_LIMITS_AT."""
    if path.count(b"/") == RAISE_LIMITS_AT:
        raise_limits()
