"""What Handrail knows about programs: one line each in `tables.py`, a module with a handler for those that need more.

A module names its programs in `@handles` and has one line below.
"""

from . import (  # noqa: F401
    archives,
    awk,
    cmake,
    compilers,
    copies,
    curl,
    dd,
    find,
    git,
    jq,
    network,
    npm,
    pagers,
    patch,
    pip,
    projects,
    pythons,
    queries,
    sed,
    shells,
)
from .registry import HANDLERS, program_effects

__all__ = ["HANDLERS", "program_effects"]
