"""A driver is known by name to its own code and to tables of words; all else asks for its capabilities."""

import ast
import re
from pathlib import Path

import pytest

from tests.support import CHECKOUT
from workspaces.drivers.base import get_driver_class
from workspaces.drivers.capabilities import DEFAULT, TABLE, UNKNOWN, drivers_with, of

APPS = ("dashboard", "workspaces", "approvals")
# Words that mean something else as well: a kind of file, a program of the policy. They count beside the word "driver".
COMMON = {"folder", "docker"}
# Who names a driver, and why. It only gets shorter.
EXCEPTIONS = {
    "approvals/policy/conditions.py": "words of isolation levels, one of which has the name of a driver",
    "dashboard/settings.py": "which settings are options of which driver",
    "workspaces/pages/forms.py": "words: what each driver is, in the form of an environment",
    "workspaces/pages/header_facts.py": "words of isolation levels, of which one has the name of a driver",
    "workspaces/provisioning/isolation.py": "words of isolation levels, as above",
    "workspaces/provisioning/presets.py": "which drivers a preset prefers, in which order",
}


def _names_a_driver(node: ast.AST, parent: ast.AST) -> bool:
    """Return whether a string stands for a driver there."""
    if node.value not in TABLE:
        return False
    if node.value not in COMMON:
        return True
    if isinstance(parent, ast.keyword):
        return "driver" in (parent.arg or "")
    if isinstance(parent, ast.Tuple | ast.List | ast.Set | ast.Dict):
        return any(
            isinstance(each, ast.Constant) and each.value in TABLE.keys() - {node.value} for each in ast.walk(parent)
        )
    return isinstance(parent, ast.Compare | ast.BoolOp | ast.Assign | ast.IfExp) and "driver" in ast.unparse(parent)


def _named_in(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    return [
        f"{path.relative_to(CHECKOUT)}:{node.lineno} {node.value}"
        for parent in ast.walk(tree)
        for node in ast.iter_child_nodes(parent)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _names_a_driver(node, parent)
    ]


def test_no_module_outside_of_the_drivers_names_one():
    found, excused = [], set()
    for path in (path for app in APPS for path in sorted((CHECKOUT / app).rglob("*.py"))):
        where = path.relative_to(CHECKOUT).as_posix()
        if where.startswith("workspaces/drivers/") or "/migrations/" in where:
            continue
        if names := _named_in(path):
            excused.add(where)
            found += [] if where in EXCEPTIONS else names
    assert found == []
    assert set(EXCEPTIONS) - excused == set()  # what no longer names one leaves the list


def test_no_page_compares_with_the_name_of_a_driver():
    compared = re.compile(rf"""driver *[!=]= *["'](?:{"|".join(TABLE)})["']""")
    pages = [*(CHECKOUT / "templates").rglob("*.html"), *(CHECKOUT / "static" / "js").rglob("*.js")]
    assert [str(page) for page in pages if compared.search(page.read_text())] == []


def test_only_the_workspace_itself_reads_the_folder_from_its_source():
    read = re.compile(r"""workspace\.source(?:\[["']path|\.get\(["']path|\.path\b)""")
    files = [path for app in APPS for path in (CHECKOUT / app).rglob("*.py")]
    files += (CHECKOUT / "templates").rglob("*.html")
    assert [str(path) for path in files if read.search(path.read_text())] == []


@pytest.mark.parametrize("name", TABLE)
def test_a_driver_has_the_capabilities_of_the_table(name):
    assert get_driver_class(name).capabilities is of(name)
    assert get_driver_class(name).name == name


def test_each_folder_with_a_driver_is_in_the_table():
    folders = {path.parent.name for path in (CHECKOUT / "workspaces/drivers").glob("*/driver.py")}
    assert folders == set(TABLE)
    assert DEFAULT in TABLE


def test_drivers_are_found_by_what_they_can():
    assert drivers_with(own_folder=True) == ["folder"]
    assert drivers_with(files_need_run=True, memory=True) == ["microvm"]
    assert drivers_with(elsewhere=True) == ["kubernetes"]
    assert drivers_with(own_folder=False) == [name for name in TABLE if name != "folder"]
    assert of("none of ours") is UNKNOWN
