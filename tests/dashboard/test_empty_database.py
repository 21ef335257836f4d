"""`manage.py migrate` on an empty database makes from the models what its migrations make one after the other."""

import re
import sqlite3
from contextlib import closing

import pytest


def parts(definition: str) -> set[str]:
    """Return the columns and constraints in a CREATE TABLE, in no order; any other definition as it is."""
    head, _, rest = definition.partition("(")
    if not definition.startswith("CREATE TABLE"):
        return {definition}
    found, depth, part = set(), 0, ""
    for sign in rest.rpartition(")")[0]:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and not depth:
            found.add(part.strip())
            part = ""
        else:
            part += sign
    return {head, *found, part.strip()}


def schema(home) -> dict[tuple, set[str]]:
    """Return each table, index and trigger by kind, table and name, without the random ends of names."""
    with closing(sqlite3.connect(home / "handrail.sqlite3")) as opened:
        rows = opened.execute("SELECT type, tbl_name, name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    return {(kind, table, name): parts(re.sub(r"\s+", " ", sql)) for kind, table, name, sql in rows}


def rows(home, query: str) -> list:
    with closing(sqlite3.connect(home / "handrail.sqlite3")) as opened:
        return sorted(opened.execute(query).fetchall())


MIGRATIONS = "SELECT app, name FROM django_migrations"
PERMISSIONS = (
    "SELECT app_label, model, codename, auth_permission.name FROM auth_permission "
    "JOIN django_content_type ON content_type_id = django_content_type.id"
)


@pytest.fixture
def at_once(new_product):
    product = new_product(fresh=True)
    done = product.manage("migrate")
    assert done.returncode == 0, done.stderr
    assert "No migrations to apply" in done.stdout
    return product


def test_tables_rows_and_triggers_are_those_of_the_migrations(at_once, new_product):
    step_by_step = new_product(fresh=True)
    assert step_by_step.manage("migrate", "contenttypes", "0001").returncode == 0  # the database is not empty any more
    done = step_by_step.manage("migrate")
    assert done.returncode == 0, done.stderr
    assert "Applying workspaces." in done.stdout
    made, migrated = schema(at_once.home), schema(step_by_step.home)
    assert made.keys() == migrated.keys()
    assert {name: (made[name], migrated[name]) for name in made if made[name] != migrated[name]} == {}
    for query in (MIGRATIONS, PERMISSIONS):
        assert rows(at_once.home, query) == rows(step_by_step.home, query) != []


def test_the_log_refuses_a_change_in_a_database_made_at_once(at_once):
    triggers = rows(at_once.home, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
    assert {("event_no_update",), ("event_no_delete",)} <= set(triggers)
    assert at_once.manage("makemigrations", "--check", "--dry-run").returncode == 0


def test_a_creation_that_is_killed_leaves_nothing_and_the_next_makes_all(new_product):
    product = new_product(fresh=True, HANDRAIL_FAILPOINT="database.created")
    assert product.manage("migrate").returncode != 0
    assert schema(product.home) == {}
    product.environment.pop("HANDRAIL_FAILPOINT")
    assert product.manage("migrate").returncode == 0
    assert ("table", "approvals_action", "approvals_action") in schema(product.home)
