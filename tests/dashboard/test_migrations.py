"""One migration for each app makes a new database; one that lacks some of those that it replaces is refused."""

import sqlite3
from contextlib import closing

import pytest

REFUSED = (
    "was last used by an older Handrail: it lacks workspaces.0052_stated_code_hosts, which this version no longer has."
)


def in_database(home, *statements: str) -> list:
    """Return the rows of the last statement."""
    with closing(sqlite3.connect(home / "handrail.sqlite3")) as opened, opened:
        return [opened.execute(statement).fetchall() for statement in statements][-1]


def schema(home) -> list:
    return in_database(home, "SELECT type, tbl_name, name, sql FROM sqlite_master ORDER BY 1, 2, 3")


def applied(home) -> list:
    return in_database(home, "SELECT app, name FROM django_migrations ORDER BY 1, 2")


@pytest.fixture
def older(new_product):
    """A database in the middle of the migrations that the first ones replace."""
    product = new_product()
    product.prepare()
    in_database(product.home, "DELETE FROM django_migrations WHERE name = '0052_stated_code_hosts'")
    return product


def test_a_creation_that_was_cut_short_goes_on_at_the_next_start(new_product):
    whole, cut_short = new_product(), new_product(fresh=True)
    whole.prepare()
    assert cut_short.manage("migrate", "workspaces").returncode == 0
    assert "approvals" not in {app for app, _ in applied(cut_short.home)}
    done = cut_short.manage("migrate")
    assert done.returncode == 0, done.stderr
    assert schema(cut_short.home) == schema(whole.home)
    assert applied(cut_short.home) == applied(whole.home)


def test_a_new_database_is_as_the_models_say_and_its_log_refuses_changes(new_product):
    product = new_product()
    product.prepare()
    triggers = {name for kind, _, name, _ in schema(product.home) if kind == "trigger"}
    assert {"event_no_update", "event_no_delete"} <= triggers
    assert product.manage("makemigrations", "--check", "--dry-run").returncode == 0


def test_a_database_with_all_replaced_migrations_goes_on_as_it_is(new_product):
    product = new_product()
    product.prepare()
    in_database(product.home, "DELETE FROM django_migrations WHERE app = 'approvals' AND name = '0001_initial'")
    before = schema(product.home)
    done = product.manage("migrate")
    assert (done.returncode, "No migrations to apply" in done.stdout) == (0, True)
    assert schema(product.home) == before


@pytest.mark.parametrize("command", ["up", "migrate"])
def test_a_database_that_lacks_a_replaced_migration_is_refused_and_left_alone(older, command):
    before = (older.home / "handrail.sqlite3").read_bytes()
    done = older.manage(command)
    assert done.returncode == 1
    assert f"This database {REFUSED} Nothing was changed." in done.stderr
    assert (older.home / "handrail.sqlite3").read_bytes() == before
    assert not (older.home / "backups").exists()


def test_doctor_says_which_replaced_migration_a_database_lacks(older):
    done = older.manage("doctor")
    assert done.returncode == 1
    assert f"FAIL  database: SQLite: it {REFUSED}" in done.stdout


def test_a_backup_that_lacks_a_replaced_migration_is_not_put_back(older, new_product, tmp_path):
    assert older.manage("backup", str(tmp_path / "backup")).returncode == 0
    elsewhere = new_product(fresh=True)
    done = elsewhere.manage("restore", str(tmp_path / "backup"))
    assert done.returncode == 1
    assert f"The database of this backup {REFUSED} Nothing was changed." in done.stderr
    assert {path.name for path in elsewhere.home.iterdir()} <= {"keys", "handrail.sqlite3"}
    assert not (elsewhere.home / "handrail.sqlite3").exists() or schema(elsewhere.home) == []
