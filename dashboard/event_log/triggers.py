"""Database triggers that make the event log append-only, against accidental changes over any database connection."""

_MESSAGE = "events are append-only"

_SQLITE = {
    "install": [
        f"CREATE TRIGGER event_no_{verb.lower()} BEFORE {verb} ON dashboard_event "
        f"BEGIN SELECT RAISE(ABORT, '{_MESSAGE}'); END"
        for verb in ("UPDATE", "DELETE")
    ],
    "remove": [f"DROP TRIGGER IF EXISTS event_no_{verb}" for verb in ("update", "delete")],
}
_POSTGRES = {
    "install": [
        "CREATE FUNCTION event_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION '{_MESSAGE}'; END $$",
        "CREATE TRIGGER event_append_only BEFORE UPDATE OR DELETE ON dashboard_event "
        "FOR EACH ROW EXECUTE FUNCTION event_append_only()",
        "CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON dashboard_event "
        "FOR EACH STATEMENT EXECUTE FUNCTION event_append_only()",
    ],
    "remove": [
        "DROP TRIGGER IF EXISTS event_append_only ON dashboard_event",
        "DROP TRIGGER IF EXISTS event_no_truncate ON dashboard_event",
        "DROP FUNCTION IF EXISTS event_append_only()",
    ],
}


_PRESENT = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'dashboard_event'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE tgrelid = 'dashboard_event'::regclass AND tgenabled <> 'D'",
}
_NAMES = {
    "sqlite": {"event_no_update", "event_no_delete"},
    "postgresql": {"event_append_only", "event_no_truncate"},
}


def missing(connection) -> list[str]:
    """Return the names of the triggers that the database lacks or has disabled, sorted."""
    with connection.cursor() as cursor:
        cursor.execute(_PRESENT[connection.vendor])
        return sorted(_NAMES[connection.vendor] - {name for (name,) in cursor.fetchall()})


def _run(connection, what):
    statements = (_SQLITE if connection.vendor == "sqlite" else _POSTGRES)[what]
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def install(connection):
    _run(connection, "install")


def restore(connection) -> list[str]:
    """Install the triggers again if some are missing or disabled; return the names of those."""
    gone = missing(connection)
    if gone:
        remove(connection)
        install(connection)
    return gone


def remove(connection):
    _run(connection, "remove")
