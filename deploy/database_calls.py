"""`make lint`: find calls to the database that have a better way here. Prints each; exit status 1 if there is one."""

import ast
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
APPS = ("dashboard", "workspaces", "approvals")
# A method that only `but` may call, and what to do instead.
RULES = {
    "select_for_update": (
        "dashboard/database/row_locks.py",
        "use locked() or turn() of dashboard/database/row_locks.py, which say why",
    ),
    "iterator": ("", "use in_batches of dashboard/database/batches.py: SQLite cannot write beside an open cursor"),
    "aiterator": ("", "use in_batches of dashboard/database/batches.py: SQLite cannot write beside an open cursor"),
}


def faults(text: str, path: str) -> list[str]:
    """Return the faults of a module, each as "path:line: sentence"."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in RULES:
            but, instead = RULES[node.func.attr]
            if path != but:
                found.append(f"{path}:{node.lineno}: .{node.func.attr}(…): {instead}")
    return found


def main() -> int:
    found = []
    for app in APPS:
        for path in sorted((CHECKOUT / app).rglob("*.py")):
            found += faults(path.read_text(), str(path.relative_to(CHECKOUT)))
    print("\n".join(found), end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
