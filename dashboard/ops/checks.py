"""System checks: configurations that must not start, and warnings for the operator at each start."""

import sqlite3

from django.conf import settings
from django.core.checks import Error, Tags, Warning, register

from dashboard.ops import database

OPERATOR = "operator"  # what this host's operator can fix; `manage.py check` and the tests run all other checks too


@register(OPERATOR)
def sqlite_is_sound(app_configs, **kwargs):
    """Warn about the WAL-reset bug of SQLite 3.7.0 to 3.51.2: it can corrupt a database with several writers."""
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3") and sqlite3.sqlite_version_info < (3, 51, 3):
        return [
            Warning(
                f"SQLite {sqlite3.sqlite_version} is older than 3.51.3, which fixes a rare corruption of databases "
                "with several writers. Handrail checks the database at each start and copies it every hour. For a "
                "team, use PostgreSQL (DATABASE_URL).",
                id="handrail.W001",
            )
        ]
    return []


@register(Tags.database)
def database_is_of_a_fit_version(app_configs, databases=(), **kwargs):
    """Refuse `manage.py migrate` on a database that this code cannot go on from; other commands do not ask."""
    try:
        if databases:
            database.refuse_misfit(database.applied_migrations())
    except database.DatabaseRefused as refused:
        return [Error(str(refused), id="handrail.E001")]
    return []
