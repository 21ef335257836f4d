"""The picture in docs/architecture.md is the house as it is built: its rooms, what they import, and the contract."""

import re
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.support import CHECKOUT

APPS = ("dashboard", "workspaces", "approvals")
AT_MOST = {"approvals": 26, "workspaces": 28, "dashboard": 28}  # files and folders, migrations left out
NOT_DRAWN = {"__init__", "apps", "settings", "migrations"}  # what wires, and what Django makes
LINE = re.compile(r"^(\w+)?\s{2,}(\w+(?: \w+)*)(?:\s{2,}\S.*)?$|^(handrail_verify)\s{2,}\S.*$")


@pytest.fixture(scope="module")
def rows():
    """Return the rows of the picture from above, each with the full names of its rooms."""
    page = (CHECKOUT / "docs" / "architecture.md").read_text()
    picture = re.search(r"## The house\n.*?```\n(.*?)```", page, flags=re.DOTALL)[1]
    app, found = "", []
    for line in filter(None, picture.splitlines()):
        name, rooms, alone = LINE.fullmatch(line).groups()
        app = name or app
        found.append([alone] if alone else [f"{app}.{room}" for room in rooms.split(" ")])
    return found


@pytest.fixture(scope="module")
def imports():
    """Return {room: {room it imports: an example}} of all drawn rooms."""
    graph = grimp.build_graph(*APPS, "handrail_verify", exclude_type_checking_imports=True, cache_dir=None)
    found = {}
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pair = room_of(module), room_of(imported)
            if None not in pair and pair[0] != pair[1]:
                found.setdefault(pair[0], {})[pair[1]] = f"{module} imports {imported}"
    return found


def room_of(module: str) -> str | None:
    app, _, rest = module.partition(".")
    if app == "handrail_verify":
        return app
    room = rest.partition(".")[0]
    return f"{app}.{room}" if room and room not in NOT_DRAWN else None


def children(app: str) -> set[str]:
    """Return the names of an app's modules and packages."""
    inside = [path for path in (CHECKOUT / app).iterdir() if path.suffix == ".py" or any(path.glob("**/*.py"))]
    return {path.stem for path in inside}


def test_each_room_is_drawn_once(rows):
    drawn = [room for row in rows for room in row]
    there = {f"{app}.{name}" for app in APPS for name in children(app) - NOT_DRAWN}
    assert sorted(drawn) == sorted({*there, "handrail_verify"})
    assert len(rows) <= 20


def test_imports_point_down_or_along_a_row(rows, imports):
    floor = {room: number for number, row in enumerate(rows) for room in row}
    up = [example for room, found in imports.items() for to, example in found.items() if floor[to] < floor[room]]
    assert up == []


def test_no_circle_of_rooms(imports):
    TopologicalSorter({room: set(found) for room, found in imports.items()}).prepare()  # CycleError names one


def test_the_contract_has_the_rows_of_the_picture(rows):
    contracts = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    held = []
    for contract in contracts:
        for layer in contract.get("layers", ()):
            names = re.split(r" [|:] ", layer)
            held.append({f"{app}.{name}" for app in contract.get("containers", ()) for name in names} or set(names))
    assert [set(row) for row in rows if row != ["handrail_verify"] and set(row) not in held] == []
    assert len(held) == len(rows) - 1 + len(("approvals", "workspaces"))  # a row each in the contract of the house


@pytest.mark.parametrize("app", APPS)
def test_an_app_has_few_rooms(app):
    assert len(children(app) - {"migrations"}) <= AT_MOST[app]


@pytest.mark.parametrize("app", APPS)
def test_each_room_says_what_it_is_for(app):
    silent = [path for path in Path(CHECKOUT, app).glob("*/__init__.py") if not path.read_text().startswith('"""')]
    assert [path.parent.name for path in silent if path.parent.name != "migrations"] == []
