"""System checks: what must not start, and what an operator must be told at each start."""

import sqlite3

from django.conf import settings
from django.core.checks import Warning, register

OPERATOR = "operator"  # what this host's operator can mend; `manage.py check` and the tests look at all the rest too


@register(OPERATOR)
def sqlite_is_sound(app_configs, **kwargs):
    """The WAL-reset bug of SQLite 3.7.0 to 3.51.2 can corrupt a database that several processes write."""
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3") and sqlite3.sqlite_version_info < (3, 51, 3):
        return [
            Warning(
                f"SQLite {sqlite3.sqlite_version} is older than 3.51.3, which mends a rare corruption of databases "
                "that several processes write. Handrail checks the database at each start and copies it every hour; "
                "PostgreSQL (DATABASE_URL) is the safer choice for a team.",
                id="handrail.W001",
            )
        ]
    return []
