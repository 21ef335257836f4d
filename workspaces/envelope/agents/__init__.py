"""What is protected of each coding agent: a module for each, with STARTUP_FILES, SECRETS and PROGRAMS.

In the init's archive they are modules of this package. Everywhere else they are `protected.py` in the agents' folders
(`approvals/agents`). The package `approvals` hands those over when it is imported; nothing here knows where they are.
"""

import pkgutil
from importlib import import_module

_find = None


def hand_over(find):
    """Use the modules that `find` returns as {agent: module}. It is called when they are needed for the first time."""
    global _find
    _find = find


def modules():
    """Return {agent: module}; ImportError without any, since then no agent's files would be protected."""
    if _find is None and (packed := _packed()):
        return packed
    if _find is None:  # a program that begins in a driver
        import_module("approvals")
    return _find()


def _packed():
    return {entry.name: import_module(f"{__name__}.{entry.name}") for entry in pkgutil.iter_modules(__path__)}
