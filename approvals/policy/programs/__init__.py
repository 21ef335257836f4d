"""What Handrail knows about programs: one line each in `tables.py`, a handler for those that need more."""

# Each registers its handlers.
from . import cmake, copies, files, git, network, projects, pythons, queries, shells, text  # noqa: F401
from .registry import HANDLERS, program_effects

__all__ = ["HANDLERS", "program_effects"]
