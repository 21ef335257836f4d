"""A program that needs a handler is a module with one line in `programs/__init__.py`."""

import ast
from pathlib import Path

from approvals.policy import programs

FOLDER = Path(programs.__file__).parent


def test_each_module_with_a_handler_has_its_line():
    table = ast.parse((FOLDER / "__init__.py").read_text())
    [lines] = [node for node in table.body if isinstance(node, ast.ImportFrom) and node.module is None]
    handlers = {path.stem for path in FOLDER.glob("*.py") if "\n@handles(" in path.read_text()}
    assert {line.name for line in lines.names} == handlers
