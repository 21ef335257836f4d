"""What is protected of each coding agent: a module for each, with STARTUP_FILES, SECRETS and PROGRAMS.

In the init's archive they are modules of this package. Everywhere else they are `protected.py` in the agents' folders
(`approvals/agents`). Nothing here may import those, so the package `approvals` hands them over when it is imported.
"""

import pkgutil
from importlib import import_module

_find = None


def hand_over(find):
    """Use the modules that `find` returns as {agent: module}. It is called when they are needed for the first time."""
    global _find
    _find = find


def modules():
    """Return {agent: module}; RuntimeError without any, since then no agent's files would be protected."""
    found = _find() if _find else _packed()
    if not found:
        raise RuntimeError("Import `approvals` first: it knows which files of agents are protected.")
    return found


def _packed():
    return {entry.name: import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)}
