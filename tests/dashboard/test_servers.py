"""The same product on PostgreSQL, and with Redis as a hint."""

import os
import uuid

import pytest

from tests.approvals.actions.test_rehearsals import Rehearsing
from tests.support.product import Product

WISH = {"tool": "Bash", "arguments": {"command": "git push origin main"}, "mode": "gate"}


class Databases:
    """Databases of the tests' PostgreSQL server, which go together."""

    def __init__(self, url: str):
        self._base, self._names = url.rpartition("/")[0], []

    def make(self, like: str = "template1") -> str:
        """Return the DATABASE_URL of a new one, a copy of the one with this name."""
        self._names.append(f"handrail_{uuid.uuid4().hex}")
        self._run(f"CREATE DATABASE {self._names[-1]} TEMPLATE {like}")
        return f"{self._base}/{self._names[-1]}"

    def remove(self):
        for name in self._names:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str):
        import psycopg

        with psycopg.connect(f"{self._base}/postgres", autocommit=True) as server:
            server.execute(statement)


@pytest.fixture(scope="module")
def databases(require):
    url = os.environ.get("HANDRAIL_TEST_POSTGRES_URL")
    if not url:
        require("postgres", "HANDRAIL_TEST_POSTGRES_URL names no server")
    made = Databases(url)
    yield made
    made.remove()


@pytest.fixture
def new_database(databases):
    """`new_database()`: the DATABASE_URL of a PostgreSQL database that is empty."""
    return databases.make


@pytest.fixture(scope="module")
def migrated(databases, tmp_path_factory):
    """The name of a PostgreSQL database with all tables."""
    url = databases.make()
    product = Product(tmp_path_factory.mktemp("migrated") / "home", DATABASE_URL=url)
    done = product.manage("migrate")
    product.clean_up()
    assert done.returncode == 0, done.stderr
    return url.rpartition("/")[2]


def test_the_product_runs_on_postgresql_and_comes_back_from_a_backup(new_database, new_product, tmp_path):
    product = new_product(DATABASE_URL=new_database())
    product.start()
    agent, reviewer = product.agent_token(), product.person_token("bob")
    action = product.post("/api/v1/actions", agent, WISH).json
    decided = {"verdict": "approve", "digest": action["digest"]}
    assert product.post(f"/api/v1/actions/{action['id']}/decision", reviewer, decided).status == 200
    done = product.manage("backup", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "backup" / "database.dump").exists()

    second = new_product(DATABASE_URL=new_database())
    done = second.manage("restore", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    second.start()
    assert second.get(f"/api/v1/actions/{action['id']}", agent).json["status"] == "cancelled"

    done = second.manage("restore", str(tmp_path / "backup"))
    assert done.returncode == 1
    assert "empty" in done.stderr


def test_a_workspace_lives_on_postgresql(new_database, migrated, new_product):
    product = new_product(DATABASE_URL=new_database(like=migrated), HANDRAIL_HELD="1")
    product.start()
    desk = Rehearsing(product)
    desk.run("echo one > notes")
    asked = desk.ask_for("echo two >> notes")
    found = desk.rehearse(asked)
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    assert desk.over(asked)["status"] == "succeeded"
    assert desk.file("notes") == b"one\ntwo\n"
    desk.ok("POST", f"{desk.path}/pause", expect=202)
    desk.settles("paused")
    desk.ok("POST", f"{desk.path}/resume", expect=202)
    desk.settles("ready")
    newest = max(snapshot["number"] for snapshot in desk.snapshots())
    desk.ok("POST", f"{desk.path}/snapshots/1/restore", expect=202)
    desk.settles("ready")
    assert desk.file("notes") is None
    assert max(snapshot["number"] for snapshot in desk.snapshots()) > newest


def test_a_backup_of_one_kind_of_database_is_not_put_back_into_the_other(new_database, new_product, tmp_path):
    on_sqlite = new_product()
    on_sqlite.prepare()
    assert on_sqlite.manage("backup", str(tmp_path / "backup")).returncode == 0
    done = new_product(DATABASE_URL=new_database()).manage("restore", str(tmp_path / "backup"))
    assert done.returncode == 1
    assert "This backup is of a sqlite database, but DATABASE_URL is a postgresql database." in done.stderr


def test_a_backup_that_lacks_replaced_migrations_is_not_put_back(new_database, migrated, new_product, tmp_path):
    import psycopg

    first, second = new_database(like=migrated), new_database()
    older = new_product(DATABASE_URL=first)
    with psycopg.connect(first) as opened:
        opened.execute("DELETE FROM django_migrations WHERE app = 'approvals' AND name = '0039_delivery_failures'")
    assert older.manage("backup", str(tmp_path / "backup")).returncode == 0
    done = new_product(DATABASE_URL=second).manage("restore", str(tmp_path / "backup"))
    assert done.returncode == 1
    assert "The database of this backup was last used by an older Handrail" in done.stderr
    assert "it lacks approvals.0039_delivery_failures," in done.stderr
    with psycopg.connect(second) as opened:
        assert opened.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_events_cannot_be_changed_on_postgresql_either(new_database, migrated, new_product):
    import psycopg

    url = new_database(like=migrated)
    product = new_product(DATABASE_URL=url)
    product.agent_token()
    for statement in (
        "UPDATE dashboard_event SET verb = 'x'",
        "DELETE FROM dashboard_event",
        "TRUNCATE dashboard_event",
    ):
        with psycopg.connect(url) as opened, pytest.raises(psycopg.errors.RaiseException, match="append-only"):
            opened.execute(statement)


def test_a_database_server_that_is_away_is_said_in_words(new_product):
    product = new_product(DATABASE_URL="postgres://nobody@127.0.0.1:1/nothing")
    done = product.manage("doctor")
    assert done.returncode == 1
    assert "FAIL  database: PostgreSQL is not available" in done.stdout
    started = product.manage("up")
    assert started.returncode == 1
    assert "The database does not answer" in started.stderr
    assert "Traceback" not in started.stderr
