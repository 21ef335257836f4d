"""Kinds of operations: each module here has one `Kind`, and both have the kind's name.

A class is named like its file, with a verb before a noun (`command.py`: `RunCommand`).
"""

import pkgutil
from importlib import import_module

from workspaces import extensions
from workspaces.runner.job import Kind


def _kind_in(module_name: str) -> type[Kind]:
    module = import_module(f"{__name__}.{module_name}")
    [kind] = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Kind) and value.__module__ == module.__name__
    ]
    return kind


_by_module = {name: _kind_in(name) for _, name, _ in pkgutil.iter_modules(__path__)}
KINDS = {kind.stored or name: kind() for name, kind in _by_module.items()}  # by `Operation.kind`


def kind_named(name: str) -> Kind:
    """Return the `Kind` for `Operation.kind`. Raise KeyError for a name this version does not know."""
    return extensions.kinds[name] if name in extensions.kinds else KINDS[name]
