"""How the database named by DATABASE_URL is connected to."""

from pathlib import Path

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

# A server that cannot be reached is given up after seconds, not after the minutes that TCP would take.
POSTGRESQL = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,  # milliseconds
}
ENGINES = ("django.db.backends.postgresql", "django.db.backends.sqlite3")
SQLITE = {
    # DEFERRED fails at once if a read becomes a write beside another writer; no timeout helps there.
    "transaction_mode": "IMMEDIATE",
    "timeout": 30,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
}


def database(url: str, home: Path) -> dict:
    """Return Django's settings of the database at `url`; of SQLite in HANDRAIL_HOME where it is empty."""
    scheme = url.partition("://")[0]
    try:
        found = dj_database_url.parse(url or f"sqlite:///{home / 'handrail.sqlite3'}")
    except (ValueError, dj_database_url.ParseError):
        found = {"ENGINE": ""}
    if found["ENGINE"] not in ENGINES:  # the sentence leaves out the address, which holds a password
        was = f"one that begins with {scheme[:40]!r}" if "://" in url else "a text that is no address"
        raise ImproperlyConfigured(f"DATABASE_URL must be postgres://USER:PASSWORD@HOST/NAME, not {was}.")
    # The threads that serve requests are few and stay (dashboard/database/threads.py), and so do their connections.
    found |= {"CONN_MAX_AGE": 600, "CONN_HEALTH_CHECKS": True}
    if found["ENGINE"] == "django.db.backends.sqlite3":
        # A file, not memory: web, runner and queue are separate processes, in tests too.
        return found | {"OPTIONS": SQLITE, "TEST": {"NAME": str(home / "test.sqlite3")}}
    return found | {"OPTIONS": POSTGRESQL | found.get("OPTIONS", {})}
