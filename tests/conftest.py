"""The ground that all tests stand on: a home of their own, a cast with fixed roles, and the whole product on demand."""

import functools
import os
import subprocess
import sys
import tempfile

# Before anything of Django loads: settings make folders and keys where these say.
_home = tempfile.TemporaryDirectory(prefix="handrail-tests-")
os.environ["HANDRAIL_HOME"] = _home.name
os.environ["HANDRAIL_RUNTIME"] = os.path.join(_home.name, "run")
os.mkdir(os.path.join(_home.name, "staticfiles"))  # WhiteNoise warns of a folder that is not there
os.environ["HANDRAIL_DEBUG"] = "1"  # pages find static files without collecting them; Django's DEBUG is off in tests
os.environ["DJANGO_SETTINGS_MODULE"] = "dashboard.settings"
for name in (
    "HANDRAIL_PUBLIC_URL",
    "HANDRAIL_HOST",
    "HANDRAIL_PORT",
    "HANDRAIL_FAILPOINT",
    "DATABASE_URL",
):
    os.environ.pop(name, None)
if os.environ.get("HANDRAIL_TEST_DATABASE_URL"):
    os.environ["DATABASE_URL"] = os.environ["HANDRAIL_TEST_DATABASE_URL"]

import django

django.setup()

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction
from django.test import Client, TransactionTestCase

from dashboard.database import threads
from dashboard.event_log import triggers
from dashboard.models import Agent, Event, Membership, Role, Team
from dashboard.people.tokens import make_token
from tests.support import CHECKOUT, lock_order
from tests.support.buckets import seaweed
from tests.support.chromium import chromium  # noqa: F401 - a fixture
from tests.support.kubernetes import base_image, busybox_image, kubernetes, pods, take_own  # noqa: F401 - fixtures
from tests.support.migrated import Migrated
from tests.support.pods import pod_namespace  # noqa: F401 - a fixture
from tests.support.product import PreparedHome, Product

take_own(os.environ)

pytest_plugins = ["tests.support.rings", "tests.support.order", "tests.support.run_log"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Let each worker load its settings after it has made a home of its own, as this process did.

    With the name of the settings in its environment, pytest-django would load them before, with the home of this
    process: all workers would share a key ring, and a test that rotates it would take the keys of another one's rows.
    """
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)


REQUIRED = {name for name in os.environ.get("HANDRAIL_TEST_REQUIRE", "").split(",") if name}


def _empty_tables(_test):
    """Delete what a test with real transactions left.

    Django's own flush empties every table, filled or not, and makes the permissions of all models anew: ten times as
    long, after each of some 800 tests. Events refuse to be deleted, as they should.
    """
    quoted = {name: connection.ops.quote_name(name) for name in _tables()}
    with transaction.atomic(), connection.cursor() as cursor:
        if connection.vendor == "postgresql":  # wait for who still writes, as a transaction on SQLite does anyway
            cursor.execute(f"LOCK TABLE {', '.join(quoted.values())} IN EXCLUSIVE MODE")
        asked = " UNION ALL ".join(
            f"SELECT '{name}' WHERE EXISTS (SELECT 1 FROM {table})"  # noqa: S608 - names of our own tables
            for name, table in quoted.items()
        )
        cursor.execute(asked)
        filled = [name for (name,) in cursor.fetchall()]
        if Event._meta.db_table in filled:
            triggers.remove(connection)
        for name in filled:
            cursor.execute(f"DELETE FROM {quoted[name]}")  # noqa: S608 - as above
        if Event._meta.db_table in filled:
            triggers.install(connection)


@functools.cache
def _tables() -> list[str]:
    """Return all tables but those whose rows Django makes from the models."""
    made = {Permission._meta.db_table, ContentType._meta.db_table}
    return sorted(set(connection.introspection.django_table_names(include_views=False)) - made)


TransactionTestCase._fixture_teardown = _empty_tables


@pytest.fixture(autouse=True)
def one_thread_in_a_transaction(request, monkeypatch):
    """What a test has not committed is seen by its own thread alone, so that one makes all its queries."""
    marker = request.node.get_closest_marker("django_db")
    if marker is None or not marker.kwargs.get("transaction"):
        monkeypatch.setattr(threads, "QUERY_THREADS", 0)
        monkeypatch.setattr(threads, "REQUEST_THREADS", 0)


@pytest.fixture(autouse=True)
def locks_in_order():
    """On PostgreSQL, no transaction of a test locks something before it takes the team's turn."""
    wrong = []
    if connection.vendor != "postgresql":
        yield wrong
        return
    with lock_order.watched(wrong) as watch:
        watch(connection)
        yield wrong
    connection.execute_wrappers.clear()
    assert wrong == []


@pytest.fixture(scope="session")
def require():
    """`require("browser", reason)`: skip for a stated lack, or fail where HANDRAIL_TEST_REQUIRE says it must be there.

    Call it only when the thing is missing.
    """

    def missing(name: str, reason: str):
        if name in REQUIRED:
            pytest.fail(f"{name} is required here, and {reason}", pytrace=False)
        pytest.skip(f"{name}: {reason}")

    return missing


@pytest.fixture(scope="session")
def ordinary_user(require) -> int:
    """The id of a user whom root may become and who can run this checkout; for tests that start something as them."""
    user = 65534
    if os.geteuid() != 0:
        require("user", "only root can become somebody else; the other tests have run as an ordinary user")
    try:
        seen = subprocess.run(
            [sys.executable, "-c", "import django, manage"], cwd=CHECKOUT, user=user, group=user, extra_groups=[]
        ).returncode
    except OSError:
        seen = None
    if seen != 0:
        require(
            "user", f"an ordinary user can't run {sys.executable} in this checkout; a folder above is closed to them"
        )
    return user


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory):
    return Migrated(tmp_path_factory.getbasetemp().parent)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings, migrated_database):
    """With pytest-xdist one process migrates a test database, and the others copy it."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        migrated_database.lend()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker, migrated_database):
    """On PostgreSQL the threads of async views leave connections open, and the test database could not be dropped."""
    yield
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock():
            migrated_database.take_back()
        with django_db_blocker.unblock(), connection._nodb_cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                [connection.settings_dict["NAME"]],
            )


# The cast. Alice, Lena, Bob and Vera belong to the first team, Mallory to the other one.


@pytest.fixture
def team(db):
    return Team.objects.create(slug="payments", name="Payments")


@pytest.fixture
def other_team(db):
    return Team.objects.create(slug="other", name="Other")


def _person(name: str, team, role):
    user = get_user_model().objects.create_user(username=name, email=f"{name}@example.org")
    Membership.objects.create(team=team, user=user, role=role)
    return user


@pytest.fixture
def alice(team):
    return _person("alice", team, Role.ADMIN)


@pytest.fixture
def lena(team):
    return _person("lena", team, Role.LEAD)


@pytest.fixture
def bob(team):
    return _person("bob", team, Role.REVIEWER)


@pytest.fixture
def vera(team):
    return _person("vera", team, Role.VIEWER)


@pytest.fixture
def mallory(other_team):
    """Everything in the other team, nothing in the first."""
    return _person("mallory", other_team, Role.ADMIN)


@pytest.fixture
def agent(team):
    return Agent.objects.create(team=team, name="claude")


@pytest.fixture
def other_agent(other_team):
    return Agent.objects.create(team=other_team, name="claude")


@pytest.fixture
def agent_token(agent):
    return make_token(agent.team, agent=agent)


@pytest.fixture
def other_agent_token(other_agent):
    return make_token(other_agent.team, agent=other_agent)


@pytest.fixture
def token_of():
    """`token_of(person)`: a token of the person in their one team."""
    return lambda user: make_token(user.memberships.get().team, user=user)


@pytest.fixture
def api():
    """`api(token)`: a client whose calls carry the token; `api(token).get("/api/v1/me")`."""
    return lambda token: Client(headers={"Authorization": f"Bearer {token}"})


@pytest.fixture
def browser_of():
    """`browser_of(person)`: a client that is signed in."""

    def signed_in(user):
        client = Client()
        client.force_login(user)
        return client

    return signed_in


@pytest.fixture(scope="session", autouse=True)
def prepared_home(tmp_path_factory):
    """Where the products of this run find a prepared home; with pytest-xdist all its processes share one."""
    base = tmp_path_factory.getbasetemp()
    Product.prepared = PreparedHome((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "prepared")


@pytest.fixture(scope="session")
def product(tmp_path_factory):
    """The whole product, one for the session: `make up` as people run it, on a free port, with a home of its own."""
    sources = tmp_path_factory.mktemp("sources")
    hosts = tmp_path_factory.mktemp("names") / "hosts"
    hosts.touch()
    settings = {
        "HANDRAIL_LOCAL_SOURCES": str(sources),
        "HANDRAIL_EGRESS_HOSTS": str(hosts),
        "HANDRAIL_NOTIFY_NETWORKS": "127.0.0.1/32",  # where tests listen as a push service
        "HANDRAIL_EGRESS_NETWORKS": "127.77.0.0/16",  # a part of loopback that nothing but tests listens on
        # On a slow machine five minutes pass between two tests of one workspace, which would find it paused.
        "HANDRAIL_IDLE_SECONDS": "7200",
    }
    if engine := os.environ.get("HANDRAIL_TEST_DOCKER_HOST"):
        settings["HANDRAIL_DOCKER_HOST"] = engine
    running = Product(tmp_path_factory.mktemp("product"), **settings)
    running.lend_images()
    running.sources = sources  # the folder under which local repositories may be cloned
    running.hosts = hosts  # names that the workspaces' proxy knows
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


@pytest.fixture
def guests_end(product):
    """An emulated guest computes also when nothing is asked of it, so those of a test end with it."""
    yield
    product.end_guests()


@pytest.fixture(scope="session")
def s3(tmp_path_factory, require):
    """A real S3 server."""
    with seaweed(tmp_path_factory.mktemp("seaweed"), require) as bucket:
        yield bucket


@pytest.fixture
def new_product(tmp_path):
    """`new_product(**environment)`: one more, not started yet, for a test that stops, kills or breaks it.

    `fresh=True`: its first start also migrates the database and collects static files.
    """
    made = []

    def make(**environment) -> Product:
        made.append(Product(tmp_path / f"home-{len(made)}", **environment))
        return made[-1]

    yield make
    for product in made:
        product.clean_up()
