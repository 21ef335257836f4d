"""Several yes-or-no questions to the database in one statement."""

from collections.abc import Sequence

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import QuerySet


def exist(*rows: QuerySet) -> list[bool]:
    """Return of each queryset whether it has a row."""
    found, parts, values = [False] * len(rows), {}, []
    for at, some in enumerate(rows):
        try:
            sql, params = some.order_by().values("pk").query.sql_with_params()
        except EmptyResultSet:  # it can have none
            continue
        parts[at] = f"EXISTS({sql})"
        values += params
    if parts:
        for at, answer in zip(parts, _asked(list(parts.values()), values), strict=True):
            found[at] = bool(answer)
    return found


def _asked(parts: Sequence[str], values: Sequence) -> tuple:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(parts)}", values)
        return cursor.fetchone()
