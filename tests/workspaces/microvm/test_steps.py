"""Each step at which the tests kill names a line that the driver still has."""

import ast
import linecache

import pytest

from .steps import FILES, PAUSE, RESUME


def lines_of(function: str) -> list[str]:
    """The source lines of the driver's functions of this name."""
    found = []
    for path in FILES:
        with open(path) as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
                found += [linecache.getline(path, number) for number in range(node.lineno, node.end_lineno + 1)]
    return found


@pytest.mark.parametrize("step", [*PAUSE, *RESUME])
def test_a_step_names_a_line_of_the_driver(step):
    function, _, words = step.partition(": ")
    assert any(words in line for line in lines_of(function))
